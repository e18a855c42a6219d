"""What translations must hold, and what they may be made of."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from dtmt_tf.config import EOS_ID, UNK_ID
from dtmt_tf.errors import UserError

Phrase = tuple[int, ...]
BLANK = "\u2581"  # SentencePiece's


class Constraints:
    """A glossary and a vocabulary in a model's sub-words; `Translator.constraints` makes them.

    A source term counts where it stands as it is written, case included: as whole words, in a
    language with blanks; the longest term counts where terms overlap. Its target term is then in
    the translation, once or more. What follows it may lengthen its last word.

    Args:
        subwords: Texts `[B]` to target ids `[B, T]`, padded with 0, without <eos>.
        size: Number of target sub-words.
        blanks: Whether the source language has blanks between words.
        glossary: Target terms by their source terms.
        vocabulary: Words whose sub-words alone may be written, besides those of target terms;
            others can be spelt of them. Anything by default.

    Raises:
        UserError: If a term is empty, or it or a word has characters that the sub-words lack, or
            there is neither term nor word.
    """

    def __init__(
        self,
        subwords: Any,
        size: int,
        blanks: bool,
        glossary: Mapping[str, str],
        vocabulary: Iterable[str] | None,
    ) -> None:
        words = None if vocabulary is None else [word for word in vocabulary if word.strip()]
        if not (glossary or words):
            raise UserError("There is no term and no word to constrain translations with.")
        if not all(source.strip() and target.strip() for source, target in glossary.items()):
            raise UserError("A term of the glossary is empty.")
        self._phrases: dict[str, Phrase] = {}
        for (source, target), ids in zip(
            glossary.items(), _ids(subwords, glossary.values()), strict=True
        ):
            _check_writable(f"The term {target!r} of the glossary", target, ids)
            self._phrases[source] = ids
        longest_first = sorted(map(re.escape, glossary), key=len, reverse=True)
        any_term = f"(?:{'|'.join(longest_first)})"
        self._terms = re.compile(rf"(?<!\w){any_term}(?!\w)" if blanks else any_term)
        self.allowed: tf.Tensor | None = None
        if words:
            rows = _ids(subwords, words)
            for word, ids in zip(words, rows, strict=True):
                _check_writable(f"The word {word!r} of the vocabulary", word, ids)
            allowed = np.zeros(size, bool)
            allowed[[EOS_ID, *itertools.chain(*self._phrases.values(), *rows)]] = True
            self.allowed = tf.constant(allowed)

    @property
    def has_terms(self) -> bool:
        """Whether there is a glossary."""
        return bool(self._phrases)

    def phrases(self, text: str) -> dict[str, Phrase]:
        """Returns the target terms, as ids, by the source terms that a text holds."""
        if not self._phrases:
            return {}
        found = dict.fromkeys(match[0] for match in self._terms.finditer(text))
        return {term: self._phrases[term] for term in found}


def _check_writable(what: str, text: str, ids: Phrase) -> None:
    if BLANK in text:
        raise UserError(f"{what} can not be written: a model writes {BLANK} as a blank.")
    if UNK_ID in ids:
        raise UserError(
            f"{what} can not be written: the model's sub-words lack one of its characters."
        )


def _ids(subwords: Any, texts: Iterable[str]) -> list[Phrase]:
    rows = subwords(tf.constant(list(texts), tf.string)).numpy().tolist()
    return [tuple(token for token in row if token) for row in rows]
