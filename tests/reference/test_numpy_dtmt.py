"""The NumPy twin against the printed numbers, and against cases small enough to do by hand."""

import math

import numpy as np
import pytest

from . import numpy_dtmt as ref

V_S, V_T = 40_067, 29_405  # the vocabularies that reproduce the paper's parameter counts


def logistic(v):
    return 1.0 / (1.0 + math.exp(-v))


def tiny_config(**changes):
    settings = {
        "source_vocab": 9,
        "target_vocab": 7,
        "embedding_dim": 6,
        "units": 8,
        "heads": 4,
        "depth": 2,
        "context_dim": 5,
    }
    return ref.make_config(**{**settings, **changes})


def count_entries(tree):
    if isinstance(tree, dict):
        return sum(count_entries(value) for value in tree.values())
    if isinstance(tree, list):
        return sum(count_entries(value) for value in tree)
    return tree.size


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


# Positions and embeddings: section 4.


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


# The whole model.


def test_readout_with_one_unit():
    w = {
        "kernel_y": np.array([[0.3]]),
        "kernel_s": np.array([[-0.5]]),
        "kernel_c": np.array([[0.7]]),
        "bias": np.array([0.1]),
        "logits_kernel": np.array([[2.0, -1.0]]),
        "logits_bias": np.array([0.25, 0.5]),
    }
    y, s, c = np.array([[1.0]]), np.array([[2.0]]), np.array([[3.0]])
    o = math.tanh(0.3 - 1.0 + 2.1 + 0.1)
    np.testing.assert_allclose(ref.readout(y, s, c, w), [[2 * o + 0.25, -o + 0.5]], rtol=1e-14)
    dropped = ref.readout(y, s, c, w, mask=np.array([[2.0]]))
    np.testing.assert_allclose(dropped, [[4 * o + 0.25, -2 * o + 0.5]], rtol=1e-14)


def test_decoder_transition_reads_the_context_alone_and_starts_from_the_query():
    rng = np.random.default_rng(7)
    config = tiny_config()
    weights = ref.random_weights(config, rng)
    memory, s_0 = ref.run_encoder(weights, [[4, 5, 1]], config)
    y = rng.normal(size=(1, 6))
    s, context, q, _ = ref.decoder_step(y, s_0, memory, weights, 4)
    np.testing.assert_array_equal(q, ref.deep_transition_step(y, s_0, weights["query"]))
    np.testing.assert_array_equal(context, ref.attention(q, *memory, weights["attention"], 4)[0])
    np.testing.assert_array_equal(s, ref.deep_transition_step(context, q, weights["transition"]))


def test_first_decoder_input_is_zero_and_words_keep_their_own_position():
    config = tiny_config()
    target = ref.random_weights(config, np.random.default_rng(8))["target"]
    shifted = ref.shifted_embeddings([[3, 4, 1]], target, True)[0]
    assert not shifted[0].any()
    signal = ref.positional_signal(2, 6)
    for t, word in ((1, 3), (2, 4)):
        expected = target["table"][word] + target["bias"] + signal[t - 1]
        np.testing.assert_allclose(shifted[t], expected, rtol=1e-14)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"kind": "gru", "candidate_bias": False},
        {"use_layer_norm": False, "use_position": False},
        {"depth": 0, "embedding_dim": 1, "units": 1, "heads": 1, "context_dim": 1},
    ],
)
def test_teacher_forcing_equals_stepping_and_ignores_padding(changes):
    config = tiny_config(**changes)
    weights = ref.random_weights(config, np.random.default_rng(9))
    source = np.array([[4, 5, 3, 1], [6, 1, 0, 0]])
    target = np.array([[3, 5, 1, 0], [2, 6, 4, 1]])
    logits = ref.forward(weights, source, target, config)
    assert logits.shape == (2, 4, 7)
    log_probs = ref.log_softmax(logits)
    for b, row, length in ((0, [4, 5, 3, 1], 3), (1, [6, 1], 4)):
        for t in range(length):
            stepped = ref.next_log_probs(weights, row, tuple(target[b, :t]), config)
            np.testing.assert_allclose(log_probs[b, t], stepped, rtol=1e-11)
    changed = target.copy()
    changed[1, 3] = 2  # the last word is predicted, never read
    np.testing.assert_array_equal(ref.forward(weights, source, changed, config), logits)


