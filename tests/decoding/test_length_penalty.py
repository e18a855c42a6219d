import numpy as np
import pytest
import tensorflow as tf

from dtmt_tf.decoding import length_penalty
from tests.reference import numpy_dtmt as ref


def test_golden_values_of_the_notes():
    values = [float(length_penalty(length, 0.6)) for length in (1, 10, 50)]
    np.testing.assert_allclose(values, [1.0, 1.732862, 3.778565], rtol=3e-7)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0, 2.0])
def test_any_shape_equals_the_reference(alpha):
    lengths = np.arange(1, 301).reshape(3, 100)
    result = length_penalty(tf.constant(lengths, tf.int32), alpha)
    assert result.dtype == tf.float32
    np.testing.assert_allclose(result, ref.length_penalty(lengths, alpha), rtol=1e-6)


def test_without_offset_and_with_alpha_one_it_is_the_length():
    lengths = np.arange(1, 301)
    np.testing.assert_array_equal(length_penalty(tf.constant(lengths), 1.0, 0.0), lengths)


@pytest.mark.parametrize("offset", [0.0, 2.5])
def test_any_offset_equals_the_reference(offset):
    lengths = np.arange(1, 301)
    expected = ref.length_penalty(lengths, 0.7, offset)
    np.testing.assert_allclose(length_penalty(lengths, 0.7, offset), expected, rtol=1e-6)


def test_zero_leaves_log_probabilities_as_they_are():
    np.testing.assert_array_equal(length_penalty(tf.range(1, 50), 0.0), np.ones(49))
