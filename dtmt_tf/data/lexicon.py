"""Which target words translate a source word, counted from aligned pairs."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from dtmt_tf.data.shards import Ids, as_ids

logger = logging.getLogger(__name__)

Blocks = Iterable[tuple[Ids, Ids]]  # pairs, many at once
MOST_LINKS = 20_000_000  # pairs of words read at most; they take some seconds and 1.5 GB
MOST_OF_A_PAIR = 100_000  # longer pairs of sentences are left out
ITERATIONS = 4
# Least expected count of a translation, as rarer ones are chance: for a list; and for a dictionary,
# whose words may be rare themselves, see EXPERIMENTS.md.
MIN_COUNT_OF_LIST, MIN_COUNT_OF_DICTIONARY = 1.0, 0.5


def lexical_table(
    blocks: Callable[[], Blocks],
    sizes: tuple[int, int],
    count: int,
    filler: int,
    least: float = MIN_COUNT_OF_LIST,
) -> np.ndarray:
    """Returns the most probable translations of every source word, `[V_s, count]` int32.

    Probabilities are those of IBM Model 1 (Brown et al., 1993, "The Mathematics of Statistical
    Machine Translation", Section 4.1), without the empty word.

    Args:
        blocks: Begins to read the pairs, ids from 0. Of a text with more than `MOST_LINKS` pairs of
            words every n-th pair counts.
        sizes: Number of source and of target words, V_s and V_t.
        count: Translations of each word.
        filler: Stands where a word was seen with fewer.
        least: How often a translation should be expected.
    """
    table = np.full((sizes[0], count), filler, np.int32)
    links, sources = _links(_spread(blocks), sizes[1])
    if not len(links):
        return table
    keys, link = np.unique(links, return_inverse=True)  # each pair of words once
    starts = np.concatenate([[0], np.cumsum(sources)[:-1]])
    word, translation = keys // sizes[1], keys % sizes[1]
    probability = np.ones(len(keys))
    for _ in range(ITERATIONS):
        now = probability[link]
        now /= np.repeat(np.add.reduceat(now, starts), sources)  # which source word explains it
        expected = np.bincount(link, now, len(keys))
        probability = expected / np.bincount(word, expected, sizes[0])[word]
    seen = expected >= least
    word, translation, probability = word[seen], translation[seen], probability[seen]
    order = np.lexsort((translation, -probability, word))
    word, translation = word[order], translation[order]
    first = np.searchsorted(word, np.arange(sizes[0]))
    rank = np.arange(len(word)) - first[word]
    best = rank < count
    table[word[best], rank[best]] = translation[best]
    return table


def word_dictionary(sources: Sequence[str], targets: Sequence[str]) -> dict[str, str]:
    """Returns the most probable translation of each source word that has one; see `lexical_table`.

    Args:
        sources: Lines of words between blanks; pairs with a blank side are left out.
        targets: Their translations.
    """
    words = [(line.split(), other.split()) for line, other in zip(sources, targets, strict=True)]
    pairs = [(source, target) for source, target in words if source and target]
    if not pairs:
        return {}
    source, source_words = _numbered([line for line, _ in pairs])
    target, target_words = _numbered([line for _, line in pairs])
    sizes = len(source_words), len(target_words)
    best = lexical_table(lambda: [(source, target)], sizes, 1, -1, MIN_COUNT_OF_DICTIONARY)[:, 0]
    return {
        word: target_words[k] for word, k in zip(source_words, best.tolist(), strict=True) if k >= 0
    }


def _numbered(lines: Sequence[Sequence[str]]) -> tuple[Ids, list[str]]:
    """Returns lines of words as their numbers, and the words in the order of these."""
    numbers: dict[str, int] = {}
    ids = [[numbers.setdefault(word, len(numbers)) for word in line] for line in lines]
    return as_ids(ids), list(numbers)


def _links_of(source: Ids, target: Ids) -> np.ndarray:
    """Returns how many pairs of words each pair of sentences has, 0 if it is left out."""
    found = source.lengths.astype(np.int64) * target.lengths
    return np.where(found <= MOST_OF_A_PAIR, found, 0)


def _spread(blocks: Callable[[], Blocks]) -> Iterable[tuple[Ids, Ids, np.ndarray]]:
    """Yields pairs, and which of them count: from the whole text, as many as may be read."""
    every = max(1, math.ceil(sum(int(_links_of(*each).sum()) for each in blocks()) / MOST_LINKS))
    if every > 1:
        logger.info("One pair in %d is read: all would take too much memory.", every)
    number = 0
    for source, target in blocks():
        numbers = number + np.arange(len(source.lengths))
        yield source, target, numbers % every == 0
        number += len(numbers)


def _links(
    blocks: Iterable[tuple[Ids, Ids, np.ndarray]], target_size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns every source word with every target word of its pair, up to `MOST_LINKS`.

    Returns:
        `source * V_t + target`, those of one target word side by side, and how many these are, for
        each target word.
    """
    links, sources, number = [], [], 0
    for source, target, chosen in blocks:
        each_pair = _links_of(source, target) * chosen
        fits = number + np.cumsum(each_pair) <= MOST_LINKS
        read = np.where((each_pair > 0) & fits, target.lengths, 0)  # target words of each pair
        ends = np.cumsum(source.lengths)
        each = np.repeat(source.lengths, read)  # source words for each target word
        first = np.repeat(ends - source.lengths, read)
        places = np.arange(each.sum()) - np.repeat(np.cumsum(each) - each, each)
        words = source.flat[np.repeat(first, each) + places]
        written = target.flat[np.repeat(read > 0, target.lengths)]
        links.append(words * target_size + np.repeat(written, each))
        sources.append(each)
        number += len(links[-1])
        if not np.all(fits):
            break
    return np.concatenate(links), np.concatenate(sources)


def frequent(blocks: Blocks, size: int, count: int) -> np.ndarray:
    """Returns the most frequent target words, `[count]` int32 or as many as there are.

    Args:
        blocks: Pairs, many at once.
        size: Number of target words, V_t.
        count: How many.
    """
    counts = np.zeros(size, np.int64)
    for _, target in blocks:
        counts += np.bincount(target.flat, minlength=size)
    order = np.argsort(-counts, kind="stable")[:count]
    return order[counts[order] > 0].astype(np.int32)