def test_forward_over_no_target_steps_is_empty():
    config = tiny_config()
    weights = ref.random_weights(config, np.random.default_rng(10))
    logits = ref.forward(weights, [[4, 1]], np.zeros((1, 0), int), config)
    assert logits.shape == (1, 0, 7)
    assert ref.smoothed_loss(logits, np.zeros((1, 0), int), 0.1) == (0.0, 0)


# Loss: section 7.


@pytest.mark.parametrize(("vocab", "constant"), [(29_405, 1.35397157), (40, 0.69143914)])
def test_loss_constant_golden_values(vocab, constant):
    assert ref.loss_constant(vocab, 0.1) == pytest.approx(constant, abs=5e-9)
    assert ref.loss_constant(vocab, 0.0) == 0.0


def test_perfect_model_scores_zero_and_padding_is_not_counted():
    target = np.array([[2, 1, 0]])
    probabilities = np.full((1, 3, 5), 0.1 / 4)
    probabilities[0, 0, 2] = probabilities[0, 1, 1] = 0.9
    total, count = ref.smoothed_loss(np.log(probabilities), target, 0.1)
    assert count == 2
    assert total == pytest.approx(0.0, abs=1e-14)


def test_smoothed_loss_by_hand():
    logits = np.log(np.array([[[0.2, 0.5, 0.3]]]))
    total, count = ref.smoothed_loss(logits, [[1]], 0.1)
    entropy = -(0.9 * math.log(0.9) + 0.1 * math.log(0.05))
    expected = -(0.9 * math.log(0.5) + 0.05 * math.log(0.2) + 0.05 * math.log(0.3)) - entropy
    assert (total, count) == (pytest.approx(expected, rel=1e-12), 1)
    assert ref.smoothed_loss(logits, [[1]], 0.0)[0] == pytest.approx(-math.log(0.5), rel=1e-12)
    two = np.concatenate([logits, logits], axis=1)
    assert ref.sentence_log_probs(two, [[1, 2]])[0] == pytest.approx(math.log(0.15), rel=1e-12)


# Schedule and optimiser: sections 8.1 and 8.2.

SCHEDULES = {
    "paper zh-en": (1e-3, 2, 500, 8_000, 64_000),
    "paper en-de": (1e-4, 8, 50, 200_000, 1_200_000),
    "paper en-fr": (1e-4, 8, 50, 400_000, 3_000_000),
    "code zh-en": (8e-4, 2, 50, 8_000, 100_000),
    "code2 zh-en": (6e-4, 2, 50, 8_000, 120_000),
}


@pytest.mark.parametrize(
    ("name", "t", "expected"),
    [
        ("paper zh-en", 0, 1.0e-3),
        ("paper zh-en", 500, 1.5e-3),
        ("paper zh-en", 1_000, 2.0e-3),
        ("paper zh-en", 4_000, 2.0e-3),
        ("paper zh-en", 8_000, 1.641e-3),
        ("paper zh-en", 16_000, 1.104e-3),
        ("paper zh-en", 32_000, 5.0e-4),
        ("paper zh-en", 48_000, 2.264e-4),
        ("paper en-de", 200, 4.5e-4),
        ("paper en-de", 50_000, 4.595e-4),
        ("paper en-de", 100_000, 1.516e-4),
    ],
)
def test_learning_rate_golden_values(name, t, expected):
    # Printed to four digits.
    assert ref.learning_rate(t, *SCHEDULES[name]) == pytest.approx(expected, rel=4e-4)


@pytest.mark.parametrize(
    ("name", "peak", "reached", "decays", "halved"),
    [
        ("paper zh-en", 2e-3, 1_000, 4_000, 32_000),
        ("paper en-de", 8e-4, 400, 25_000, 150_000),
        ("paper en-fr", 8e-4, 400, 50_000, 375_000),
        ("code zh-en", 1.6e-3, 100, 4_000, 50_000),
        ("code2 zh-en", 1.2e-3, 100, 4_000, 60_000),
    ],
)
def test_learning_rate_phases(name, peak, reached, decays, halved):
    constants = SCHEDULES[name]

    def rate(t):
        return ref.learning_rate(t, *constants)

    assert rate(0) == constants[0]
    assert rate(reached - 1) < peak
    assert rate(reached) == pytest.approx(peak, rel=1e-12)
    assert rate(decays) == pytest.approx(peak, rel=1e-12)
    assert rate(decays + 1) < peak
    assert rate(halved) == pytest.approx(constants[0] / 2, rel=1e-12)


