"""The transition module against the twin, by formula, and as a cell."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from dtmt_tf.cells import DeepTransitionCell, GRUCell, LGRUCell, TGRUCell
from tests.cells.contract import UNITS, check_rnn_cell_contract
from tests.cells.twin import assert_gradients_match, module_weights, randomise, relative_error
from tests.reference import numpy_dtmt as ref

FIRST = {"gru": GRUCell, "lgru": LGRUCell}


def make_module(kind, depth, units, **options):
    cells = [TGRUCell(units, **options) for _ in range(depth)]
    policy = {"dtype": options["dtype"]} if "dtype" in options else {}
    return DeepTransitionCell([FIRST[kind](units, **options), *cells], **policy)


def built_module(kind, depth, i, d, rng, **options):
    module = make_module(kind, depth, d, **options)
    module.build((None, i))
    module.built = True
    return randomise(module, rng)


def arguments(i, d, depth, rng, batch=4):
    x, h = rng.normal(size=(batch, i)), rng.normal(size=(batch, d))
    masks = (rng.random((batch, depth + 1, d)) > 0.4) / 0.6
    return [array.astype("float32") for array in (x, h, masks)]


@pytest.mark.parametrize("kind", ["gru", "lgru"])
@pytest.mark.parametrize(("i", "d", "depth"), [(3, 5, 0), (3, 5, 1), (5, 3, 4), (1, 1, 2)])
@pytest.mark.parametrize("use_layer_norm", [True, False])
def test_step_equals_the_twin(rng, kind, i, d, depth, use_layer_norm):
    options = {"use_layer_norm": use_layer_norm}
    module = built_module(kind, depth, i, d, rng, dropout_rate=0.4, **options)
    x, h, masks = arguments(i, d, depth, rng)
    weights = module_weights(module)
    expected = ref.deep_transition_step(x, h, weights, kind=kind, **options)
    output, (state,), _ = module.evaluate(module.project(x), None, [h])
    assert relative_error(output, expected) <= 1e-5
    np.testing.assert_array_equal(state, output)

    by_cell = [masks[:, k] for k in range(depth + 1)]
    expected = ref.deep_transition_step(x, h, weights, by_cell, kind=kind, **options)
    output, *_ = module.evaluate(module.project(x), np.concatenate(by_cell, axis=-1), [h])
    assert relative_error(output, expected) <= 1e-5


@pytest.mark.parametrize("kind", ["gru", "lgru"])
@pytest.mark.parametrize(("policy", "tolerance"), [("float32", 1e-3), ("float64", 1e-6)])
def test_gradients_equal_central_differences_of_the_twin(
    rng, dtype_policy, kind, policy, tolerance
):
    dtype_policy(policy)
    i, d, depth = 3, 4, 2
    module = built_module(kind, depth, i, d, rng, dropout_rate=0.4)
    x, h, masks = (array.astype(policy) for array in arguments(i, d, depth, rng))
    weigh = rng.normal(size=h.shape).astype(policy)

    def loss(x, h):
        joined = np.reshape(masks, (len(x), -1))
        return tf.reduce_sum(module.evaluate(module.project(x), joined, [h])[0] * weigh)

    def twin_loss(value, x, h):
        by_cell = [masks[:, k] for k in range(depth + 1)]
        weights = module_weights(module, value)
        return float(np.sum(ref.deep_transition_step(x, h, weights, by_cell, kind=kind) * weigh))

    variables = module.trainable_variables
    assert len(variables) == (4 if kind == "gru" else 5) + 4 * depth
    assert_gradients_match(loss, twin_loss, [x, h], variables, tolerance=tolerance, samples=20)


def test_inner_values_are_the_gates_of_each_cell(rng):
    module = built_module("lgru", 2, 3, 5, rng)
    x, h, _ = arguments(3, 5, 2, rng)
    inner = module.evaluate(module.project(x), None, [h]).inner
    first, second, third = (cell.name for cell in module.cells)
    gates = [f"{first}/{gate}" for gate in "rzl"]
    assert set(inner) == {*gates, *(f"{name}/{gate}" for name in (second, third) for gate in "rz")}
    weights = module_weights(module)
    before = ref.deep_transition_step(x, h, weights[:2])
    total = before @ weights[2]["recurrent_kernel"][:, 5:10]
    z = ref.sigmoid(ref.layer_norm(total, weights[2]["gain"][1], weights[2]["offset"][1]))
    assert relative_error(inner[f"{third}/z"], z) <= 1e-5


@pytest.mark.parametrize("kind", ["gru", "lgru"])
@pytest.mark.parametrize("depth", [0, 1, 4])
def test_parameter_count_by_formula(rng, kind, depth):
    i, d = 3, 5
    first = {"gru": 3 * i * d + 3 * d * d + 4 * d, "lgru": 5 * i * d + 4 * d * d + 7 * d}[kind]
    module = built_module(kind, depth, i, d, rng)
    assert module.count_params() == first + depth * (3 * d * d + 5 * d)


@pytest.mark.parametrize(("kind", "depth"), [("lgru", 2), ("gru", 0)])
def test_contract(kind, depth):
    def count(i, d):
        first = {"gru": 3 * i * d + 3 * d * d + 4 * d, "lgru": 5 * i * d + 4 * d * d + 7 * d}[kind]
        return first + depth * (3 * d * d + 5 * d)

    check_rnn_cell_contract(lambda **options: make_module(kind, depth, UNITS, **options), count)


@pytest.mark.parametrize(("sizes", "shown"), [([], r"\[\]"), ([2, 3], r"\[2, 3\]")])
def test_cells_must_be_of_one_size(sizes, shown):
    with pytest.raises(ValueError, match=f"`cells` should be of one size. Received sizes: {shown}"):
        DeepTransitionCell([TGRUCell(size) for size in sizes])


def test_a_policy_of_its_own_survives_the_config():
    module = DeepTransitionCell([LGRUCell(2, dtype="float64")], dtype="float64")
    copy = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(module))
    assert copy.cells[0].dtype_policy.name == "float64"
    assert copy.dtype_policy.name == "float64"
