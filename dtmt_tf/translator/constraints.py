"""What translations must hold, and what they may be made of."""

from __future__ import annotations

import functools
import itertools
import re
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from dtmt_tf.config import BLANK, EOS_ID, UNK_ID
from dtmt_tf.errors import UserError

Phrase = tuple[int, ...]
LATIN = "[A-Za-z0-9]"
CARRIERS = "。,.、-a"  # texts that a term is read after; the first that keeps to itself is taken


class Constraints:
    """A glossary and a vocabulary in a model's sub-words; `Translator.constraints` makes them.

    A source term counts where it stands as it is written, case included: as whole words, in a
    language with blanks; in others Latin letters and digits beside it make another word. (Texts and
    terms come here as the model reads them: a no-break space is a blank.) Of terms that begin at
    one place the longest counts, and none that begins inside of it. Its target term is then in the
    translation, once or more. What follows it may lengthen its last word. In a language without
    blanks it is spelt as it is inside of a sentence.

    Args:
        subwords: Texts `[B]` to target ids `[B, T]`, padded with 0, without <eos>.
        size: Number of target sub-words.
        blanks: Whether source and target language have blanks between words.
        glossary: Target terms by their source terms.
        vocabulary: Words whose sub-words alone may be written, besides those of target terms;
            others can be spelt of them. Anything by default.

    Raises:
        UserError: If a term is empty, or it or a word has characters that the sub-words lack, or
            there is neither term nor word, or a vocabulary without a word.
        TypeError: If the vocabulary is one string.
    """

    def __init__(
        self,
        subwords: Any,
        size: int,
        blanks: tuple[bool, bool],
        glossary: Mapping[str, str],
        vocabulary: Iterable[str] | None,
    ) -> None:
        if isinstance(vocabulary, str):
            raise TypeError("vocabulary should be several words. Received: one string.")
        glossary = {source.strip(): target.strip() for source, target in glossary.items()}
        words = None if vocabulary is None else [word for word in vocabulary if word.strip()]
        if not (glossary or words):
            raise UserError("There is no term and no word to constrain translations with.")
        if words == []:
            raise UserError("The vocabulary has no word. Leave it out to allow any.")
        if not all(itertools.chain(*glossary.items())):
            raise UserError("A term of the glossary is empty.")
        source_blanks, target_blanks = blanks
        self._phrases: dict[str, Phrase] = {}
        self._targets = glossary
        self._target_blanks = target_blanks
        spelt = _ids if target_blanks else _ids_inside
        for (source, target), ids in zip(
            glossary.items(), spelt(subwords, list(glossary.values())), strict=True
        ):
            _check_writable(f"The term {target!r} of the glossary", target, ids)
            self._phrases[source] = ids
        longest_first = sorted(map(re.escape, glossary), key=len, reverse=True)
        any_term = f"(?:{'|'.join(longest_first)})"
        if source_blanks:
            any_term = f"(?<!{_word()}){any_term}(?!{_word()})"
        else:  # but words of Latin letters are words there, too
            any_term = f"(?:(?<!{LATIN})|(?!{LATIN})){any_term}(?:(?<!{LATIN})|(?!{LATIN}))"
        self._terms = re.compile(any_term)
        self.allowed: tf.Tensor | None = None
        if words is not None:
            rows = _ids(subwords, words)
            for word, ids in zip(words, rows, strict=True):
                _check_writable(f"The word {word!r} of the vocabulary", word, ids)
            if not target_blanks:
                rows += _ids_inside(subwords, words)
            allowed = np.zeros(size, bool)
            allowed[[EOS_ID, *itertools.chain(*self._phrases.values(), *rows)]] = True
            self.allowed = tf.constant(allowed)

    @property
    def has_terms(self) -> bool:
        """Whether there is a glossary."""
        return bool(self._phrases)

    def targets(self, text: str) -> list[str]:
        """Returns the target terms of the source terms that a text holds."""
        return [self._targets[term] for term in self.phrases(text)]

    def hold(self, targets: Iterable[str], translation: str) -> bool:
        """Whether a translation holds target terms; what follows one may lengthen its last word."""
        before = f"(?<!{_word()})" if self._target_blanks else ""
        return all(re.search(before + re.escape(term), translation) for term in targets)

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
            f"{what} can not be written: the model's vocabulary lacks it, or one of its characters."
        )


def _ids(subwords: Any, texts: Sequence[str]) -> list[Phrase]:
    rows = subwords(tf.constant(texts, tf.string)).numpy().tolist()
    return [tuple(token for token in row if token) for row in rows]


def _ids_inside(subwords: Any, texts: Sequence[str]) -> list[Phrase]:
    """Returns the ids of texts as they follow other text, without the blank that begins a line.

    A text is as it is alone if the sub-words join it with every carrier, as those of words do.
    """
    found = _ids(subwords, texts)
    for sign in reversed(CARRIERS):
        carrier, *rows = _ids(subwords, [sign, *(sign + text for text in texts)])
        for k, row in enumerate(rows):
            inside = row[len(carrier) :]
            if inside and UNK_ID not in carrier and row[: len(carrier)] == carrier:
                found[k] = inside
    return found


def _word() -> str:
    """Returns a pattern of one character of a word; joiners stand inside of words."""
    return rf"[\w\u200c\u200d{_marks()}]"


@functools.cache
def _marks() -> str:
    r"""Returns all characters that combine with the one before them, as ranges of a pattern.

    Python's `\w` has none of them, and they are as little the end of a word as letters.
    """
    marks = [
        code for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code))[0] == "M"
    ]
    groups = itertools.groupby(enumerate(marks), lambda pair: pair[1] - pair[0])
    ranges = ([code for _, code in group] for _, group in groups)
    return "".join(f"{chr(each[0])}-{chr(each[-1])}" for each in ranges)
