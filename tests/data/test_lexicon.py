"""Translations of words by IBM Model 1, and frequent words."""

import numpy as np
import pytest

from dtmt_tf.data import lexicon
from dtmt_tf.data.lexicon import frequent, lexical_table, word_dictionary
from dtmt_tf.data.shards import as_ids

# "das Haus", "das Buch", "ein Buch" of Knight (1999) as 2 3, 2 4, 5 4; the, house, book, a: 6 7 8 9
PAIRS = [([2, 3], [6, 7]), ([2, 4], [6, 8]), ([5, 4], [9, 8])] * 4


def blocks(size=5, pairs=PAIRS):
    for start in range(0, len(pairs), size):
        yield tuple(as_ids(side) for side in zip(*pairs[start : start + size], strict=True))


def test_what_pairs_have_in_common_is_translated_by_what_they_have_in_common():
    table = lexical_table(blocks, (7, 10), 2, filler=1)
    assert table.dtype == np.int32 and table[[2, 3, 4, 5], 0].tolist() == [6, 7, 8, 9]
    assert table[0].tolist() == [1, 1]  # never seen


def test_probabilities_are_those_of_the_model():
    """By plain loops: after the first iteration the second translation of 2 is a tie, then not."""
    p = {(s, t): 1.0 for source, target in PAIRS for s in source for t in target}
    for _ in range(lexicon.ITERATIONS):
        counts = dict.fromkeys(p, 0.0)
        for source, target in PAIRS:
            for t in target:
                total = sum(p[s, t] for s in source)
                for s in source:
                    counts[s, t] += p[s, t] / total
        sums = {s: sum(n for (a, _), n in counts.items() if a == s) for s, _ in counts}
        p = {(s, t): n / sums[s] for (s, t), n in counts.items()}
    table = lexical_table(blocks, (7, 10), 3, filler=1, least=0.0)
    for s in (2, 3, 4, 5):
        best = sorted((-value, t) for (a, t), value in p.items() if a == s)
        assert table[s].tolist() == ([t for _, t in best] + [1])[:3]


def test_chance_translations_are_left_out():
    assert lexical_table(blocks, (7, 10), 3, filler=1)[3].tolist() == [7, 6, 1]
    # 6 is expected about once
    assert lexical_table(blocks, (7, 10), 3, filler=1, least=2.0)[3].tolist() == [7, 1, 1]


def test_a_dictionary_has_the_best_translation_of_words_that_are_no_chance():
    pairs = [("das Haus", "the house"), ("das Buch", "the book"), ("ein Buch", "a book")]
    pairs = [*pairs, ("", "nothing"), ("nichts", " ")]
    known = {"das": "the", "Haus": "house", "Buch": "book", "ein": "a"}
    assert word_dictionary(*zip(*pairs, strict=True)) == known
    rare = [*pairs, ("alle drei hier", "each of the three")]  # a third each
    assert word_dictionary(*zip(*rare, strict=True)).keys() == known.keys()
    assert word_dictionary(*zip(*pairs[3:], strict=True)) == {}


@pytest.mark.parametrize("size", [1, 5, 12])
@pytest.mark.parametrize(
    ("most", "read"),
    [(3, []), (4, [0]), (7, [0]), (8, [0, 6]), (20, [0, 3, 6, 9]), (47, range(0, 12, 2)),
     (48, range(12))],
)  # fmt: skip
def test_memory_is_bounded_and_what_is_read_comes_from_the_whole_text(
    monkeypatch, size, most, read
):
    monkeypatch.setattr(lexicon, "MOST_LINKS", most)  # each pair has four
    found = lexical_table(lambda: blocks(size), (7, 10), 3, filler=1)
    monkeypatch.undo()
    expected = np.ones((7, 3))
    if read:
        few = [PAIRS[k] for k in read]
        expected = lexical_table(lambda: blocks(size, few), (7, 10), 3, filler=1)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("size", [1, 5, 13])
def test_a_long_pair_is_left_out_and_its_neighbours_are_read(monkeypatch, size):
    monkeypatch.setattr(lexicon, "MOST_OF_A_PAIR", 100)
    long = [*PAIRS[:2], ([2, 3, 4] * 4, [9] * 10), *PAIRS[2:]]
    found = lexical_table(lambda: blocks(size, long), (7, 10), 3, filler=1)
    np.testing.assert_array_equal(found, lexical_table(blocks, (7, 10), 3, filler=1))


@pytest.mark.parametrize("count, expected", [(1, [6]), (3, [6, 8, 7]), (9, [6, 8, 7, 9])])
def test_frequent_words_come_first(count, expected):
    assert frequent(blocks(), 10, count).tolist() == expected
