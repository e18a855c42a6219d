"""Label-smoothed cross entropy against the NumPy twin, values and gradients."""

import numpy as np
import pytest
import tensorflow as tf

from dtmt_tf.training.loss import smoothed_cross_entropy, smoothing_constant
from tests.reference import numpy_dtmt as ref


@pytest.mark.parametrize(("vocab_size", "constant"), [(29405, 1.35397157), (40, 0.69143914)])
def test_constant_has_the_golden_values(vocab_size, constant):
    assert smoothing_constant(vocab_size, 0.1) == pytest.approx(constant, abs=5e-9)


def test_without_smoothing_there_is_no_constant():
    assert smoothing_constant(40, 0.0) == 0.0


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.3])
def test_sums_equal_the_twin(rng, smoothing):
    logits = rng.normal(size=(2, 5, 11))
    targets = np.array([[3, 4, 1, 0, 0], [10, 2, 5, 7, 1]])
    real = targets != 0
    smoothed, plain = smoothed_cross_entropy(
        tf.constant(logits[real], tf.float32), tf.constant(targets[real], tf.int32), smoothing
    )
    expected, count = ref.smoothed_loss(logits, targets, smoothing)
    assert float(tf.reduce_sum(smoothed)) == pytest.approx(expected, rel=1e-5)
    assert len(plain) == count
    log_probs = ref.sentence_log_probs(logits, targets)
    assert float(tf.reduce_sum(plain)) == pytest.approx(-log_probs.sum(), rel=1e-5)


def test_a_perfect_model_scores_zero():
    q = 0.1 / 10
    probabilities = np.full((1, 11), q)
    probabilities[0, 4] = 0.9
    smoothed, _ = smoothed_cross_entropy(
        tf.constant(np.log(probabilities), tf.float32), tf.constant([4]), 0.1
    )
    assert float(smoothed[0]) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_gradient_equals_central_differences_of_the_twin(rng, smoothing):
    logits = rng.normal(size=(1, 3, 7))
    targets = np.array([[2, 6, 1]])
    weights = np.array([0.5, 2.0])  # of the smoothed and the plain loss

    def loss(values):
        total, _ = ref.smoothed_loss(values, targets, smoothing)
        return weights[0] * total - weights[1] * ref.sentence_log_probs(values, targets).sum()

    variable = tf.constant(logits[0], tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(variable)
        smoothed, plain = smoothed_cross_entropy(
            variable, tf.constant(targets[0], tf.int32), smoothing
        )
        total = tf.reduce_sum(weights[0] * smoothed + weights[1] * plain)
    gradient = tape.gradient(total, variable).numpy()
    for row, column in np.ndindex(3, 7):
        step = np.zeros_like(logits)
        step[0, row, column] = 1e-5
        expected = (loss(logits + step) - loss(logits - step)) / 2e-5
        assert gradient[row, column] == pytest.approx(expected, abs=1e-5)
