"""Attention between sub-words as alignment between words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dtmt_tf.config import BLANK, EOS_ID, SPECIAL_PIECES, UNK_ID

_UNKNOWN = BLANK + SPECIAL_PIECES[UNK_ID]  # of a model of words
_BYTE = re.compile("<0x([0-9A-F]{2})>")  # a sub-word that stands for one byte


@dataclass(frozen=True)
class Alignment:
    """Which words of a source a model looked at for each word of its translation.

    Attributes:
        source: Words of the source. In a language without blanks each sub-word counts as one.
        target: Words of the translation.
        attention: For each target word the attention on each source word, in [0, 1]: the mean over
            heads and over the sub-words of the target word, the sum over those of the source word.
            What is missing to 1 is on the end of the sentence.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    attention: tuple[tuple[float, ...], ...]

    @property
    def links(self) -> tuple[tuple[int, int], ...]:
        """For each target word the source word with most attention, as `(source, target)`.

        Words are counted from 0. A target word has no link if the end of the sentence has more.
        """
        found = []
        for target, row in enumerate(self.attention):
            source = max(range(len(row)), key=row.__getitem__, default=-1)
            if source >= 0 and row[source] >= 1 - sum(row):
                found.append((source, target))
        return tuple(found)

    @property
    def pharaoh(self) -> str:
        """The links as `"0-0 2-1"`, source before target."""
        return " ".join(f"{source}-{target}" for source, target in self.links)


def align_words(
    source: tuple[str, Sequence[str], bool],
    target: tuple[str, Sequence[str], bool],
    attention: np.ndarray,
) -> Alignment:
    """Returns the alignment of words for the attention between sub-words.

    Args:
        source: The text, its sub-words, whether its language has blanks between words.
        target: The same of the translation.
        attention: `[T, S]`, a row for each sub-word of the target.
    """
    source_words, source_owners = words_of(*source)
    text, pieces, blanks = target
    counts = _replaced(text.split(), pieces)
    pieces = [piece for piece, count in zip(pieces, counts, strict=True) for _ in range(count)]
    attention = np.repeat(attention, counts, axis=0)
    target_words, target_owners = words_of(text, pieces, blanks)
    onto = _indicator(source_owners, len(source_words))  # [S, source words]
    of = _indicator(target_owners, len(target_words))  # [T, target words]
    of /= np.maximum(of.sum(axis=0), 1)
    weights = of.T @ attention.astype(np.float64) @ onto
    return Alignment(
        tuple(source_words), tuple(target_words), tuple(tuple(row) for row in weights.tolist())
    )


def _replaced(words: Sequence[str], pieces: Sequence[str]) -> list[int]:
    """Returns how many words of a translation each piece is: a replaced <unk> may be several.

    Each takes the words up to where those of the pieces behind it follow, the last one the rest.
    """
    counts = [1] * len(pieces)
    names = [piece.removeprefix(BLANK) for piece in pieces if piece != SPECIAL_PIECES[EOS_ID]]
    unknown = [place for place, piece in enumerate(pieces) if piece == _UNKNOWN]
    spare = max(0, len(words) - len(names))
    for place, end in zip(unknown, [*unknown[1:], None], strict=False):
        behind = names[place + 1 : end]
        rest = words[sum(counts[:place]) + 1 :]  # one word at least is its own
        fits = (more for more in range(spare + 1) if rest[more:][: len(behind)] == behind)
        more = spare if end is None else next(fits, 0)
        counts[place] += more
        spare -= more
    return counts


def words_of(text: str, pieces: Sequence[str], blanks: bool) -> tuple[list[str], list[int]]:
    """Returns the words of a text, and the word that each sub-word is of; the end is of none, -1.

    Args:
        text: The text. Its words are taken where they are as many as those of the sub-words,
            which do not show what the vocabulary lacks.
        pieces: Its sub-words as SentencePiece names them.
        blanks: Whether its language has blanks between words; if not, each sub-word is a word, and
            each character that is spelt in bytes.
    """
    words: list[bytes] = []
    owners: list[int] = []
    new = True  # whether the next character begins a word
    for piece in pieces:
        if piece == SPECIAL_PIECES[EOS_ID]:
            owners.append(-1)
            continue
        content = piece.replace(BLANK, "")
        byte = _BYTE.fullmatch(content)
        begins = not (byte and 0x80 <= int(byte[1], 16) < 0xC0)  # else it goes on with a character
        new = new or piece.startswith(BLANK) or (not blanks and begins)
        characters = bytes.fromhex(byte[1]) if byte else content.encode()
        if characters and new:
            words.append(b"")
            new = False
        owners.append(len(words) if new else len(words) - 1)  # blanks go with the next word
        if characters:
            words[-1] += characters
    owners = [min(owner, len(words) - 1) for owner in owners]
    plain = text.split()
    if len(plain) == len(words):
        return plain, owners
    return [word.decode("utf-8", "replace") for word in words], owners


def _indicator(owners: Sequence[int], words: int) -> np.ndarray:
    """Returns `[N, words]`: 1 where a sub-word is of a word."""
    matrix = np.zeros([len(owners), words])
    for k, owner in enumerate(owners):
        if owner >= 0:
            matrix[k, owner] = 1
    return matrix
