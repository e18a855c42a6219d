"""Statistics of a tokenised corpus."""

from __future__ import annotations

import numpy as np

from dtmt_tf.config import UNK_ID
from dtmt_tf.data.check import TRAIN
from dtmt_tf.data.shards import Ids, PairsBySplit, Shards, as_ids
from dtmt_tf.text import Vocabulary


class Figures:
    """Figures on one side of a split, gathered as its pairs go by.

    Args:
        name: The split.
        side: The language.
        vocab_size: Size of the vocabulary.
    """

    def __init__(self, name: str, side: str, vocab_size: int) -> None:
        self.name = name
        self.side = side
        self._ids = np.zeros(vocab_size, np.int64)  # how often each occurs
        self._lengths = np.zeros(1, np.int64)  # how many sentences have each length

    def add(self, ids: np.ndarray, lengths: np.ndarray) -> None:
        """Adds sentences.

        Args:
            ids: All their sub-words with <eos>, one after the other.
            lengths: How many each has.
        """
        self._ids += np.bincount(ids, minlength=len(self._ids))
        counts = np.bincount(lengths, minlength=len(self._lengths))
        counts[: len(self._lengths)] += self._lengths
        self._lengths = counts

    def row(self) -> str:
        """Returns one line below `HEADER`."""
        ids, counts = self._ids, self._lengths
        total, sentences, used = ids.sum(), counts.sum(), np.count_nonzero(ids)
        ends = counts.cumsum()  # of the sentences sorted by length
        middle = [np.searchsorted(ends, k, "right") for k in ((sentences - 1) // 2, sentences // 2)]
        largest = np.flatnonzero(counts)[-1]
        return (
            f"{self.name:<12} {self.side:<4} {sentences:>10,} {total:>13,} "
            f"{total / sentences:>6.1f} {np.mean(middle):>6.0f} {largest:>6} "
            f"{100 * ids[UNK_ID] / total:>7.3f}% {used:>7,}/{len(ids):,}"
        )


HEADER = (
    f"{'split':<12} {'side':<4} {'pairs':>10} {'sub-words':>13} {'mean':>6} {'median':>6} "
    f"{'max':>6} {'unknown':>8} {'used':>8}"
)


def table(
    corpus: PairsBySplit, shards: Shards, vocabulary: Vocabulary, languages: tuple[str, str]
) -> str:
    """Returns a table of a corpus in sub-words.

    Args:
        corpus: Gives all splits but that for training.
        shards: Give that one, less its blank pairs; it is streamed.
        vocabulary: The sub-words.
        languages: Source and target.
    """
    subwords = vocabulary.source, vocabulary.target
    rows = [HEADER]
    for split in corpus.sizes:
        figures = [
            Figures(split, language, side.size)
            for language, side in zip(languages, subwords, strict=True)
        ]
        blocks = shards.blocks() if split == TRAIN else [_encoded(corpus, split, vocabulary)]
        for block in blocks:
            for side, ids in zip(figures, block, strict=True):
                side.add(*ids)
        rows += [side.row() for side in figures]
    return "\n".join(rows)


def _encoded(corpus: PairsBySplit, split: str, vocabulary: Vocabulary) -> tuple[Ids, Ids]:
    """Returns the sub-words of a split that is small enough for memory."""
    source, target = zip(*corpus.stream(split), strict=True)
    return as_ids(vocabulary.source.encode_lists(source)), as_ids(
        vocabulary.target.encode_lists(target)
    )
