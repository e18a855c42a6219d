"""The NumPy twin by hand: cells, positions, encoder, attention."""

import math

import numpy as np
import pytest

from . import numpy_dtmt as ref
from .toys import logistic, tiny_config

# Cells, d = 1: without layer norm every symbol is one number.


def test_sigmoid_by_hand_and_at_extremes():
    values = ref.sigmoid(np.array([0.0, math.log(3.0), -1000.0, 1000.0]))
    np.testing.assert_allclose(values, [0.5, 0.75, 0.0, 1.0], atol=1e-15)


def test_layer_norm_uses_biased_variance_and_epsilon_inside_the_root():
    result = ref.layer_norm(np.array([1.0, 3.0]), np.array([2.0, 10.0]), np.array([0.5, 0.25]))
    unit = 1.0 / math.sqrt(1.0 + 1e-6)
    np.testing.assert_allclose(result, [-2.0 * unit + 0.5, 10.0 * unit + 0.25], rtol=1e-15)
    small = ref.layer_norm(np.array([0.0, 2e-3]), 1.0, 0.0)  # variance equal to epsilon
    np.testing.assert_allclose(small, [-math.sqrt(0.5), math.sqrt(0.5)], rtol=1e-12)


@pytest.mark.parametrize("mask", [None, 0.0, 2.0])
def test_gru_step_with_one_unit(mask):
    w = {
        "kernel": np.array([[0.3, -0.4, 0.7]]),
        "recurrent_kernel": np.array([[0.2, 0.5, -0.6]]),
        "candidate_bias": np.array([0.1]),
        "gate_bias": np.array([[0.05], [-0.15]]),
    }
    x, h = 1.5, -0.8
    r = logistic(0.3 * x + 0.2 * h + 0.05)
    z = logistic(-0.4 * x + 0.5 * h - 0.15)
    c = math.tanh(0.7 * x + r * (-0.6 * h + 0.1))
    expected = (1 - z) * h + z * c * (1.0 if mask is None else mask)
    result = ref.gru_step(
        np.array([[x]]),
        np.array([[h]]),
        w,
        use_layer_norm=False,
        mask=None if mask is None else np.array([[mask]]),
    )
    np.testing.assert_allclose(result, [[expected]], rtol=1e-14)


@pytest.mark.parametrize("mask", [None, 0.0, 2.0])
@pytest.mark.parametrize("has_bias", [True, False])
def test_l_gru_step_with_one_unit(mask, has_bias):
    w = {
        "kernel": np.array([[0.3, -0.4, 0.9, 0.7, -1.1]]),
        "recurrent_kernel": np.array([[0.2, 0.5, -0.3, -0.6]]),
        "gate_bias": np.array([[0.05], [-0.15], [0.25]]),
    }
    if has_bias:
        w["candidate_bias"] = np.array([0.1])
    x, h = 1.5, -0.8
    r = logistic(0.3 * x + 0.2 * h + 0.05)
    z = logistic(-0.4 * x + 0.5 * h - 0.15)
    gate = logistic(0.9 * x - 0.3 * h + 0.25)
    c = math.tanh(0.7 * x + r * (-0.6 * h + 0.1 * has_bias)) + gate * -1.1 * x
    expected = (1 - z) * h + z * c * (1.0 if mask is None else mask)
    result = ref.l_gru_step(
        np.array([[x]]),
        np.array([[h]]),
        w,
        use_layer_norm=False,
        mask=None if mask is None else np.array([[mask]]),
    )
    np.testing.assert_allclose(result, [[expected]], rtol=1e-14)


@pytest.mark.parametrize("mask", [None, 0.0, 2.0])
def test_lau_step_with_one_unit(mask):
    w = {
        "kernel": np.array([[0.3, -0.4, 0.9, 0.7, -1.1]]),
        "recurrent_kernel": np.array([[0.2, 0.5, -0.3, -0.6]]),
        "gate_bias": np.array([[0.05], [-0.15], [0.25]]),
        "candidate_bias": np.array([0.1]),
    }
    x, h = 1.5, -0.8
    r = logistic(0.3 * x + 0.2 * h + 0.05)
    z = logistic(-0.4 * x + 0.5 * h - 0.15)
    g = logistic(0.9 * x - 0.3 * h + 0.25)
    c = math.tanh((1 - r) * 0.7 * x + r * (-0.6 * h + 0.1))
    moved = (1 - z) * h + z * c * (1.0 if mask is None else mask)
    result = ref.lau_step(
        np.array([[x]]),
        np.array([[h]]),
        w,
        use_layer_norm=False,
        mask=None if mask is None else np.array([[mask]]),
    )
    np.testing.assert_allclose(result, [[moved * (1 - g) + g * -1.1 * x]], rtol=1e-14)


