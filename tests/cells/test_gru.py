"""The GRU against the twin, by formula, and as a cell."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from dtmt_tf.cells import GRUCell
from tests.cells.contract import UNITS, built, check_rnn_cell_contract
from tests.cells.twin import assert_gradients_match, cell_weights, randomise, relative_error
from tests.reference import numpy_dtmt as ref

SIZES = [(1, 1), (1, 5), (3, 1), (3, 5), (8, 4)]  # input, state


def make_cell(i, d, rng, **options):
    cell = GRUCell(d, **options)
    cell.build((None, i))
    cell.built = True
    return randomise(cell, rng)


def arguments(i, d, rng, batch=4):
    x, h = rng.normal(size=(batch, i)), rng.normal(size=(batch, d))
    mask = (rng.random((batch, d)) > 0.4) / 0.6
    return [array.astype("float32") for array in (x, h, mask)]


@pytest.mark.parametrize(("i", "d"), SIZES)
@pytest.mark.parametrize("use_layer_norm", [True, False])
@pytest.mark.parametrize("use_candidate_bias", [True, False])
def test_step_equals_the_twin(rng, i, d, use_layer_norm, use_candidate_bias):
    options = {"use_layer_norm": use_layer_norm, "use_candidate_bias": use_candidate_bias}
    cell = make_cell(i, d, rng, **options)
    weights = cell_weights(cell)
    assert ("candidate_bias" in weights) == use_candidate_bias
    x, h, mask = arguments(i, d, rng)
    for multiplier in (None, mask):
        output, (state,) = cell.update(cell.project(x), multiplier, [h])
        expected = ref.gru_step(x, h, weights, use_layer_norm=use_layer_norm, mask=multiplier)
        assert relative_error(output, expected) <= 1e-5
        np.testing.assert_array_equal(state, output)


@pytest.mark.parametrize(("policy", "tolerance"), [("float32", 1e-3), ("float64", 1e-6)])
@pytest.mark.parametrize(
    ("i", "d", "use_layer_norm", "use_candidate_bias"),
    [(3, 5, True, True), (3, 5, False, False), (1, 1, True, False), (1, 1, False, True)],
)
def test_gradients_equal_central_differences_of_the_twin(
    rng, dtype_policy, policy, tolerance, i, d, use_layer_norm, use_candidate_bias
):
    dtype_policy(policy)
    options = {"use_layer_norm": use_layer_norm, "use_candidate_bias": use_candidate_bias}
    cell = make_cell(i, d, rng, **options)
    x, h, mask = (array.astype(policy) for array in arguments(i, d, rng))
    weigh = rng.normal(size=h.shape).astype(policy)

    def loss(x, h):
        output, _ = cell.update(cell.project(x), mask, [h])
        return tf.reduce_sum(output * weigh)

    def twin_loss(value, x, h):
        weights = cell_weights(cell, value)
        output = ref.gru_step(x, h, weights, use_layer_norm=use_layer_norm, mask=mask)
        return float(np.sum(output * weigh))

    assert len(cell.trainable_variables) == 3 + use_layer_norm + use_candidate_bias
    variables = cell.trainable_variables
    assert_gradients_match(loss, twin_loss, [x, h], variables, tolerance=tolerance)


@pytest.mark.parametrize(("i", "d"), SIZES)
def test_parameter_count_by_formula(rng, i, d):
    without = 3 * i * d + 3 * d * d + 4 * d
    assert make_cell(i, d, rng).count_params() == without
    assert make_cell(i, d, rng, use_candidate_bias=True).count_params() == without + d
    plain = make_cell(i, d, rng, use_layer_norm=False)
    assert plain.count_params() == 3 * i * d + 3 * d * d + 2 * d


@pytest.mark.parametrize("use_layer_norm", [True, False])
def test_contract(use_layer_norm):
    check_rnn_cell_contract(
        lambda **options: GRUCell(UNITS, use_layer_norm=use_layer_norm, **options),
        lambda i, d: 3 * i * d + 3 * d * d + (4 if use_layer_norm else 2) * d,
    )


def test_candidate_bias_survives_the_config():
    cell = GRUCell(2, use_candidate_bias=True, use_layer_norm=False, initializer="he_normal")
    copy = GRUCell.from_config(cell.get_config())
    assert copy.use_candidate_bias and not copy.use_layer_norm
    assert copy.get_config() == cell.get_config()


@pytest.mark.parametrize("units", [0, -1])
def test_units_must_be_positive(units):
    with pytest.raises(ValueError, match=rf"`units` should be positive. Received: {units}"):
        GRUCell(units)


@pytest.mark.parametrize("rate", [-0.1, 1.0])
def test_dropout_rate_must_be_in_range(rate):
    with pytest.raises(ValueError, match=rf"`dropout_rate`.*Received: {rate}"):
        GRUCell(2, dropout_rate=rate)


@pytest.mark.parametrize("policy", ["float64", "mixed_bfloat16"])
def test_a_policy_of_its_own_holds_in_every_part(policy):
    cell = built(lambda **options: GRUCell(UNITS, dtype=policy, **options))
    x = np.ones((2, 3), dtype=cell.compute_dtype)
    output, _ = cell(x, cell.get_initial_state(2))
    assert keras.backend.standardize_dtype(output.dtype) == cell.compute_dtype
    assert cell.gates.dtype_policy.name == policy
