import numpy as np

from dtmt_tf.layers import masked_mean


def test_the_mean_is_over_what_is_there():
    states = np.array([[[1.0, 2], [3, 6], [9, 9]], [[5, 5], [5, 5], [5, 5]]], "float32")
    mask = np.array([[True, True, False], [False, False, False]])
    np.testing.assert_array_equal(masked_mean(states, mask), [[2, 4], [0, 0]])