@pytest.mark.parametrize("mask", [None, 0.0, 2.0])
def test_t_gru_step_with_one_unit(mask):
    w = {
        "recurrent_kernel": np.array([[0.2, 0.5, -0.6]]),
        "candidate_bias": np.array([0.1]),
        "gate_bias": np.array([[0.05], [-0.15]]),
    }
    h = -0.8
    r, z = logistic(0.2 * h + 0.05), logistic(0.5 * h - 0.15)
    c = math.tanh(r * (-0.6 * h + 0.1))
    expected = (1 - z) * h + z * c * (1.0 if mask is None else mask)
    result = ref.t_gru_step(
        np.array([[h]]),
        w,
        use_layer_norm=False,
        mask=None if mask is None else np.array([[mask]]),
    )
    np.testing.assert_allclose(result, [[expected]], rtol=1e-14)


def test_layer_norm_of_one_unit_leaves_the_offset():
    w = {
        "kernel": np.array([[3.0, -4.0, 9.0, 0.7, -1.1]]),
        "recurrent_kernel": np.array([[2.0, 5.0, -3.0, -0.6]]),
        "candidate_bias": np.array([0.1]),
        "gain": np.array([[1.5], [2.5], [3.5]]),
        "offset": np.array([[0.05], [-0.15], [0.25]]),
    }
    x, h = 1.5, -0.8
    r, z, gate = logistic(0.05), logistic(-0.15), logistic(0.25)
    c = math.tanh(0.7 * x + r * (-0.6 * h + 0.1)) + gate * -1.1 * x
    result = ref.l_gru_step(np.array([[x]]), np.array([[h]]), w)
    np.testing.assert_allclose(result, [[(1 - z) * h + z * c]], rtol=1e-14)


def test_layer_norm_acts_on_the_sum_of_both_projections_and_on_each_gate_alone():
    # Two units: LN of (a, b) is (-+) k with k = |a - b| / 2 / sqrt((a - b)^2 / 4 + 1e-6).
    rng = np.random.default_rng(1)
    kernel, recurrent = rng.normal(size=(1, 6)), rng.normal(size=(2, 6))
    gain, offset = rng.normal(size=(2, 2)), rng.normal(size=(2, 2))
    x, h = np.array([[0.7]]), np.array([[0.4, -0.9]])
    gates = []
    for g in range(2):
        a, b = (0.7 * kernel[0, 2 * g + u] + h[0] @ recurrent[:, 2 * g + u] for u in (0, 1))
        k = (a - b) / 2 / math.sqrt((a - b) ** 2 / 4 + 1e-6)
        gates.append([logistic(gain[g, u] * (k, -k)[u] + offset[g, u]) for u in (0, 1)])
    expected = []
    for u in (0, 1):
        r, z = gates[0][u], gates[1][u]
        c = math.tanh(0.7 * kernel[0, 4 + u] + r * (h[0] @ recurrent[:, 4 + u]))
        expected.append((1 - z) * h[0, u] + z * c)
    w = {"kernel": kernel, "recurrent_kernel": recurrent, "gain": gain, "offset": offset}
    np.testing.assert_allclose(ref.gru_step(x, h, w), [expected], rtol=1e-13)


@pytest.mark.parametrize("kind", ["lgru", "gru"])
def test_deep_transition_chains_the_cells_with_their_own_masks(kind):
    rng = np.random.default_rng(2)
    cells = ref.random_weights(tiny_config(kind=kind), rng)["query"]
    x, h = rng.normal(size=(3, 6)), rng.normal(size=(3, 8))
    masks = [2.0 * rng.integers(0, 2, size=(3, 8)) for _ in cells]
    step = {"lgru": ref.l_gru_step, "gru": ref.gru_step}[kind]
    expected = step(x, h, cells[0], mask=masks[0])
    expected = ref.t_gru_step(expected, cells[1], mask=masks[1])
    expected = ref.t_gru_step(expected, cells[2], mask=masks[2])
    result = ref.deep_transition_step(x, h, cells, masks, kind)
    np.testing.assert_array_equal(result, expected)
    assert np.abs(result - ref.deep_transition_step(x, h, cells, None, kind)).max() > 1e-3


# Positions and embeddings.


def test_positional_signal_golden_values():
    np.testing.assert_allclose(
        ref.positional_signal(2, 4)[1], [0.42073549, 0.00005, 0.27015115, 0.5], atol=1e-8
    )
    row = ref.positional_signal(8, 1024)[7]
    np.testing.assert_allclose(
        row[[0, 1, 511, 512, 1023]],
        [0.02053083, 0.01743237, 2.1875e-05, 0.02355945, 0.03124999],
        atol=1e-8,
    )
    np.testing.assert_allclose(ref.positional_signal(1, 4)[0], [0, 0, 0.5, 0.5], atol=1e-15)


def test_positional_signal_of_odd_width_ends_in_zeros_and_keeps_the_scale():
    odd, even = ref.positional_signal(5, 7), ref.positional_signal(5, 6)
    assert not odd[:, 6].any()
    np.testing.assert_allclose(odd[:, :6] * math.sqrt(7), even * math.sqrt(6), rtol=1e-12)


