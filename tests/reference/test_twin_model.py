"""The NumPy twin by hand: the whole model, loss, schedule, optimiser."""

import math

import numpy as np
import pytest

from . import numpy_dtmt as ref
from .toys import tiny_config

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


# Loss.


def test_smoothed_loss_by_hand():
    logits = np.log(np.array([[[0.2, 0.5, 0.3]]]))
    total, count = ref.smoothed_loss(logits, [[1]], 0.1)
    entropy = -(0.9 * math.log(0.9) + 0.1 * math.log(0.05))
    expected = -(0.9 * math.log(0.5) + 0.05 * math.log(0.2) + 0.05 * math.log(0.3)) - entropy
    assert (total, count) == (pytest.approx(expected, rel=1e-12), 1)
    assert ref.smoothed_loss(logits, [[1]], 0.0)[0] == pytest.approx(-math.log(0.5), rel=1e-12)
    two = np.concatenate([logits, logits], axis=1)
    assert ref.sentence_log_probs(two, [[1, 2]])[0] == pytest.approx(math.log(0.15), rel=1e-12)


# Optimiser.


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
