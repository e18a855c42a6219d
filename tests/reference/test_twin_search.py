"""The NumPy twin: search, numeric derivatives."""

import math

import numpy as np
import pytest

from . import numpy_dtmt as ref
from .toys import tiny_config

# Search.


def scripted(table, vocab):
    """Log probabilities from `{prefix: probabilities}`; unlisted prefixes are uniform."""

    def log_prob_fn(prefix):
        with np.errstate(divide="ignore"):
            return np.log(np.array(table.get(prefix, [1.0 / vocab] * vocab)))

    return log_prob_fn


def random_language(seed, vocab, sharpness=2.0):
    def log_prob_fn(prefix):
        rng = np.random.default_rng([seed, len(prefix), *prefix])
        return ref.log_softmax(sharpness * rng.normal(size=vocab))

    return log_prob_fn


def test_finished_hypotheses_take_no_beam_place():
    # Words: 0, <eos> = 1, 2, 3. With two beams, <eos> is best at first and 2 and 3 live on.
    fn = scripted({(): [0.01, 0.5, 0.3, 0.19], (3,): [0.0, 1.0, 0.0, 0.0]}, 4)
    result = ref.beam_search(fn, 0, 2, 8.0, 4, 1, max_len=2)
    # (3, <eos>) at log 0.19 / (7/6)^8 = -0.484 beats (<eos>,) at log 0.5 = -0.693.
    assert result[0][0] == (3, 1)
    assert result[0][1] == pytest.approx(math.log(0.19))
    assert result[0][2] == pytest.approx(math.log(0.19) / (7 / 6) ** 8)


def test_search_stops_when_the_worst_finished_beats_the_bound():
    calls = []
    fn = scripted({(): [0.01, 0.59, 0.4], (2,): [0.0, 1.0, 0.0]}, 3)

    def counted(prefix):
        calls.append(prefix)
        return fn(prefix)

    # Without a penalty the bound is log 0.4 < log 0.59: over after one step, with one free slot.
    result = ref.beam_search(counted, 2, 2, 0.0, 3, 1)
    assert calls == [()]
    assert [ids for ids, _, _ in result] == [(1,)]


def test_search_goes_on_while_a_living_hypothesis_may_beat_the_worst_finished():
    # After two words 0.54 and 0.04 are finished and 0.36 lives: it replaces the second.
    table = {(): [0.4, 0.0, 0.6], (2,): [0.1, 0.9, 0.0], (0,): [0.0, 0.1, 0.9]}
    fn = scripted(table | {(0, 2): [0.0, 1.0, 0.0]}, 3)
    result = ref.beam_search(fn, 2, 2, 0.0, 3, 1)
    assert [ids for ids, _, _ in result] == [(2, 1), (0, 2, 1)]


def test_the_first_step_has_one_living_slot_and_the_best_are_kept_sorted():
    fn = scripted(
        {(): [0.2, 0.1, 0.7], (2,): [0.0, 0.6, 0.4], (0,): [0.0, 0.9, 0.1]},
        3,
    )
    result = ref.beam_search(fn, 0, 2, 0.0, 3, 1, max_len=2)
    assert [ids for ids, _, _ in result] == [(2, 1), (0, 1)]
    np.testing.assert_allclose([p for _, p, _ in result], np.log([0.42, 0.18]), rtol=1e-12)


def test_the_best_living_hypothesis_is_returned_when_nothing_finishes():
    fn = scripted({(): [0.3, 0.0, 0.7]} | {(2,) * n: [0.1, 0.0, 0.9] for n in range(1, 9)}, 3)
    ((ids, log_p, score),) = ref.beam_search(fn, 1, 1, 0.6, 3, 1, extra=4)
    assert ids == (2,) * 5
    assert log_p == pytest.approx(math.log(0.7 * 0.9**4))
    assert score == pytest.approx(log_p / (10 / 6) ** 0.6)