def test_embed_adds_bias_and_signal_at_the_offset():
    rng = np.random.default_rng(3)
    table, bias = rng.normal(size=(5, 4)), rng.normal(size=4)
    ids = np.array([[3, 1, 0]])
    expected = table[[3, 1, 0]] + bias + ref.positional_signal(9, 4)[6:9]
    np.testing.assert_allclose(ref.embed(ids, table, bias, True, 6)[0], expected, rtol=1e-14)
    np.testing.assert_array_equal(ref.embed(ids, table, None, False)[0], table[[3, 1, 0]])


# Encoder, initial state, attention.


def test_encoder_padding_is_zero_and_changes_nothing():
    rng = np.random.default_rng(4)
    cells = ref.random_weights(tiny_config(), rng)["encoder"]
    embedded = rng.normal(size=(2, 5, 6))
    mask = np.array([[True] * 3 + [False] * 2, [True] * 5])
    result = ref.encode(embedded, mask, cells["forward"], cells["backward"])
    assert not result[0, 3:].any()
    alone = ref.encode(embedded[:1, :3], mask[:1, :3], cells["forward"], cells["backward"])
    np.testing.assert_array_equal(result[0, :3], alone[0])
    with pytest.raises(ValueError, match="at the end"):
        ref.encode(embedded, ~mask, cells["forward"], cells["backward"])


def test_backward_encoder_is_the_forward_one_on_the_reversed_sentence():
    rng = np.random.default_rng(5)
    cells = ref.random_weights(tiny_config(), rng)["encoder"]
    embedded, mask = rng.normal(size=(1, 4, 6)), np.ones((1, 4), bool)
    result = ref.encode(embedded, mask, cells["forward"], cells["backward"])
    swapped = ref.encode(embedded[:, ::-1], mask, cells["backward"], cells["forward"])
    np.testing.assert_array_equal(result[..., 8:], swapped[:, ::-1, :8])
    first = ref.deep_transition_step(embedded[:, 0], np.zeros((1, 8)), cells["forward"])
    np.testing.assert_allclose(result[:, 0, :8], first, rtol=1e-13)


def test_initial_state_averages_real_positions_only():
    annotations = np.array([[[1.0, 2.0], [3.0, -4.0], [100.0, 100.0]]])
    mask = np.array([[True, True, False]])
    result = ref.initial_state(annotations, mask, np.array([[0.5], [0.25]]), np.array([0.1]))
    np.testing.assert_allclose(result, [[math.tanh(2.0 * 0.5 - 1.0 * 0.25 + 0.1)]], rtol=1e-14)


def test_attention_with_one_unit_by_hand():
    w = {
        "key_kernel": np.array([[0.5], [-1.0]]),
        "query_kernel": np.array([[2.0]]),
        "score": np.array([1.5]),
        "output_kernel": np.array([[1.0, 0.0, 2.0], [0.0, 1.0, -1.0]]),
        "output_bias": np.array([0.1, 0.2, 0.3]),
    }
    annotations = np.array([[[0.4, 0.2], [-0.6, 0.8], [0.0, 0.0]]])
    mask = np.array([[True, True, False]])
    context, weights = ref.attention(np.array([[0.3]]), annotations, mask, w, 1)
    e_0 = 1.5 * math.tanh(0.6 + 0.5 * 0.4 - 0.2)
    e_1 = 1.5 * math.tanh(0.6 + 0.5 * -0.6 - 0.8)
    a = math.exp(e_0) / (math.exp(e_0) + math.exp(e_1))
    np.testing.assert_allclose(weights, [[[a, 1 - a, 0.0]]], rtol=1e-14)
    first, second = a * 0.4 + (1 - a) * -0.6, a * 0.2 + (1 - a) * 0.8
    np.testing.assert_allclose(
        context, [[first + 0.1, second + 0.2, 2 * first - second + 0.3]], rtol=1e-13
    )


def test_first_half_of_the_heads_reads_forward_annotations_only():
    rng = np.random.default_rng(6)
    w = ref.random_weights(tiny_config(context_dim=16), rng)["attention"]
    w["output_kernel"], w["output_bias"] = np.eye(16), np.zeros(16)
    query, annotations = rng.normal(size=(1, 8)), rng.normal(size=(1, 5, 16))
    mask = np.array([[True, True, True, True, False]])
    context, weights = ref.attention(query, annotations, mask, w, 4)
    np.testing.assert_allclose(weights.sum(axis=-1), 1.0, rtol=1e-14)
    assert not weights[..., 4].any()
    for k in range(4):
        columns = slice(4 * k, 4 * k + 4)
        expected = weights[0, k] @ annotations[0, :, columns]
        np.testing.assert_allclose(context[0, columns], expected, rtol=1e-12)
        energy = [
            sum(
                w["score"][u]
                * math.tanh(
                    query[0] @ w["query_kernel"][:, 2 * k + u]
                    + annotations[0, j] @ w["key_kernel"][:, 2 * k + u]
                )
                for u in range(2)
            )
            for j in range(4)
        ]
        np.testing.assert_allclose(weights[0, k, :4], ref.softmax(np.array(energy)), rtol=1e-12)
