"""Samples follow the model's distribution, cut as they are told, and not their neighbours."""

import numpy as np
import pytest
import tensorflow as tf

from dtmt_tf.config import DecodingConfig
from dtmt_tf.decoding import Sampling, sample
from dtmt_tf.decoding.sampling import allowed, draw
from dtmt_tf.errors import UserError
from tests.decoding.automaton import EOS, Automaton, mixed_batch
from tests.reference import numpy_dtmt as ref

WORDS = 7


def numpy_allowed(log_probs, temperature, top_k, top_p):
    """Probabilities by token: plain loops over the sorted ones, in float64."""
    weights = np.exp(np.asarray(log_probs, np.float64) / temperature)
    order = np.argsort(-weights, kind="stable")[: top_k or len(weights)]
    total, kept, mass = weights[order].sum(), [], 0.0
    for token in order:
        if mass < top_p:
            kept.append(token)
        mass += weights[token] / total
    result = np.zeros(len(weights))
    result[kept] = weights[kept] / weights[kept].sum()
    return result


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("top_k, top_p", [(0, 1.0), (1, 1.0), (4, 1.0), (99, 1.0), (0, 0.6),
                                          (0, 1e-9), (5, 0.8)])  # fmt: skip
def test_tokens_are_drawn_as_often_as_they_are_probable(rng, temperature, top_k, top_p):
    logits = rng.normal(size=[2, 3, WORDS]).astype(np.float32)
    sampling = Sampling(temperature, top_k, top_p)
    probabilities, tokens = allowed(tf.constant(logits), sampling)
    grid = (np.arange(1000) + 0.5) / 1000  # in place of random numbers, each as often as others
    numbers = np.repeat(np.repeat(grid, 2)[:, None], 3, axis=1).astype(np.float32)
    tiled = tf.constant(np.tile(logits, [1000, 1, 1]))
    drawn = draw(tiled, tf.constant(numbers), sampling).numpy().reshape(1000, 2, 3)
    for place in np.ndindex(2, 3):
        expected = numpy_allowed(logits[place], temperature, top_k, top_p)
        found = np.zeros(WORDS)
        ids = range(WORDS) if tokens is None else tokens.numpy()[place]
        np.add.at(found, list(ids), probabilities.numpy()[place])
        np.testing.assert_array_equal(found > 0, expected > 0)
        np.testing.assert_allclose(found / found.sum(), expected, rtol=1e-5)
        counts = np.bincount(drawn[(slice(None), *place)], minlength=WORDS)
        np.testing.assert_allclose(counts / 1000, expected, atol=0.0011)


def seeds_of(sentences, samples, seed=0):
    """As `Searches` makes them: a number of the sentence and the sample, and the seed."""
    return [[(1000 * sentence + k, seed) for k in range(samples)] for sentence in sentences]


def samples_of(language, memories, starts, lengths, seeds, sampling=None, alpha=0.0):
    return sample(
        language.step,
        language.state(memories, starts),
        tf.constant(lengths, tf.int32),
        tf.constant(seeds, tf.int64),
        sampling or Sampling(),
        DecodingConfig(length_penalty=alpha),
    )


def test_whole_samples_follow_the_models_distribution():
    language, count, longest = Automaton.random(3, 3, sharpness=0.7), 1500, 3
    found = samples_of(language, [0], [0], [longest], seeds_of([0], count))
    rows = [tuple(ids[:n]) for ids, n in zip(found.ids[0].numpy(), found.lengths[0].numpy())]  # noqa: B905
    expected = {}

    def spread(prefix):
        if len(prefix) == longest or prefix[-1:] == (EOS,):
            expected[prefix] = np.exp(language.log_prob(0, 0, prefix))
            return
        for word in range(3):
            spread((*prefix, word))

    spread(())
    assert sum(expected.values()) == pytest.approx(1.0) and set(rows) <= set(expected)
    wanted = count * np.array(list(expected.values()))
    counts = np.array([rows.count(row) for row in expected])
    chi_square = np.sum((counts - wanted) ** 2 / wanted)
    assert chi_square < len(expected) + 4 * np.sqrt(2 * len(expected))  # 4 standard deviations
    for row, log_prob, score in zip(rows, found.log_probs[0], found.scores[0], strict=True):
        assert float(log_prob) == pytest.approx(language.log_prob(0, 0, row), rel=1e-5)
        assert score == log_prob  # no length penalty


def test_samples_do_not_depend_on_their_neighbours():
    language = Automaton.random(1, 6)
    memories, starts, lengths = mixed_batch(7)
    sampling = Sampling(temperature=1.5, top_k=5, top_p=0.95)
    seeds = np.array(seeds_of(range(7), 3, seed=8))
    found = samples_of(language, memories, starts, lengths, seeds, sampling, alpha=0.6)
    assert len({row.tobytes() for row in found.ids.numpy().reshape(21, -1)}) > 15
    for k in (0, 4):
        alone = samples_of(language, *([each[k]] for each in (memories, starts, lengths)),
                           seeds[k : k + 1, :1], sampling, alpha=0.6)  # fmt: skip
        size = alone.ids.shape[2]
        np.testing.assert_array_equal(alone.ids[0, 0], found.ids[k, 0, :size])
        assert alone.scores[0, 0] == found.scores[k, 0]
    penalty = ref.length_penalty(found.lengths.numpy(), 0.6)
    np.testing.assert_allclose(found.scores, found.log_probs / penalty, rtol=1e-6)
    others = np.array(seeds_of(range(7), 3, seed=9))
    other = samples_of(language, memories, starts, lengths, others, sampling)
    assert (other.ids != found.ids).numpy().any(axis=(1, 2)).sum() > 4


@pytest.mark.parametrize(
    "sampling", [Sampling(2.0), Sampling(0.5), Sampling(top_k=2), Sampling(top_p=0.5)]
)
def test_log_probabilities_are_the_models_however_tokens_are_drawn(sampling):
    language = Automaton.random(1, 6)
    memories, starts, lengths = mixed_batch(7)
    found = samples_of(language, memories, starts, lengths, seeds_of(range(7), 3), sampling)
    for k, n in np.ndindex(7, 3):
        ids = found.ids.numpy()[k, n, : found.lengths.numpy()[k, n]]
        expected = language.log_prob(memories[k], starts[k], ids)
        assert float(found.log_probs[k, n]) == pytest.approx(expected, rel=1e-5)


def test_samples_end_at_the_end_or_at_their_longest():
    language = Automaton.random(2, 5)
    memories, starts, lengths = mixed_batch(12)
    found = samples_of(language, memories, starts, lengths, seeds_of(range(12), 2))
    ended = 0
    for ids, length, longest in zip(
        found.ids.numpy().reshape(24, -1), found.lengths.numpy().ravel(), np.repeat(lengths, 2),
        strict=True,
    ):  # fmt: skip
        assert (ids[:length] == EOS).sum() == (ids[length - 1] == EOS)
        assert not ids[length:].any() and length <= longest
        assert length == longest or ids[length - 1] == EOS
        ended += length < longest
    assert ended > 4


@pytest.mark.parametrize(
    "values",
    [
        {"temperature": 0},
        {"temperature": 1e-38},
        {"top_k": -1},
        {"top_p": 0},
        {"top_p": 1e-40},
        {"top_p": 1.1},
        {"seed": -1},
    ],
)
def test_values_out_of_range_are_named(values):
    with pytest.raises(UserError, match=f"{next(iter(values))} should be"):
        Sampling(**values)