def test_one_replica_has_no_warm_up():
    rates = [ref.learning_rate(t, 1e-3, 1, 500, 8_000, 64_000) for t in (0, 8_000, 64_000)]
    np.testing.assert_allclose(rates, [1e-3, 1e-3, 5e-4], rtol=1e-12)


def test_adam_first_step_by_hand():
    param, m, v = ref.adam_step(1.0, 1e-5, 0.0, 0.0, 1, 0.01)
    assert (m, v) == (pytest.approx(1e-6), pytest.approx(1e-13))
    # lr sqrt(1 - b2) / (1 - b1) m / (sqrt(v) + eps), where sqrt(v) = 3.16e-7 is below eps = 1e-6
    expected = 1.0 - 0.01 * math.sqrt(0.001) / 0.1 * 1e-6 / (math.sqrt(1e-13) + 1e-6)
    assert param == pytest.approx(expected, rel=1e-14)


def test_adam_equals_the_corrected_form_with_epsilon_divided():
    rng = np.random.default_rng(11)
    param = other = np.ones(3)
    m = v = np.zeros(3)
    for t in range(1, 6):
        grad = rng.normal(size=3) * 1e-5
        param, m, v = ref.adam_step(param, grad, m, v, t, 0.1)
        corrected_m, corrected_v = m / (1 - 0.9**t), v / (1 - 0.999**t)
        epsilon = 1e-6 / math.sqrt(1 - 0.999**t)
        other = other - 0.1 * corrected_m / (np.sqrt(corrected_v) + epsilon)
    np.testing.assert_allclose(param, other, rtol=1e-12)


def test_clip_by_global_norm_by_hand():
    clipped, norm = ref.clip_by_global_norm([np.array([6.0]), np.array([[0.0, 8.0]])], 5.0)
    assert norm == 10.0
    np.testing.assert_allclose(clipped[0], [3.0])
    np.testing.assert_allclose(clipped[1], [[0.0, 4.0]])
    for limit in (5.0, 6.0):  # at and below the limit nothing changes
        kept, norm = ref.clip_by_global_norm([np.array([3.0]), np.array([4.0])], limit)
        assert (kept[0][0], kept[1][0], norm) == (3.0, 4.0, 5.0)


# Parameter counts: sections 9.2, 9.3 and 9.5.


@pytest.mark.parametrize(
    ("kind", "depth", "candidate_bias", "count", "paper", "narrow"),
    [
        ("gru", 0, False, 143_245_085, 143.2, None),
        ("gru", 0, True, 143_249_181, 143.2, 136.957),
        ("lgru", 0, True, 157_937_437, 157.9, 149.548),
        ("gru", 1, False, 155_848_477, 155.8, None),
        ("gru", 1, True, 155_852_573, 155.8, 149.560),
        ("lgru", 1, True, 170_540_829, 170.5, 162.151),
        ("lgru", 2, True, 183_144_221, None, 174.755),
        ("lgru", 3, True, 195_747_613, None, 187.358),
        ("gru", 4, False, 193_658_653, 193.7, None),
        ("gru", 4, True, 193_662_749, 193.7, 187.370),
        ("lgru", 4, True, 208_351_005, 208.4, 199.961),
    ],
)
def test_parameter_count_of_the_paper(kind, depth, candidate_bias, count, paper, narrow):
    def total(context_dim):
        return ref.parameter_count(
            V_S, V_T, 1024, 1024, 16, depth, context_dim, kind, candidate_bias
        )

    assert total(2048) == total(None) == count
    if paper is not None:
        assert count / 1e6 == pytest.approx(paper, abs=0.06)
    if narrow is not None:
        assert round(total(1024) / 1e6, 3) == narrow


def test_transformer_big_confirms_the_vocabularies():
    d, inner = 1024, 4096
    attention, norm = 4 * (d * d + d), 2 * d
    feed_forward = 2 * d * inner + inner + d
    encoder = 6 * (attention + feed_forward + 2 * norm)
    decoder = 6 * (2 * attention + feed_forward + 3 * norm)
    assert (V_S + 2 * V_T) * d + d + encoder + decoder == 277_608_448


