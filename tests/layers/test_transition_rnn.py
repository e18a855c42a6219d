"""What `TransitionRNN` adds to the contract of the cells it runs."""

import json

import keras
import numpy as np
import pytest

from dtmt_tf.layers import SeedStream, TransitionRNN
from dtmt_tf.layers.transition_rnn import EncoderRNN
from tests.cells.test_deep_transition import built_module
from tests.cells.twin import module_weights, relative_error
from tests.reference import numpy_dtmt as ref


def twin_outputs(inputs, h, weights, masks=None):
    outputs = []
    for t in range(inputs.shape[1]):
        by_cell = None if masks is None else [mask[:, t] for mask in masks]
        h = ref.deep_transition_step(inputs[:, t], h, weights, by_cell)
        outputs.append(h)
    return np.stack(outputs, axis=1)


def test_a_whole_sequence_equals_the_twin(rng):
    module = built_module("lgru", 2, 3, 5, rng)
    inputs = rng.normal(size=(4, 7, 3)).astype("float32")
    outputs = TransitionRNN(module, return_sequences=True)(inputs)
    expected = twin_outputs(inputs, np.zeros((4, 5)), module_weights(module))
    assert relative_error(outputs, expected) <= 1e-5
    last = TransitionRNN(module)(inputs)
    assert relative_error(last, expected[:, -1]) <= 1e-5


def test_a_whole_sequence_with_dropout_equals_the_twin_with_the_same_masks(rng):
    module = built_module("lgru", 2, 3, 5, rng, dropout_rate=0.4)
    inputs, h = rng.normal(size=(4, 7, 3)), rng.normal(size=(4, 5))
    inputs, h = inputs.astype("float32"), h.astype("float32")
    layer = TransitionRNN(module, return_sequences=True)
    outputs = layer(inputs, initial_state=h, training=True, seeds=SeedStream((5, 6)))
    masks = np.split(np.asarray(module.masks(inputs, SeedStream((5, 6)))), 3, axis=-1)
    expected = twin_outputs(inputs, h, module_weights(module), masks)
    assert relative_error(outputs, expected) <= 1e-5


@pytest.mark.parametrize("steps", [1, 2])
def test_short_sequences(rng, steps):
    module = built_module("gru", 1, 3, 5, rng)
    inputs = rng.normal(size=(1, steps, 3)).astype("float32")
    h = np.zeros((1, 5))
    for t in range(steps):
        h = ref.deep_transition_step(inputs[:, t], h, module_weights(module), kind="gru")
    assert relative_error(TransitionRNN(module)(inputs), h) <= 1e-5


def test_backwards_starts_at_the_end(rng):
    module = built_module("lgru", 1, 3, 5, rng)
    inputs = rng.normal(size=(2, 4, 3)).astype("float32")
    layer = TransitionRNN(module, return_sequences=True, go_backwards=True)
    expected = twin_outputs(inputs[:, ::-1], np.zeros((2, 5)), module_weights(module))
    assert relative_error(layer(inputs), expected) <= 1e-5


@pytest.mark.parametrize("kind", [TransitionRNN, EncoderRNN])
def test_a_layer_is_made_again_from_its_config(rng, kind):
    options = {"return_sequences": True, "go_backwards": True}
    layer = kind(built_module("lgru", 1, 3, 5, rng), name="mine", **options)
    inputs = rng.normal(size=(2, 4, 3)).astype("float32")
    states = layer(inputs)
    described = keras.saving.serialize_keras_object(layer)
    again = keras.saving.deserialize_keras_object(json.loads(json.dumps(described)))
    assert type(again) is kind and again.name == "mine"
    again.build(inputs.shape)
    again.set_weights(layer.get_weights())
    np.testing.assert_array_equal(again(inputs), states)


@pytest.mark.parametrize("policy", ["float64", "mixed_bfloat16"])
def test_a_policy_of_its_own_holds_inside_the_loop(rng, policy):
    module = built_module("lgru", 1, 3, 5, rng, dtype=policy)
    layer = TransitionRNN(module, dtype=policy)
    inputs = rng.normal(size=(2, 4, 3))
    assert keras.backend.standardize_dtype(layer(inputs).dtype) == layer.compute_dtype
    assert layer.cell.dtype_policy.name == policy