@pytest.mark.parametrize("seed", range(8))
def test_beam_of_one_is_greedy(seed):
    fn = random_language(seed, 5)
    result = ref.beam_search(fn, 3, 1, 0.6, 5, 1, extra=3)
    prefix, log_p = (), 0.0
    while len(prefix) < 6 and 1 not in prefix:
        word = int(np.argmax(fn(prefix)))
        prefix, log_p = (*prefix, word), log_p + fn(prefix)[word]
    ((ids, total, score),) = result
    assert ids == prefix
    assert total == pytest.approx(log_p, rel=1e-12)
    assert score == pytest.approx(log_p / ((5 + len(ids)) / 6) ** 0.6, rel=1e-12)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
@pytest.mark.parametrize("seed", range(5))
def test_huge_beam_equals_exhaustive_search(seed, alpha):
    fn = random_language(seed, 4)
    everything = ref.exhaustive_search(fn, 4, 1, 5, alpha)
    assert len(everything) == sum(3**n for n in range(5))
    best = ref.beam_search(fn, 0, 4**5, alpha, 4, 1, max_len=5)[0]
    assert best[0] == everything[0][0]
    np.testing.assert_allclose(best[1:], everything[0][1:], rtol=1e-12)


def test_exhaustive_search_by_hand():
    fn = scripted({(): [0.2, 0.3, 0.5], (0,): [0.5, 0.5, 0.0], (2,): [0.0, 0.8, 0.2]}, 3)
    result = ref.exhaustive_search(fn, 3, 1, 2, 0.0)
    assert [ids for ids, _, _ in result] == [(2, 1), (1,), (0, 1)]
    np.testing.assert_allclose([p for _, p, _ in result], np.log([0.4, 0.3, 0.1]), rtol=1e-12)


def test_beam_search_runs_on_the_model():
    config = tiny_config()
    weights = ref.random_weights(config, np.random.default_rng(13))
    source = [4, 5, 1]

    def log_prob_fn(prefix):
        return ref.next_log_probs(weights, source, prefix, config)

    result = ref.beam_search(log_prob_fn, 3, 2, 0.6, 7, 1, max_len=4)
    for ids, log_p, score in result:
        if 0 not in ids:  # `forward` reads 0 as padding
            logits = ref.forward(weights, [source], [list(ids)], config)
            expected = ref.sentence_log_probs(logits, [list(ids)])[0]
            assert log_p == pytest.approx(expected, rel=1e-10)
        assert score == pytest.approx(log_p / ref.length_penalty(len(ids), 0.6), rel=1e-12)


# Numeric derivatives.


def test_central_difference_of_a_cube():
    point = np.array([[1.0, 2.0], [3.0, 4.0]])
    slopes = ref.central_difference(lambda a: float((a**3).sum()), point, [(0, 1), (1, 0)])
    np.testing.assert_allclose(slopes, [12.0, 27.0], rtol=1e-8)
    np.testing.assert_array_equal(point, [[1.0, 2.0], [3.0, 4.0]])


def test_central_difference_finds_the_gradient_of_the_loss():
    config = tiny_config(depth=1)
    weights = ref.random_weights(config, np.random.default_rng(14))
    source, target = [[4, 5, 1]], [[3, 2, 1]]
    readout = weights["readout"]

    def loss(bias):
        changed = {**weights, "readout": {**readout, "logits_bias": bias}}
        return ref.smoothed_loss(ref.forward(changed, source, target, config), target, 0.1)[0]

    slopes = ref.central_difference(loss, readout["logits_bias"], [(k,) for k in range(7)])
    probabilities = ref.softmax(ref.forward(weights, source, target, config))[0]
    smoothed = np.full((3, 7), 0.1 / 6)
    smoothed[[0, 1, 2], target[0]] = 0.9
    np.testing.assert_allclose(slopes, (probabilities - smoothed).sum(axis=0), atol=1e-9)
