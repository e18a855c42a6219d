"""The NumPy twin of the Transformer, by hand."""

import math

import numpy as np
import pytest

from . import numpy_transformer as ref

ONE = (np.eye(2), np.zeros(2))  # an affine map that changes nothing


def test_timing_by_hand():
    signal = ref.timing(3, 4)  # frequencies 1 and 1 / 10000
    for p in range(3):
        expected = [math.sin(p), math.sin(p / 1e4), math.cos(p), math.cos(p / 1e4)]
        np.testing.assert_allclose(signal[p], expected, rtol=1e-14)


def test_attention_by_hand():
    w = dict.fromkeys(("query", "key", "value", "output"), ONE)
    x, memory = np.array([[1.0, 0.0]]), np.array([[3.0, 1.0], [0.0, 5.0]])
    share = 1 / (1 + math.exp(-3 / math.sqrt(2)))  # scores 3 / sqrt(2) and 0
    result, weights = ref.attend(x, memory, w, 1)
    np.testing.assert_allclose(weights, [[[share, 1 - share]]])
    np.testing.assert_allclose(result, [[3 * share, share + 5 * (1 - share)]])
    first = 1 / (1 + math.exp(-3.0))  # with two heads each sees one column: scores 3 and 0, 0 and 0
    result, _ = ref.attend(x, memory, w, 2)
    np.testing.assert_allclose(result, [[3 * first, 3.0]])
    result, weights = ref.attend(memory, memory, w, 1, causal=True)
    assert weights[0, 0].tolist() == [1.0, 0.0]
    np.testing.assert_array_equal(result[0], memory[0])


@pytest.mark.parametrize("pre_norm", [False, True])
def test_where_the_norms_are(pre_norm):
    # Attention gives twice what it reads, the feed-forward part nothing.
    norm = (np.array([1.0, 2.0]), np.array([0.5, 0.0]))
    w = {
        "self": {"query": ONE, "key": ONE, "value": (2 * np.eye(2), np.zeros(2)), "output": ONE},
        "self_norm": norm,
        "inner": (np.zeros((2, 3)), np.zeros(3)),
        "outer": (np.zeros((3, 2)), np.zeros(2)),
        "outer_norm": (np.ones(2), np.zeros(2)),
    }
    x = np.array([[1.0, 3.0]])
    result, _ = ref.run_layer(x, w, 1, pre_norm)
    if pre_norm:  # LN(1, 3) = (-1, 1), with gain and offset (-0.5, 2)
        expected = [[1 - 2 * 0.5, 3 + 2 * 2.0]]
    else:  # LN(3, 9) likewise, and the second norm
        expected = [[-1.0, 1.0]]
    np.testing.assert_allclose(result, expected, atol=1e-5)
