"""The output network against the twin."""

import numpy as np
import pytest
import tensorflow as tf

from dtmt_tf.layers import Readout, SeedStream
from tests.cells.twin import assert_gradients_match, randomise, readout_weights, relative_error
from tests.reference import numpy_dtmt as ref

E, D, C, WORDS = 3, 5, 4, 7


def make_readout(rng, units=D, **options):
    readout = Readout(units, WORDS, initializer="zeros", **options)
    readout.build((None, E + D + C))
    readout.built = True
    return randomise(readout, rng)


def arguments(rng):
    return [rng.normal(size=(6, size)).astype("float32") for size in (E, D, C)]


@pytest.mark.parametrize("units", [1, 5, 8])
def test_logits_equal_the_twin(rng, units):
    readout = make_readout(rng, units)
    y, s, c = arguments(rng)
    logits = readout(np.concatenate([y, s, c], axis=-1))
    assert relative_error(logits, ref.readout(y, s, c, readout_weights(readout, E, D))) <= 1e-5


@pytest.mark.parametrize(("policy", "tolerance"), [("float32", 1e-3), ("float64", 1e-6)])
def test_gradients_equal_central_differences_of_the_twin(rng, dtype_policy, policy, tolerance):
    dtype_policy(policy)
    readout = make_readout(rng)
    arrays = [array.astype(policy) for array in arguments(rng)]
    weigh = rng.normal(size=(6, WORDS)).astype(policy)

    def loss(y, s, c):
        return tf.reduce_sum(readout(tf.concat([y, s, c], axis=-1)) * weigh)

    def twin_loss(value, y, s, c):
        weights = readout_weights(readout, E, D, value)
        return float(np.sum(ref.readout(y, s, c, weights) * weigh))

    assert len(readout.trainable_variables) == 4
    assert_gradients_match(
        loss, twin_loss, arrays, readout.trainable_variables, tolerance=tolerance, samples=20
    )


def test_dropout_acts_after_the_tanh_in_training_alone(rng):
    units = 7
    readout = make_readout(rng, units, dropout_rate=0.4)
    readout.logits.kernel.assign(np.eye(units))  # shows the hidden layer
    readout.logits.bias.assign(np.zeros(units))
    features = rng.normal(size=(500, E + D + C)).astype("float32")
    plain = np.asarray(readout(features, seeds=SeedStream((1, 2))))
    dropped = np.asarray(readout(features, training=True, seeds=SeedStream((1, 2))))
    kept = dropped != 0
    np.testing.assert_allclose(dropped[kept], plain[kept] / 0.6, rtol=1e-5)
    assert abs(np.mean(kept) - 0.6) < 5 * np.sqrt(0.4 * 0.6 / kept.size)
    assert np.max(np.abs(plain)) <= 1


def test_parameter_count_by_formula(rng):
    assert make_readout(rng, 6).count_params() == (E + D + C) * 6 + 6 + 6 * WORDS + WORDS
