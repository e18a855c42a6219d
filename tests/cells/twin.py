"""From our Keras weights to those of the float64 twin, and the comparison of the two.

Every `*_weights` function reads a weight through `value`, a function of a Keras variable. By
default it gives the number stored; `assert_gradients_match` passes one that displaces single
entries, so that the twin can be differentiated numerically in exactly the weights that we have.
"""

import collections
import os

import keras
import numpy as np
import tensorflow as tf

from tests.reference import numpy_dtmt as ref

FLOOR = 1e-3  # errors are relative to the largest number, or to this where all are tiny
measured = collections.defaultdict(list)  # errors by test; `pytest -n0 --differences` shows them


def relative_error(actual, expected):
    """Largest difference, as a fraction of the largest expected number."""
    actual = keras.ops.convert_to_numpy(actual).astype("float64")
    expected = np.asarray(expected, dtype="float64")
    assert actual.shape == expected.shape
    if not expected.size:
        return 0.0
    return noted(np.max(np.abs(actual - expected)) / max(np.max(np.abs(expected)), FLOOR))


def noted(error):
    """Returns the error, and keeps it for `--differences`."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "").removesuffix(" (call)")
    measured[test.partition("[")[0]].append(error)
    return error


def randomise(layer, rng, scale=0.3):
    """Draws all weights, those of norms and biases too: uniform in +-scale, gains around 1."""
    for variable in layer.weights:
        drawn = rng.uniform(-scale, scale, size=variable.shape)
        variable.assign((drawn + (variable.name in ("gain", "gamma"))).astype("float32"))
    return layer


def stored(variable):
    """The weight's numbers, in float64."""
    return variable.numpy().astype("float64")


def cell_weights(cell, value=stored):
    """One `GatedCell`."""
    weights = {"recurrent_kernel": value(cell.recurrent_kernel)}
    if cell.num_input_projections:
        weights["kernel"] = value(cell.kernel)
    if cell.use_candidate_bias:
        weights["candidate_bias"] = value(cell.candidate_bias)
    if cell.use_layer_norm:
        weights |= {"gain": value(cell.gates.gain), "offset": value(cell.gates.offset)}
    elif cell.use_bias:
        weights["gate_bias"] = value(cell.gates.bias)
    else:
        weights["gate_bias"] = cell.gates.first_offsets
    if getattr(cell, "first_scale", 0):
        weights["scale"] = value(cell.scale)
    return weights


def module_weights(cell, value=stored):
    """One `DeepTransitionCell`."""
    return [cell_weights(part, value) for part in cell.cells]


def attention_weights(attention, value=stored):
    """One `MultiHeadAdditiveAttention`."""
    names = ("key_kernel", "query_kernel", "score", "output_kernel", "output_bias")
    return {name: value(getattr(attention, name)) for name in names}


def decoder_weights(cell, value=stored):
    """One `TransitionDecoderCell`."""
    return {
        "query": module_weights(cell.query, value),
        "attention": attention_weights(cell.attention, value),
        "transition": module_weights(cell.transition, value),
    }


def readout_weights(readout, embedding_dim, units, value=stored):
    """One `Readout`; the rows of its first kernel are those of y, then s, then c."""
    ends = [embedding_dim, embedding_dim + units]
    kernel_y, kernel_s, kernel_c = np.split(value(readout.hidden.kernel), ends)
    return {
        "kernel_y": kernel_y,
        "kernel_s": kernel_s,
        "kernel_c": kernel_c,
        "bias": value(readout.hidden.bias),
        "logits_kernel": value(readout.logits.kernel),
        "logits_bias": value(readout.logits.bias),
    }


def encoder_weights(encoder, value=stored):
    """One `BidirectionalEncoder`."""
    return {
        "forward": module_weights(encoder.forward.transition, value),
        "backward": module_weights(encoder.backward.transition, value),
    }


def embedding_weights(embedding, value=stored):
    """One `TokenEmbedding`."""
    return {"table": value(embedding.table), "bias": value(embedding.bias)}


def weights_of(model, value=stored):
    """The whole `DTMT`."""
    config = model.config
    return {
        "source": embedding_weights(model.source_embedding, value),
        "target": embedding_weights(model.target_embedding, value),
        "encoder": encoder_weights(model.encoder, value),
        "initial": {
            "kernel": value(model.initial_state.kernel),
            "bias": value(model.initial_state.bias),
        },
        **decoder_weights(model.cell, value),
        "readout": readout_weights(model.readout, config.embedding_dim, config.units, value),
    }


def _entries(gradient, samples, rng):
    """Indices to look at: all, or where the gradient is steepest and some more."""
    if samples is None or gradient.size <= samples:
        return list(np.ndindex(gradient.shape))
    steepest = np.argsort(-np.abs(gradient), axis=None)[: samples // 2]
    others = rng.choice(gradient.size, size=samples - len(steepest), replace=False)
    chosen = {int(k) for k in (*steepest, *others)}
    return [tuple(int(k) for k in np.unravel_index(flat, gradient.shape)) for flat in chosen]


def assert_gradients_match(loss, twin_loss, arrays, variables, *, tolerance, samples=None):
    """Checks TensorFlow's gradients against central differences of the twin.

    Args:
        loss: `loss(*tensors)`, a scalar of our layers.
        twin_loss: `twin_loss(value, *arrays)`, the same number by the twin with the weights that
            `value` gives.
        arrays: Float arguments of both, differentiated too.
        variables: Keras variables to differentiate.
        tolerance: Bound of the error, relative to the largest entry of each gradient.
        samples: Entries to look at in each gradient; all by default.
    """
    tensors = [tf.convert_to_tensor(array) for array in arrays]
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        result = loss(*tensors)
    sources = [*tensors, *(variable.value for variable in variables)]
    gradients = tape.gradient(result, sources, unconnected_gradients="zero")
    arrays = [np.asarray(array, dtype="float64") for array in arrays]
    assert relative_error(result, twin_loss(stored, *arrays)) <= tolerance

    rng = np.random.default_rng(1)
    points = [*arrays, *map(stored, variables)]
    known = dict(zip(map(id, variables), points[len(arrays) :], strict=True))
    names = [f"argument {k}" for k in range(len(arrays))] + [v.path for v in variables]
    for position, (name, gradient) in enumerate(zip(names, gradients, strict=True)):
        gradient = tf.convert_to_tensor(gradient).numpy().astype("float64")

        def displaced(point, position=position):
            if position < len(arrays):
                moved = [*arrays]
                moved[position] = point
                return twin_loss(lambda v: known[id(v)], *moved)
            values = known | {id(variables[position - len(arrays)]): point}
            return twin_loss(lambda v: values[id(v)], *arrays)

        entries = _entries(gradient, samples, rng)
        expected = ref.central_difference(displaced, points[position], entries)
        actual = np.array([gradient[entry] for entry in entries])
        error = noted(np.max(np.abs(actual - expected)) / max(np.max(np.abs(gradient)), FLOOR))
        assert error <= tolerance, f"{name}: relative error {error:.2e}"
