"""DTMT#4 against the numbers of the authors' release, `fandongmeng/DTMT_InDec`."""

import numpy as np
import pytest
import tensorflow as tf

from dtmt_tf.config import TrainingConfig
from dtmt_tf.models import DTMTConfig
from dtmt_tf.training.loss import smoothed_cross_entropy
from tests.reference.golden import Golden, Places

UNITS = 32


def put_transition(places, cell, name):
    """One L-GRU and its T-GRUs; theirs has a matrix for each of our blocks of columns."""
    first, *others = cell.cells

    def columns(k):
        return ..., slice(k * UNITS, (k + 1) * UNITS)

    for k, gate in enumerate(("reset_gate", "update_gate", "reset_gate2")):  # r, z, l
        places.put(f"{name}/{gate}/matrix_0", first.kernel, columns(k))
        places.put(f"{name}/{gate}/matrix_1", first.recurrent_kernel, columns(k))
        places.put(f"{name}/{gate}_ln/scale", first.gates.gain, k)
        places.put(f"{name}/{gate}_ln/offset", first.gates.offset, k)
    places.put(f"{name}/linear_inputs/matrix_0", first.kernel, columns(3))
    places.put(f"{name}/linear_inputs_transform/matrix_0", first.kernel, columns(4))
    places.put(f"{name}/linear_state/matrix_0", first.recurrent_kernel, columns(3))
    places.put(f"{name}/linear_state/bias", first.candidate_bias)
    for depth, cell in enumerate(others):
        for k, gate in enumerate(("reset", "update")):
            theirs = f"{name}/trans_{gate}_gate"
            places.put(f"{theirs}_l{depth}/matrix_0", cell.recurrent_kernel, columns(k))
            places.put(f"{theirs}_ln_l{depth}/scale", cell.gates.gain, k)
            places.put(f"{theirs}_ln_l{depth}/offset", cell.gates.offset, k)
        theirs = f"{name}/trans_candidate_l{depth}"
        places.put(f"{theirs}/matrix_0", cell.recurrent_kernel, columns(2))
        places.put(f"{theirs}/bias", cell.candidate_bias)


@pytest.fixture(scope="module")
def release():
    """Their numbers, our model with their weights, and which weight is where."""
    golden = Golden("dtmt4")
    config = DTMTConfig(embedding_dim=6, units=UNITS, num_heads=16, context_dim=UNITS)
    model = config.build(11, 13, TrainingConfig())
    places = Places(golden)
    for side in ("source", "target"):
        embedding = getattr(model, f"{side}_embedding")
        places.put(f"{side}_embedding/embedding", embedding.table)
        places.put(f"{side}_embedding/bias", embedding.bias)
    for way in ("forward", "backward"):
        cell = getattr(model.encoder, way).transition
        put_transition(places, cell, f"encoder/{way}/gru_cell")
    put_transition(places, model.cell.query, "decoder/gru_cell")
    put_transition(places, model.cell.transition, "decoder/gru_cell_1")
    places.put("s_transform/matrix_0", model.initial_state.kernel)
    places.put("s_transform/bias", model.initial_state.bias)
    attention, readout = model.cell.attention, model.readout
    for theirs, ours in (
        ("k_transform/matrix_0", attention.key_kernel),
        ("q_transform/matrix_0", attention.query_kernel),
        ("logits/matrix_0", attention.score),
        ("output_transform/matrix", attention.output_kernel),
        ("output_transform/bias", attention.output_bias),
    ):
        places.put(f"decoder/attention_mhead/{theirs}", ours)
    ends = [0, 6, 6 + UNITS, 6 + 2 * UNITS]  # the word, the state, the context
    for k in range(3):
        rows = slice(ends[k], ends[k + 1])
        places.put(f"maxout/matrix_{k}", readout.hidden.kernel, rows)
    places.put("maxout/bias", readout.hidden.bias)
    places.put("softmax/matrix_0", readout.logits.kernel)
    places.put("softmax/bias", readout.logits.bias)
    places.check_complete(model)
    return golden, model, places


def test_logits_and_log_probabilities(release):
    golden, model, _ = release
    source, target = golden.values["source_ids"], golden.values["target_ids"]
    real = target != 0
    logits = np.asarray(model(source, target))
    assert np.max(np.abs(logits - golden.values["logits"])[real]) <= 1e-5
    log_probs = tf.gather(tf.nn.log_softmax(logits), target, axis=-1, batch_dims=2)
    found = np.sum(np.where(real, log_probs, 0), axis=1)
    np.testing.assert_allclose(found, golden.values["log_probability"], rtol=1e-5)


def test_smoothed_loss_and_the_norm_of_its_gradient_by_each_weight(release):
    golden, model, places = release
    source, target = golden.values["source_ids"], golden.values["target_ids"]
    variables = model.trainable_variables
    with tf.GradientTape() as tape:
        real = tf.not_equal(target, 0)
        logits = tf.boolean_mask(model(source, target), real)
        losses, _ = smoothed_cross_entropy(logits, tf.boolean_mask(target, real), 0.1)
        loss = tf.reduce_mean(losses)
    np.testing.assert_allclose(loss, golden.values["smoothed_loss"], rtol=1e-5)
    gradients = tape.gradient(loss, [v.value for v in variables])
    dense = [tf.convert_to_tensor(gradient) for gradient in gradients]
    assert places.largest_norm_error(variables, dense) <= 1e-4
