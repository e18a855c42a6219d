"""The LAU against the twin, by formula, and as a cell."""

import numpy as np
import pytest
import tensorflow as tf

from dtmt_tf.cells import LAUCell
from tests.cells.contract import UNITS, check_rnn_cell_contract
from tests.cells.twin import assert_gradients_match, cell_weights, randomise, relative_error
from tests.reference import numpy_dtmt as ref

SIZES = [(1, 1), (1, 5), (3, 1), (3, 5), (8, 4)]  # input, state


def make_cell(i, d, rng, **options):
    cell = LAUCell(d, **options)
    cell.build((None, i))
    cell.built = True
    return randomise(cell, rng)


def arguments(i, d, rng, batch=4):
    x, h = rng.normal(size=(batch, i)), rng.normal(size=(batch, d))
    mask = (rng.random((batch, d)) > 0.4) / 0.6
    return [array.astype("float32") for array in (x, h, mask)]


@pytest.mark.parametrize(("i", "d"), SIZES)
@pytest.mark.parametrize("use_layer_norm", [True, False])
def test_step_equals_the_twin(rng, i, d, use_layer_norm):
    cell = make_cell(i, d, rng, use_layer_norm=use_layer_norm)
    x, h, mask = arguments(i, d, rng)
    for multiplier in (None, mask):
        output, (state,) = cell.update(cell.project(x), multiplier, [h])
        expected = ref.lau_step(
            x, h, cell_weights(cell), use_layer_norm=use_layer_norm, mask=multiplier
        )
        assert relative_error(output, expected) <= 1e-5
        np.testing.assert_array_equal(state, output)


@pytest.mark.parametrize(("policy", "tolerance"), [("float32", 1e-3), ("float64", 1e-6)])
@pytest.mark.parametrize(
    ("i", "d", "use_layer_norm"), [(3, 5, True), (3, 5, False), (1, 1, True), (1, 1, False)]
)
def test_gradients_equal_central_differences_of_the_twin(
    rng, dtype_policy, policy, tolerance, i, d, use_layer_norm
):
    dtype_policy(policy)
    cell = make_cell(i, d, rng, use_layer_norm=use_layer_norm)
    x, h, mask = (array.astype(policy) for array in arguments(i, d, rng))
    weigh = rng.normal(size=h.shape).astype(policy)

    def loss(x, h):
        output, _ = cell.update(cell.project(x), mask, [h])
        return tf.reduce_sum(output * weigh)

    def twin_loss(value, x, h):
        weights = cell_weights(cell, value)
        output = ref.lau_step(x, h, weights, use_layer_norm=use_layer_norm, mask=mask)
        return float(np.sum(output * weigh))

    variables = cell.trainable_variables
    assert len(variables) == 4 + use_layer_norm
    assert_gradients_match(loss, twin_loss, [x, h], variables, tolerance=tolerance)


@pytest.mark.parametrize(("i", "d"), SIZES)
def test_parameter_count_by_formula(rng, i, d):
    assert make_cell(i, d, rng).count_params() == 5 * i * d + 4 * d * d + 7 * d
    plain = make_cell(i, d, rng, use_layer_norm=False)
    assert plain.count_params() == 5 * i * d + 4 * d * d + 4 * d


@pytest.mark.parametrize("use_layer_norm", [True, False])
def test_contract(use_layer_norm):
    check_rnn_cell_contract(
        lambda **options: LAUCell(UNITS, use_layer_norm=use_layer_norm, **options),
        lambda i, d: 5 * i * d + 4 * d * d + (7 if use_layer_norm else 4) * d,
    )


def test_linear_term_takes_the_place_of_the_state(rng):
    # With g = 1 and no other weight, h' = W_x x, however large; with g = 0 it is not seen at all.
    cell = make_cell(2, 3, rng, use_layer_norm=False)
    kernel = np.zeros((2, 15), dtype="float32")
    kernel[:, 12:] = [[100, 0, -3], [0, 7, 50]]
    cell.kernel.assign(kernel)
    cell.recurrent_kernel.assign(np.zeros((3, 12)))
    cell.candidate_bias.assign(np.zeros(3))
    x, h = np.array([[1, 2], [0, 0]], dtype="float32"), np.ones((2, 3), dtype="float32")
    for g, z, expected in (
        (1e4, -1e4, [[100, 14, 97], [0, 0, 0]]),
        (1e4, 1e4, [[100, 14, 97], [0, 0, 0]]),
        (-1e4, -1e4, h),
        (-1e4, 1e4, np.zeros((2, 3))),
    ):
        cell.gates.bias.assign([[0] * 3, [z] * 3, [g] * 3])
        output, _ = cell(x, [h])
        np.testing.assert_allclose(output, expected, atol=1e-6)


def test_dropout_spares_the_linear_term(rng):
    cell = make_cell(3, 5, rng)
    x, h, _ = arguments(3, 5, rng)
    projected, nothing = cell.project(x), np.zeros((4, 5), dtype="float32")
    dropped, _ = cell.update(projected, nothing, [h])
    values = {name: np.asarray(value) for name, value in cell.gate_values(projected, h).items()}
    linear = x @ cell.kernel.numpy()[:, 20:]
    expected = (1 - values["z"]) * h * (1 - values["g"]) + values["g"] * linear
    assert relative_error(dropped, expected) <= 1e-5
