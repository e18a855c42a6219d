"""What a model of sub-words holds, and how it fits a text."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from dtmt_tf.config import BLANK, UNK_ID
from dtmt_tf.text.subword import Subwords

LINES_AT_ONCE = 10_000
CHARACTERS_AT_ONCE = 1 << 18  # whose pieces are read as text, in some 100 bytes of memory each
SHARES = 0.5, 0.9, 0.99  # of a text, whose pieces are counted


@dataclass(frozen=True)
class Usage:
    """How pieces are used in a text.

    Args:
        counts: How often each piece occurs, `[V]`; <eos> is not counted.
        lines: Number of lines.
        words: Number of words, which are what stands between blanks.
        characters: Number of characters, blanks included.
        unknown: What <unk> stands for, and how often: characters; of a model of words, words.
        unknown_lines: Number of lines with an <unk>.
    """

    counts: npt.NDArray[np.int64]
    lines: int
    words: int
    characters: int
    unknown: Counter[str]
    unknown_lines: int

    @property
    def total(self) -> int:
        """Number of pieces in the text."""
        return int(self.counts.sum())

    def most_frequent(self) -> list[int]:
        """Returns ids from the most frequent to the least; of equal ones the smaller first."""
        return [int(k) for k in np.argsort(-self.counts, kind="stable")]

    def pieces_of_share(self, share: float) -> int:
        """Returns how many of the most frequent pieces make a share of the text, in (0, 1]."""
        covered = np.cumsum(self.counts[self.most_frequent()])
        return int(np.searchsorted(covered, share * self.total)) + 1


def names(subwords: Subwords) -> list[str]:
    """Returns the pieces in the order of their ids."""
    return [subwords.processor.id_to_piece(k) for k in range(subwords.size)]


def kinds(subwords: Subwords) -> dict[str, int]:
    """Returns how many pieces there are of each kind; those of which there are none are left out.

    Only what no earlier kind has is counted: special, bytes, characters, what begins a word, what
    goes on with one.
    """
    processor = subwords.processor

    def kind(k: int, name: str) -> str:
        if processor.is_control(k) or processor.is_unknown(k):
            return "special"
        if processor.is_byte(k):
            return "bytes"
        if len(name.removeprefix(BLANK)) <= 1:
            return "characters"
        return "beginnings of words" if name.startswith(BLANK) else "insides of words"

    found = Counter(kind(k, name) for k, name in enumerate(names(subwords)))
    order = "special", "bytes", "characters", "beginnings of words", "insides of words"
    return {name: found[name] for name in order if found[name]}


def usage(subwords: Subwords, lines: Iterable[str]) -> Usage:
    """Cuts a text up and counts.

    Args:
        subwords: The model.
        lines: The text; read once.
    """
    counts = np.zeros(subwords.size, np.int64)
    num_lines = words = characters = unknown_lines = 0
    unknown: Counter[str] = Counter()
    lines = iter(lines)
    while block := list(itertools.islice(lines, LINES_AT_ONCE)):
        rows = [row[:-1] for row in subwords.encode_lists(block)]  # without <eos>
        flat = np.fromiter(itertools.chain.from_iterable(rows), np.int64)
        counts += np.bincount(flat, minlength=subwords.size)
        num_lines += len(block)
        words += sum(len(line.split()) for line in block)
        characters += sum(map(len, block))
        strange = [line for line, row in zip(block, rows, strict=True) if UNK_ID in row]
        unknown_lines += len(strange)
        for portion in _portions(strange):
            surfaces, ids = subwords.surfaces(portion).flat_values, subwords.tokens(portion)
            found = zip(surfaces.numpy(), ids.flat_values.numpy(), strict=True)
            for text in (text.decode(errors="replace") for text, k in found if k == UNK_ID):
                unknown.update([text] if subwords.of_words else text)
    return Usage(counts, num_lines, words, characters, unknown, unknown_lines)


def _portions(lines: Iterable[str]) -> Iterator[list[str]]:
    """Yields lines in lists of as many as have some `CHARACTERS_AT_ONCE`; one at least."""
    portion: list[str] = []
    size = 0
    for line in lines:
        portion.append(line)
        size += len(line)
        if size >= CHARACTERS_AT_ONCE:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion


def split(subwords: Subwords, line: str) -> list[str]:
    """Returns the pieces of a line as a model reads it; what is unknown is <unk>."""
    known, (read,) = names(subwords), subwords.read(tf.constant([line])).numpy()
    return [known[k] for k in subwords.encode_lists([read.decode()])[0][:-1]]
