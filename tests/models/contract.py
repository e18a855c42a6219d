"""What every translation model must do, in one call: `check_translation_model_contract(model)`."""

import math
import warnings

import numpy as np
import tensorflow as tf

from tests.cells.twin import relative_error

WORDS_S, WORDS_T = 9, 7
SOURCE = np.array([[4, 5, 6, 7, 1], [3, 8, 1, 0, 0], [1, 0, 0, 0, 0]], "int32")
TARGET = np.array([[3, 2, 6, 1], [5, 1, 0, 0], [4, 4, 1, 0]], "int32")
REAL = TARGET != 0
ROUNDING = 1e-5  # float32, after a few words


def check_translation_model_contract(model):
    """Runs all checks below. The model has random weights and `WORDS_S` and `WORDS_T` words."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "You are using a softmax over axis")  # one word or state
        forward = graph_of(model)
        encoded = model.encode(SOURCE)
        check_stepwise_equals_forced(model, forward, encoded)
        check_first_step_ignores_the_word_given(model, encoded)
        check_padding_changes_nothing(forward)
        check_sentences_do_not_see_each_other(forward)
        check_words_to_come_do_not_reach_the_logits(forward)
        check_inspection_leaves_padding_out(model)
        check_parts_hold_all_weights(model)


def graph_of(model):
    """The model as a graph of batches of any size: for so many calls faster than eagerly."""
    ids = tf.TensorSpec([None, None], tf.int32)
    return tf.function(lambda source, target: model(source, target), input_signature=[ids] * 2)


def loss_of(model, source=SOURCE, target=TARGET):
    """Minus the log-probability of all target words, summed, under teacher forcing."""
    log_probs = tf.nn.log_softmax(model(source, target))
    gold = tf.gather(log_probs, target, axis=-1, batch_dims=2)
    return -tf.reduce_sum(tf.boolean_mask(gold, target != 0))


def step_through(model, encoded, hypotheses):
    """Logits of K forced hypotheses per sentence, `[B, K, T]` words in, `[B, K, T, V]` out."""
    hidden, memory = encoded
    beams = hypotheses.shape[1]
    hidden = tf.nest.map_structure(lambda tensor: tf.repeat(tensor, beams, axis=1), hidden)
    state, ids, logits = (hidden, memory), np.full(hypotheses.shape[:2], 3, "int32"), []
    for t in range(hypotheses.shape[2]):
        step, state = model.decode_step(ids, state)
        logits.append(step)
        ids = hypotheses[:, :, t]
    return tf.stack(logits, axis=2)


def check_stepwise_equals_forced(model, forward, encoded, beams=3):
    """A search sees the logits that training sees, whatever hypotheses stand beside each other."""
    hypotheses = np.random.default_rng(0).integers(1, WORDS_T, (3, beams, 4), "int32")
    stepwise = step_through(model, encoded, hypotheses)
    assert stepwise.shape == (3, beams, 4, WORDS_T)
    forced = forward(np.repeat(SOURCE, beams, axis=0), hypotheses.reshape(3 * beams, 4))
    forced = np.reshape(forced, stepwise.shape)
    assert relative_error(stepwise, forced) <= ROUNDING
    assert np.max(np.abs(forced - forced[:1, :1])) > 0.01  # hypotheses and sentences do differ


def check_first_step_ignores_the_word_given(model, encoded):
    """There is none before the first."""
    first, _ = model.decode_step(np.full((3, 1), 2), encoded)
    second, _ = model.decode_step(np.full((3, 1), 6), encoded)
    np.testing.assert_array_equal(first, second)


def padded(rows, columns_s, columns_t):
    """The batch with so many rows and columns of padding more."""
    source = np.pad(SOURCE, [(0, rows), (0, columns_s)])
    return source, np.pad(TARGET, [(0, rows), (0, columns_t)])


def check_padding_changes_nothing(forward):
    """Columns of it on either side, both, and a row of nothing else."""
    expected = np.asarray(forward(SOURCE, TARGET))
    for more in [(0, 6, 0), (0, 0, 5), (1, 3, 4)]:
        logits = np.asarray(forward(*padded(*more)))
        assert np.all(np.isfinite(logits))
        assert relative_error(logits[:3, :4][REAL], expected[REAL]) <= ROUNDING


def check_sentences_do_not_see_each_other(forward):
    """Neither their order nor who stands beside them counts."""
    logits = np.asarray(forward(SOURCE, TARGET))
    order = [2, 0, 1]
    permuted = np.asarray(forward(SOURCE[order], TARGET[order]))
    assert relative_error(permuted[REAL[order]], logits[order][REAL[order]]) <= ROUNDING
    for b in range(3):  # each in a bucket of its own size
        source = SOURCE[b : b + 1, : np.sum(SOURCE[b] != 0)]
        target = TARGET[b : b + 1, : np.sum(REAL[b])]
        assert relative_error(forward(source, target)[0], logits[b][REAL[b]]) <= ROUNDING


def check_words_to_come_do_not_reach_the_logits(forward):
    """Row t predicts word t: it may not see it. The row after it may, and does."""
    before = np.asarray(forward(SOURCE, TARGET))
    for t in range(4):
        target = TARGET.copy()
        target[:, t:] = (target[:, t:] + 3) % WORDS_T
        after = np.asarray(forward(SOURCE, target))
        np.testing.assert_array_equal(after[:, : t + 1], before[:, : t + 1])
        assert t == 3 or np.any(after[:, t + 1] != before[:, t + 1])


def check_inspection_leaves_padding_out(model):
    """Attention is shared out among source words; means of gates are those of words."""
    gates, attended = model.inspect(SOURCE, TARGET)
    attended = np.asarray(attended)
    assert attended.shape == (3, 4, 5) and np.all(attended >= 0)
    np.testing.assert_allclose(attended.sum(axis=-1)[REAL], 1, rtol=1e-5)
    there = np.broadcast_to((SOURCE != 0)[:, None], attended.shape)
    assert np.all(attended[REAL][~there[REAL]] == 0)
    if not gates:
        return
    more, _ = model.inspect(*padded(0, 3, 2))
    assert more.keys() == gates.keys()
    for name, gate in gates.items():
        assert 0 < gate < 1
        np.testing.assert_allclose(more[name], gate, rtol=1e-4, err_msg=name)


def check_parts_hold_all_weights(model):
    """A part is that of `modules`."""
    counted = sum(model.parameter_counts().values())
    assert counted == sum(math.prod(weight.shape) for weight in model.trainable_variables)
