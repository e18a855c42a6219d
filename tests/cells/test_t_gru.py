"""The T-GRU against the twin, by formula, and as a cell."""

import numpy as np
import pytest
import tensorflow as tf

from dtmt_tf.cells import TGRUCell
from tests.cells.contract import UNITS, check_rnn_cell_contract
from tests.cells.twin import assert_gradients_match, cell_weights, randomise, relative_error
from tests.reference import numpy_dtmt as ref

SIZES = [1, 3, 8]


def make_cell(d, rng, **options):
    cell = TGRUCell(d, **options)
    cell.build((None, 2))
    cell.built = True
    return randomise(cell, rng)


def arguments(d, rng, batch=4):
    h, mask = rng.normal(size=(batch, d)), (rng.random((batch, d)) > 0.4) / 0.6
    return h.astype("float32"), mask.astype("float32")


@pytest.mark.parametrize("d", SIZES)
@pytest.mark.parametrize("use_layer_norm", [True, False])
def test_step_equals_the_twin(rng, d, use_layer_norm):
    cell = make_cell(d, rng, use_layer_norm=use_layer_norm)
    h, mask = arguments(d, rng)
    for multiplier in (None, mask):
        output, (state,) = cell.update(None, multiplier, [h])
        expected = ref.t_gru_step(
            h, cell_weights(cell), use_layer_norm=use_layer_norm, mask=multiplier
        )
        assert relative_error(output, expected) <= 1e-5
        np.testing.assert_array_equal(state, output)


@pytest.mark.parametrize(("policy", "tolerance"), [("float32", 1e-3), ("float64", 1e-6)])
@pytest.mark.parametrize(("d", "use_layer_norm"), [(5, True), (5, False), (1, True), (1, False)])
def test_gradients_equal_central_differences_of_the_twin(
    rng, dtype_policy, policy, tolerance, d, use_layer_norm
):
    dtype_policy(policy)
    cell = make_cell(d, rng, use_layer_norm=use_layer_norm)
    h, mask = (array.astype(policy) for array in arguments(d, rng))
    weigh = rng.normal(size=h.shape).astype(policy)

    def loss(h):
        return tf.reduce_sum(cell.update(None, mask, [h])[0] * weigh)

    def twin_loss(value, h):
        weights = cell_weights(cell, value)
        output = ref.t_gru_step(h, weights, use_layer_norm=use_layer_norm, mask=mask)
        return float(np.sum(output * weigh))

    variables = cell.trainable_variables
    assert len(variables) == 3 + use_layer_norm
    assert_gradients_match(loss, twin_loss, [h], variables, tolerance=tolerance)


@pytest.mark.parametrize("d", SIZES)
def test_parameter_count_by_formula(rng, d):
    assert make_cell(d, rng).count_params() == 3 * d * d + 5 * d
    assert make_cell(d, rng, use_layer_norm=False).count_params() == 3 * d * d + 3 * d


@pytest.mark.parametrize("use_layer_norm", [True, False])
def test_contract(use_layer_norm):
    check_rnn_cell_contract(
        lambda **options: TGRUCell(UNITS, use_layer_norm=use_layer_norm, **options),
        lambda i, d: 3 * d * d + (5 if use_layer_norm else 3) * d,
    )


def test_inputs_do_not_matter(rng):
    cell = make_cell(4, rng)
    h, _ = arguments(4, rng)
    x = rng.normal(size=(2, 4, 7)).astype("float32")
    np.testing.assert_array_equal(cell(x[0], [h])[0], cell(x[1], [h])[0])
    assert cell.project(x).shape == (2, 4, 0)


@pytest.mark.parametrize("use_layer_norm", [True, False])
def test_the_update_gate_starts_from_its_offset(use_layer_norm):
    options = {"use_layer_norm": use_layer_norm, "initializer": "zeros"}
    cell = TGRUCell(4, update_offset=-2.0, **options)
    cell.build((None, 4))
    r, z = cell.gates(np.zeros((1, 8), "float32"))
    np.testing.assert_allclose(r, 0.5, atol=1e-6)
    np.testing.assert_allclose(z, 1 / (1 + np.exp(2)), atol=1e-6)
    again = TGRUCell.from_config(cell.get_config())
    assert again.update_offset == -2.0
