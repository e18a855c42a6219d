"""Counts of sentences give the scores and p-values that the text gives."""

import random

import numpy as np
import pytest

from dtmt_tf.evaluation import compare_systems, score_hypotheses
from dtmt_tf.evaluation.sentences import (
    bleu_interval,
    bleu_of,
    count_ngrams,
    count_sentences,
    paired_bootstrap,
)


def noisy(random_, lines, rate):
    words = "rot grün blau , . Hund Katze".split()
    return [
        " ".join(
            word if random_.random() > rate else random_.choice(words) for word in line.split()
        )
        for line in lines
    ]


@pytest.fixture(scope="module")
def texts():
    """A reference and two translations of it, sentences of 1 to 9 words."""
    random_ = random.Random(3)
    words = "der Hund, die Katze. rot grün blau eins zwei".split()
    lines = [" ".join(random_.choices(words, k=random_.randint(1, 9))) for _ in range(120)]
    return lines, noisy(random_, lines, 0.4), noisy(random_, lines, 0.36)


@pytest.mark.parametrize("options", [{}, {"tokenize": "none", "lowercase": True}], ids=str)
def test_bleu_of_counts_is_bleu_of_text(texts, options):
    lines, first, _ = texts
    first = [line.upper() for line in first[:40]] + first[40:]
    counts = count_sentences(first, lines, **options)
    assert bleu_of(counts) == pytest.approx(score_hypotheses(first, lines, **options).bleu)
    part = slice(30, 50)
    expected = score_hypotheses(first[part], lines[part], **options).bleu
    assert bleu_of(counts[part]) == pytest.approx(expected)


def test_multi_bleu_of_counts_is_not_smoothed():
    translations, references = ["a b c x", "d e f g"], ["a b c d", "d e g f"]  # no 4 in a row
    counts = count_sentences(translations, references, tokenize="multi-bleu")
    assert bleu_of(counts) > bleu_of(counts, "multi-bleu") == 0
    assert bleu_interval([counts], "multi-bleu") == (0, 0)


def test_ngrams_follow_from_lengths(texts):
    lines, first, _ = texts
    counts = count_sentences(["", "a", "a b c d e", *first], ["a", "a", "a b c d e", *lines])
    assert count_ngrams(counts[:, :6]).tolist() == counts.tolist()
    assert counts[:3, 6:].tolist() == [[0, 0, 0, 0], [1, 0, 0, 0], [5, 4, 3, 2]]


def test_p_value_is_that_of_the_text(texts):
    lines, first, second = texts
    _, record = compare_systems({"first": first, "second": second}, lines)
    counts = [count_sentences(system, lines) for system in (first, second)]
    p_value = record.metrics["BLEU"].p_value
    assert 0.001 < p_value < 0.5
    assert paired_bootstrap(*counts) == p_value


def test_equal_systems_do_not_differ(texts):
    lines, first, _ = texts
    counts = count_sentences(first, lines)
    assert paired_bootstrap(counts, counts.copy()) == 1.0
    assert paired_bootstrap(*(count_sentences([text], ["a b c"]) for text in ("x", "y z"))) == 1.0
    assert paired_bootstrap(np.concatenate([counts] * 2), np.concatenate([counts] * 2)) == 1.0


def test_the_interval_is_that_of_drawn_sentences(texts):
    reference, first, second = texts
    one, other = (count_sentences(each, reference) for each in (first, second))
    low, high = bleu_interval([one])
    drawn = np.random.default_rng(1).integers(0, len(one), (400, len(one)))
    expected = np.quantile([bleu_of(one[rows]) for rows in drawn], (0.025, 0.975))
    np.testing.assert_allclose((low, high), expected, atol=1.0)
    assert bleu_interval([one, one]) == (low, high)
    both = bleu_interval([one, other])
    assert both[0] < (bleu_of(one) + bleu_of(other)) / 2 < both[1] and both != (low, high)
    same = one[:1].repeat(9, 0)  # whatever is drawn
    np.testing.assert_allclose(bleu_interval([same]), bleu_of(same))
