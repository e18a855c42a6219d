"""The deep recurrent family against the numbers of the authors' program, `EdinburghNLP/nematus`.

There padding and <eos> are both id 0 and masks tell them apart. Here padding alone is 0, so every
id is one larger and the tables have a first row that theirs lack. All numbers are of its version
with the paper's biases (its setting `theano_compat`); those of "bideep" are of commit 49d0508.
"""

import numpy as np
import pytest
import tensorflow as tf

from dtmt_tf.config import TrainingConfig
from dtmt_tf.models import DeepRNNConfig
from tests.reference.golden import Golden, Places

SIZES = {"embedding_dim": 5, "units": 6}
CONFIGS = {
    "shallow": DeepRNNConfig(**SIZES),
    "shallow_no_norm": DeepRNNConfig(**SIZES, use_layer_norm=False),
    "deep_transition": DeepRNNConfig(**SIZES, encoder_transition=3, decoder_transition=4),
    "stacked_alternating_gru": DeepRNNConfig(**SIZES, encoder_depth=3, decoder_depth=3),
    "bideep": DeepRNNConfig(
        **SIZES,
        encoder_depth=2,
        encoder_transition=2,
        decoder_depth=2,
        decoder_transition=4,
        high_cell="rgru",
        high_transition=2,
    ),
}
WITHOUT_PADDING = slice(1, None)


def put_norm(places, name, norm):
    places.put(f"{name}/new_std", norm.gamma)
    places.put(f"{name}/new_mean", norm.beta)


def put_gru(places, name, cell):
    gates, candidate = slice(2 * cell.units), slice(2 * cell.units, None)
    for theirs, part in (("gates", gates), ("proposal", candidate)):
        places.put(f"{name}/state_to_{theirs}", cell.recurrent_kernel, (..., part))
        places.put(f"{name}/{theirs}_bias", cell.bias, part)
        if cell.reads_input:
            places.put(f"{name}/input_to_{theirs}", cell.kernel, (..., part))
    for side, norms in (("state", cell.state_norms), ("x", cell.input_norms)):
        for theirs, norm in zip(("gates", "proposal"), norms, strict=False):
            put_norm(places, f"{name}/{theirs}_{side}_norm", norm)


def put_cells(places, name, *transitions):
    cells = [cell for transition in transitions for cell in transition.cells]
    for k, cell in enumerate(cells):
        put_gru(places, f"{name}/gru{k}", cell)


def put_affine(places, name, layer):
    places.put(f"{name}/W", layer.affine.kernel)
    places.put(f"{name}/b", layer.affine.bias)
    if layer.norm is not None:
        put_norm(places, name, layer.norm)


def put_weights(places, model):
    """All of theirs into ours."""
    encoder, cell, readout = model.encoder, model.cell, model.readout
    for theirs, table in (("encoder", model.source_embedding), ("decoder", model.target_embedding)):
        places.put(f"{theirs}/embedding/embeddings", table.table, WITHOUT_PADDING)
    for side in ("forward", "backward"):
        for k, level in enumerate(getattr(encoder, side)):
            put_cells(places, f"encoder/{side}-stack/level{k}", level.transition)
    put_affine(places, "decoder/initial_state_constructor", model.initial_state)
    base, *high = cell.levels
    put_cells(places, "decoder/base", base.first, base.second)
    for k, level in enumerate(high):
        put_cells(places, f"decoder/high/level{k}", level.first)
    name, attention = "decoder/base/attention", base.attention
    places.put(f"{name}/state_to_hidden", attention.query_kernel)
    places.put(f"{name}/context_to_hidden", attention.key_kernel)
    places.put(f"{name}/hidden_bias", attention.key_bias)
    places.put(f"{name}/hidden_to_score", attention.score)
    if attention.key_norm is not None:
        put_norm(places, f"{name}/hidden_context_norm", attention.key_norm)
        put_norm(places, f"{name}/hidden_state_norm", attention.query_norm)
    name = "decoder/next_word_predictor"
    theirs = ("prev_emb_to_hidden", "state_to_hidden", "attended_context_to_hidden")
    for each, layer in zip(theirs, readout.first, strict=True):
        put_affine(places, f"{name}/{each}", layer)
    places.put(f"{name}/hidden_to_logits/b", readout.logits.bias, WITHOUT_PADDING)


@pytest.fixture(scope="module", params=CONFIGS)
def program(request):
    """Their numbers, our model with their weights, and which weight is where."""
    golden = Golden(f"nematus_{request.param}")
    model = CONFIGS[request.param].build(12, 14, TrainingConfig())
    places = Places(golden)
    put_weights(places, model)
    attention_scores = 1  # their newer program lacks the bias that has no effect
    places.check_complete(model, more=2 * 5 + 1 + attention_scores)
    return golden, model, places


def ids(golden, side):
    """Sentences as we number them."""
    return (golden.values[f"{side}_ids"] + 1) * golden.values[f"{side}_mask"].astype("int32")


def test_logits(program):
    golden, model, _ = program
    source, target = ids(golden, "source"), ids(golden, "target")
    logits = np.asarray(model(source, target))[..., WITHOUT_PADDING]
    assert np.max(np.abs(logits - golden.values["logits"])[target != 0]) <= 1e-5


def test_losses_and_the_norm_of_their_gradient_by_each_weight(program):
    golden, model, places = program
    source, target = ids(golden, "source"), ids(golden, "target")
    variables = model.trainable_variables
    with tf.GradientTape() as tape:
        logits = model(source, target)[..., WITHOUT_PADDING]
        log_probs = tf.nn.log_softmax(logits)
        words = np.maximum(target - 1, 0)
        gold = tf.gather(log_probs, words, axis=-1, batch_dims=2)
        losses = -tf.reduce_sum(tf.where(target != 0, gold, 0.0), axis=1)
        loss = tf.reduce_mean(losses)
    np.testing.assert_allclose(losses, golden.values["loss_per_sentence"], rtol=1e-5)
    gradients = tape.gradient(loss, [v.value for v in variables], unconnected_gradients="zero")
    dense = [tf.convert_to_tensor(gradient) for gradient in gradients]
    assert places.largest_norm_error(variables, dense) <= 1e-4
