"""Multi-head additive attention against the twin, and who reads what."""

import numpy as np
import pytest
import tensorflow as tf

from dtmt_tf.layers import MultiHeadAdditiveAttention, MultiHeadDotAttention
from tests.cells.twin import assert_gradients_match, attention_weights, randomise, relative_error
from tests.reference import numpy_dtmt as ref

LENGTHS = [4, 6, 1]
MASK = np.arange(6) < np.array(LENGTHS)[:, None]


def make_attention(rng, heads=2, units=4, output_dim=8):
    attention = MultiHeadAdditiveAttention(heads, units, 2 * units, output_dim, initializer="zeros")
    attention.build((None, None, units))
    attention.built = True
    return randomise(attention, rng, scale=1.0)


def arguments(rng, units=4, queries=3):
    annotations = rng.normal(size=(3, 6, 2 * units)) * MASK[..., None]
    query = rng.normal(size=(3 * queries, units))  # those of a sentence one after the other
    return query.astype("float32"), annotations.astype("float32")


@pytest.mark.parametrize(
    ("heads", "units", "output_dim"), [(1, 1, 1), (1, 4, 3), (2, 4, 8), (4, 4, 8), (3, 9, 5)]
)
def test_context_and_weights_equal_the_twin(rng, heads, units, output_dim):
    attention = make_attention(rng, heads, units, output_dim)
    query, annotations = arguments(rng, units)
    context, weights = attention(query, attention.precompute(annotations, MASK))
    assert context.shape == (9, output_dim)
    w = attention_weights(attention)
    for k in range(3):  # the twin knows one query of a sentence at a time
        expected, expected_weights = ref.attention(query[k::3], annotations, MASK, w, heads)
        assert relative_error(context[k::3], expected) <= 1e-5
        assert relative_error(weights[:, :, k], expected_weights) <= 1e-5


@pytest.mark.parametrize(("policy", "tolerance"), [("float32", 1e-3), ("float64", 1e-6)])
def test_gradients_equal_central_differences_of_the_twin(rng, dtype_policy, policy, tolerance):
    dtype_policy(policy)
    attention = make_attention(rng)
    query, annotations = (array.astype(policy) for array in arguments(rng, queries=1))
    weigh = rng.normal(size=(3, 8)).astype(policy)

    def loss(query, annotations):
        return tf.reduce_sum(attention(query, attention.precompute(annotations, MASK))[0] * weigh)

    def twin_loss(value, query, annotations):
        w = attention_weights(attention, value)
        return float(np.sum(ref.attention(query, annotations, MASK, w, 2)[0] * weigh))

    assert len(attention.trainable_variables) == 5
    assert_gradients_match(
        loss,
        twin_loss,
        [query, annotations],
        attention.trainable_variables,
        tolerance=tolerance,
        samples=12,
    )


def test_padded_positions_get_no_weight(rng):
    attention = make_attention(rng)
    query, annotations = arguments(rng)
    context, weights = attention(query, attention.precompute(annotations, MASK))
    weights = np.asarray(weights)  # [B, N, Q, S]
    real = np.broadcast_to(MASK[:, None, None], weights.shape)
    assert not np.any(weights[~real])
    assert np.all(weights[real] > 0)
    np.testing.assert_allclose(weights.sum(axis=-1), 1, rtol=1e-6)
    noisy = np.where(MASK[..., None], annotations, 9).astype("float32")
    np.testing.assert_array_equal(attention(query, attention.precompute(noisy, MASK))[0], context)


def test_first_heads_read_forward_states_and_last_heads_backward_states(rng):
    heads, units = 4, 8
    attention = make_attention(rng, heads, units, 2 * units)
    attention.output_kernel.assign(np.eye(2 * units))
    attention.output_bias.assign(np.zeros(2 * units))
    query, annotations = arguments(rng, units)
    memory = attention.precompute(annotations, MASK)
    before = np.asarray(attention(query, memory)[0])

    for half in (slice(0, units), slice(units, None)):  # of the values; keys and weights stay
        moved = annotations.copy()
        moved[..., half] += MASK[..., None]
        values = attention.precompute(moved, MASK)[0]
        after, weights = attention(query, [values, *memory[1:]])
        expected = before.copy()
        expected[..., half] += 1  # a mean of values that are all larger by 1
        np.testing.assert_allclose(after, expected, atol=1e-6)
    # Head k averages its own slice of the annotations, with its own weights.
    slices = np.reshape(annotations, (3, 6, heads, -1))
    for k in range(heads):
        mean = np.einsum("bqs,bsd->bqd", np.asarray(weights)[:, k], slices[:, :, k])
        mean = mean.reshape(len(query), -1)
        np.testing.assert_allclose(before[..., 4 * k : 4 * k + 4], mean, atol=1e-6)


def test_several_queries_are_as_many_single_ones(rng):
    attention = make_attention(rng)
    query, annotations = arguments(rng, queries=4)
    memory = attention.precompute(annotations, MASK)
    context, _ = attention(query, memory)
    for k in range(4):
        assert relative_error(attention(query[k::4], memory)[0], context[k::4]) <= 1e-6


def test_parameter_count_by_formula(rng):
    d, c, heads = 32, 24, 4
    expected = 2 * d * d + d * d + d // heads + 2 * d * c + c
    assert make_attention(rng, heads, d, c).count_params() == expected


def test_heads_must_divide_the_units():
    with pytest.raises(ValueError, match="divisible by `num_heads`. Received: 5 and 2"):
        MultiHeadAdditiveAttention(2, 5, 8, 8, initializer="zeros")
    with pytest.raises(ValueError, match="divisible by `num_heads`. Received: 5 and 2"):
        MultiHeadAdditiveAttention(2, 6, 5, 8, initializer="zeros")
    with pytest.raises(ValueError, match="divisible by `num_heads`. Received: 5 and 2"):
        MultiHeadDotAttention(2, 5, initializer="zeros")
