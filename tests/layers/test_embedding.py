"""Positional signal and token embedding."""

import numpy as np
import pytest
import tensorflow as tf

from dtmt_tf.layers import SeedStream, TokenEmbedding, positional_signal
from tests.cells.twin import (
    assert_gradients_match,
    embedding_weights,
    randomise,
    relative_error,
)
from tests.reference import numpy_dtmt as ref


def make_embedding(rng, vocab_size=7, dim=6, **options):
    embedding = TokenEmbedding(vocab_size, dim, **options)
    embedding.build()
    embedding.built = True
    return randomise(embedding, rng)


def test_signal_of_four_features_has_its_golden_values():
    expected = [0.42073549, 0.00005, 0.27015115, 0.5]
    np.testing.assert_allclose(positional_signal(1, 4), expected, rtol=1e-6, atol=1e-8)


def test_signal_of_1024_features_has_its_golden_values():
    signal = positional_signal([7], 1024)[0]
    expected = {0: 0.02053083, 1: 0.01743237, 511: 2.1875e-5, 512: 0.02355945, 1023: 0.03124999}
    for feature, value in expected.items():
        np.testing.assert_allclose(signal[feature], value, rtol=1e-4, atol=5e-9)


@pytest.mark.parametrize("dim", [2, 3, 4, 5, 7, 24, 129])
def test_signal_equals_the_twin(dim):
    signal = positional_signal(np.arange(60), dim)
    assert relative_error(signal, ref.positional_signal(60, dim)) <= 1e-5


def test_odd_sizes_end_in_zero():
    signal = np.asarray(positional_signal([0, 3], 5))
    assert signal.shape == (2, 5)
    assert not np.any(signal[:, 4])
    np.testing.assert_allclose(signal[0], np.array([0, 0, 1, 1, 0]) * 5**-0.5, rtol=1e-6)


def test_signal_of_far_positions_is_as_precise_as_its_type_allows():
    # Rounding of result and scale alone: each at most 2^-9 of a number with 8 bits.
    expected = ref.positional_signal(256, 64)
    signal = tf.cast(positional_signal(np.arange(256), 64, "bfloat16"), "float32")
    assert np.max(np.abs(signal - expected)) <= 2**-8 * np.max(expected)


@pytest.mark.parametrize("use_positional_signal", [True, False])
@pytest.mark.parametrize("dim", [1, 5, 6])
def test_embedding_equals_the_twin(rng, use_positional_signal, dim):
    embedding = make_embedding(rng, dim=dim, use_positional_signal=use_positional_signal)
    weights = embedding_weights(embedding)
    ids = rng.integers(0, 7, size=(3, 4))
    for offset in (0, 5):
        expected = ref.embed(ids, weights["table"], weights["bias"], use_positional_signal, offset)
        actual = embedding(ids, offset + np.arange(4))
        assert relative_error(actual, expected) <= 1e-5


def test_positions_may_differ_between_sentences(rng):
    embedding = make_embedding(rng)
    ids = np.array([[3], [3]])
    first, second = embedding(ids, np.array([[0], [5]]))
    np.testing.assert_array_equal(first, embedding(ids[:1], np.array([0]))[0])
    np.testing.assert_array_equal(second, embedding(ids[:1], np.array([5]))[0])
    assert np.any(first != second)


@pytest.mark.parametrize(("policy", "tolerance"), [("float32", 1e-3), ("float64", 1e-6)])
def test_gradients_equal_central_differences_of_the_twin(rng, dtype_policy, policy, tolerance):
    dtype_policy(policy)
    embedding = make_embedding(rng)
    ids = np.array([[1, 2, 2], [5, 2, 0]])  # a word that is there three times, and <pad>
    weigh = rng.normal(size=(2, 3, 6)).astype(policy)

    def loss():
        return tf.reduce_sum(embedding(ids, np.arange(3)) * weigh)

    def twin_loss(value):
        weights = embedding_weights(embedding, value)
        return float(np.sum(ref.embed(ids, weights["table"], weights["bias"]) * weigh))

    variables = embedding.trainable_variables
    assert len(variables) == 2
    assert_gradients_match(loss, twin_loss, [], variables, tolerance=tolerance)


def test_dropout_acts_on_elements_of_the_sum_in_training_alone(rng):
    embedding = make_embedding(rng, dim=50, dropout_rate=0.3)
    ids, positions = rng.integers(0, 7, size=(20, 30)), np.arange(30)
    plain = np.asarray(embedding(ids, positions))
    np.testing.assert_array_equal(plain, embedding(ids, positions, seeds=SeedStream((1, 2))))

    dropped = np.asarray(embedding(ids, positions, training=True, seeds=SeedStream((1, 2))))
    kept = dropped != 0
    np.testing.assert_allclose(dropped[kept], plain[kept] / 0.7, rtol=1e-5)
    assert abs(np.mean(kept) - 0.7) < 5 * np.sqrt(0.3 * 0.7 / kept.size)
    again = embedding(ids, positions, training=True, seeds=SeedStream((1, 2)))
    np.testing.assert_array_equal(again, dropped)


def test_word_dropout_drops_whole_rows_but_neither_signal_nor_bias(rng):
    embedding = make_embedding(rng, dim=50, word_dropout_rate=0.2)
    ids, positions = rng.integers(0, 7, size=(20, 30)), np.arange(30)
    plain = np.asarray(embedding(ids, positions))
    np.testing.assert_array_equal(plain, embedding(ids, positions, seeds=SeedStream((1, 2))))

    dropped = np.asarray(embedding(ids, positions, training=True, seeds=SeedStream((1, 2))))
    rows = np.asarray(embedding.table)[ids]
    rest = plain - rows
    lost = np.isclose(dropped, rest, atol=1e-6).all(axis=-1)
    np.testing.assert_allclose(dropped[~lost], (rest + rows / 0.8)[~lost], atol=1e-6)
    assert abs(np.mean(lost) - 0.2) < 5 * np.sqrt(0.2 * 0.8 / lost.size)


def test_a_vocabulary_of_v_words_has_v_rows_and_one_bias(rng):
    assert make_embedding(rng, 50, 24).count_params() == 50 * 24 + 24