def test_parameter_breakdown_of_the_paper():
    shallow = ref.parameter_breakdown(ref.make_config(V_S, V_T, 1024, 1024, 16, 0, kind="gru"))
    deep = ref.parameter_breakdown(ref.make_config(V_S, V_T, 1024, 1024, 16, 4))
    rest = {
        "source": 41_029_632,
        "target": 30_111_744,
        "initial": 2_098_176,
        "attention": 2_097_152 + 1_048_576 + 64 + 4_196_352,
        "readout": 4_195_328,
        "softmax": 30_140_125,
    }
    assert shallow == rest | {
        "encoder": 12_593_152,
        "query": 6_296_576,
        "transition": 9_442_304,
    }
    assert deep == rest | {
        "encoder": 44_095_488,
        "query": 22_047_744,
        "transition": 27_290_624,
    }


@pytest.mark.parametrize(
    ("depth", "wide", "narrow", "gru"),
    [
        (1, 68_688, 60_464, 55_632),
        (2, 81_616, 73_392, 68_560),
        (4, 107_472, 99_248, 94_416),
    ],
)
def test_small_parameter_counts(depth, wide, narrow, gru):
    small = (50, 40, 24, 32, 4, depth)
    for count, options in ((wide, {}), (narrow, {"context_dim": 32}), (gru, {"kind": "gru"})):
        assert ref.parameter_count(*small, **options) == count
        weights = ref.random_weights(ref.make_config(*small, **options), np.random.default_rng(0))
        assert count_entries(weights) == count


def test_small_parameter_breakdown():
    assert ref.parameter_breakdown(ref.make_config(50, 40, 24, 32, 4, 4)) == {
        "source": 1_224,
        "target": 984,
        "encoder": 42_176,
        "initial": 2_080,
        "query": 21_088,
        "attention": 7_240,
        "transition": 27_488,
        "readout": 3_872,
        "softmax": 1_320,
    }


@pytest.mark.parametrize("kind", ["gru", "lgru"])
@pytest.mark.parametrize("candidate_bias", [True, False])
@pytest.mark.parametrize("transition_candidate_bias", [True, False])
@pytest.mark.parametrize("use_layer_norm", [True, False])
@pytest.mark.parametrize("depth", [0, 1])
def test_formula_counts_the_weights(
    kind, candidate_bias, transition_candidate_bias, use_layer_norm, depth
):
    config = tiny_config(
        kind=kind,
        candidate_bias=candidate_bias,
        transition_candidate_bias=transition_candidate_bias,
        use_layer_norm=use_layer_norm,
        depth=depth,
    )
    weights = ref.random_weights(config, np.random.default_rng(12))
    assert count_entries(weights) == sum(ref.parameter_breakdown(config).values())


# Search: section 8.4.


def test_length_penalty_golden_values():
    values = [ref.length_penalty(length, 0.6) for length in (1, 10, 50)]
    np.testing.assert_allclose(values, [1.0, 1.732862, 3.778565], rtol=3e-7)
    assert ref.length_penalty(17, 0.0) == 1.0


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
    # Words: 0, <eos> = 1, 2. With one beam, <eos> is best at first and the word 2 lives on.
    fn = scripted({(): [0.01, 0.59, 0.4], (2,): [0.0, 1.0, 0.0]}, 3)
    result = ref.beam_search(fn, 2, 1, 5.0, 3, 1)
    # (2, <eos>) at log 0.4 / (7/6)^5 = -0.424 beats (<eos>,) at log 0.59 = -0.528.
    assert [ids for ids, _, _ in result] == [(2, 1)]
    assert result[0][1] == pytest.approx(math.log(0.4))
    assert result[0][2] == pytest.approx(math.log(0.4) / (7 / 6) ** 5)


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
def test_beam_of_one_without_penalty_follows_the_best_living_word(seed):
    fn = random_language(seed, 5)
    result = ref.beam_search(fn, 3, 1, 0.0, 5, 1, extra=3)
    prefix, log_p, finished = (), 0.0, []
    for _ in range(6):
        log_probs = fn(prefix)
        order = [int(k) for k in np.argsort(-log_probs)]
        if 1 in order[:2]:
            finished.append(((*prefix, 1), log_p + log_probs[1]))
        word = order[1] if order[0] == 1 else order[0]
        prefix, log_p = (*prefix, word), log_p + log_probs[word]
        if finished and max(finished, key=lambda item: item[1])[1] > log_p:
            break
    expected = max(finished, key=lambda item: item[1]) if finished else (prefix, log_p)
    assert result[0][0] == expected[0]
    assert result[0][1] == pytest.approx(expected[1], rel=1e-12)


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
