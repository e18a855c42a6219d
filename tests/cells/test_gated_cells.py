"""Every gated cell against the twin, by formula, and as a cell."""

from functools import partial

import keras
import numpy as np
import pytest
import tensorflow as tf

from dtmt_tf.cells import GRUCell, LAUCell, LGRUCell, TGRUCell
from tests.cells.contract import UNITS, built, check_rnn_cell_contract
from tests.cells.twin import assert_gradients_match, cell_weights, randomise, relative_error
from tests.reference import numpy_dtmt as ref
from tests.reference.numpy_cells import early_reset_gru_step

SIZES = [(1, 1), (1, 5), (3, 1), (3, 5), (8, 4)]  # input, state


def t_gru_step(x, h, weights, **options):
    """The twin's, which reads no input."""
    return ref.t_gru_step(h, weights, **options)


# (class, step of the twin, factors of the parameter count: i d, d^2, and d with and without norms)
CELLS = {
    "gru": (GRUCell, ref.gru_step, (3, 3, 4, 2)),
    "gru with bias": (
        partial(GRUCell, use_candidate_bias=True),
        ref.gru_step,
        (3, 3, 5, 3),
    ),
    "lgru": (LGRUCell, ref.l_gru_step, (5, 4, 7, 4)),
    "lau": (LAUCell, ref.lau_step, (5, 4, 7, 4)),
    "tgru": (TGRUCell, t_gru_step, (0, 3, 5, 3)),
    "tgru, scaled": (partial(TGRUCell, scale=0.5), t_gru_step, (0, 3, 6, 4)),
    # of Wang et al. (2017), who print no norm and no bias
    "gru, early reset": (
        partial(GRUCell, reset_after=False, use_bias=False),
        early_reset_gru_step,
        (3, 3, 4, 0),
    ),
    "lau, no bias": (partial(LAUCell, use_bias=False), ref.lau_step, (5, 4, 6, 0)),
}
WITHOUT_CANDIDATE_BIAS = ("gru", "gru, early reset", "lau, no bias")
every_cell = pytest.mark.parametrize("kind", CELLS)
with_and_without_norm = pytest.mark.parametrize("use_layer_norm", [True, False])


def make_cell(kind, i, d, rng, **options):
    cell = CELLS[kind][0](d, **options)
    cell.build((None, i))
    cell.built = True
    return randomise(cell, rng)


def arguments(i, d, rng, batch=4):
    x, h = rng.normal(size=(batch, i)), rng.normal(size=(batch, d))
    mask = (rng.random((batch, d)) > 0.4) / 0.6
    return [array.astype("float32") for array in (x, h, mask)]


@every_cell
@pytest.mark.parametrize(("i", "d"), SIZES)
@with_and_without_norm
def test_step_equals_the_twin(rng, kind, i, d, use_layer_norm):
    cell = make_cell(kind, i, d, rng, use_layer_norm=use_layer_norm)
    weights = cell_weights(cell)
    assert ("candidate_bias" in weights) == (kind not in WITHOUT_CANDIDATE_BIAS)
    x, h, mask = arguments(i, d, rng)
    for multiplier in (None, mask):
        output, (state,), _ = cell.evaluate(cell.project(x), multiplier, [h])
        expected = CELLS[kind][1](x, h, weights, use_layer_norm=use_layer_norm, mask=multiplier)
        assert relative_error(output, expected) <= 1e-5
        np.testing.assert_array_equal(state, output)


@every_cell
@pytest.mark.parametrize(("policy", "tolerance"), [("float32", 1e-3), ("float64", 1e-6)])
@pytest.mark.parametrize(("i", "d"), [(3, 5), (1, 1)])
@with_and_without_norm
def test_gradients_equal_central_differences_of_the_twin(
    rng, dtype_policy, kind, policy, tolerance, i, d, use_layer_norm
):
    dtype_policy(policy)
    cell = make_cell(kind, i, d, rng, use_layer_norm=use_layer_norm)
    x, h, mask = (array.astype(policy) for array in arguments(i, d, rng))
    weigh = rng.normal(size=h.shape).astype(policy)

    def loss(x, h):
        output, *_ = cell.evaluate(cell.project(x), mask, [h])
        return tf.reduce_sum(output * weigh)

    def twin_loss(value, x, h):
        weights = cell_weights(cell, value)
        output = CELLS[kind][1](x, h, weights, use_layer_norm=use_layer_norm, mask=mask)
        return float(np.sum(output * weigh))

    variables = cell.trainable_variables
    gates = 2 if use_layer_norm else int(cell.use_bias)
    kernels = 1 + (not kind.startswith("tgru"))
    others = (kind not in WITHOUT_CANDIDATE_BIAS) + (kind == "tgru, scaled")
    assert len(variables) == kernels + others + gates
    assert_gradients_match(loss, twin_loss, [x, h], variables, tolerance=tolerance)


def count(kind, i, d, use_layer_norm=True):
    by_input, by_state, with_norm, without = CELLS[kind][2]
    return by_input * i * d + by_state * d * d + (with_norm if use_layer_norm else without) * d


@every_cell
@pytest.mark.parametrize(("i", "d"), SIZES)
@with_and_without_norm
def test_parameter_count_by_formula(rng, kind, i, d, use_layer_norm):
    cell = make_cell(kind, i, d, rng, use_layer_norm=use_layer_norm)
    assert cell.count_params() == count(kind, i, d, use_layer_norm)


@pytest.mark.parametrize(
    ("kind", "use_layer_norm"),  # each cell with and without norms, and each of its other switches
    [
        *(("gru", True), ("gru with bias", False), ("gru, early reset", False)),
        *((kind, norm) for kind in ("lgru", "tgru") for norm in (True, False)),
        *(("lau", True), ("lau, no bias", False)),
    ],
)
def test_contract(kind, use_layer_norm):
    check_rnn_cell_contract(
        partial(CELLS[kind][0], UNITS, use_layer_norm=use_layer_norm),
        partial(count, kind, use_layer_norm=use_layer_norm),
    )


@every_cell
def test_inner_values_are_the_gates(rng, kind):
    cell = make_cell(kind, 3, 5, rng)
    x, h, mask = arguments(3, 5, rng)
    step = cell.evaluate(cell.project(x), mask, [h])
    gates = {"lgru": set("rzl"), "lau": set("rzg"), "lau, no bias": set("rzg")}
    assert set(step.inner) == gates.get(kind, set("rz"))
    kernel, weights = cell.recurrent_kernel.numpy(), cell_weights(cell)
    total = h @ kernel[:, 5:10]
    if cell.projection_size:
        total = total + x @ weights["kernel"][:, 5:10]
    expected = ref.sigmoid(ref.layer_norm(total, weights["gain"][1], weights["offset"][1]))
    if kind == "tgru, scaled":
        expected *= cell.scale.numpy()  # how much of the candidate enters
    assert relative_error(step.inner["z"], expected) <= 1e-5


@every_cell
@pytest.mark.parametrize(
    ("use_layer_norm", "use_bias"),
    [(True, True), (False, True), (False, False)],
    ids=["norm", "bias", "constant"],
)
def test_the_gates_that_take_from_the_state_start_from_the_offset(kind, use_layer_norm, use_bias):
    options = {"use_layer_norm": use_layer_norm, "initializer": "zeros", "use_bias": use_bias}
    cell = CELLS[kind][0](4, update_offset=-2.0, **options)
    cell.build((None, 4))
    gates = cell.gates(np.zeros((1, 4 * cell.num_gates), "float32"))
    takes = {1, 2} if kind.startswith("lau") else {1}  # an L-GRU's third gate, l, takes nothing
    for k, gate in enumerate(gates):
        np.testing.assert_allclose(gate, 1 / (1 + np.exp(2)) if k in takes else 0.5, atol=1e-6)
    assert type(cell).from_config(cell.get_config()).update_offset == -2.0


# Units, rates and policies.


def test_settings_survive_the_config():
    cell = GRUCell(2, use_candidate_bias=True, use_layer_norm=False, initializer="he_normal")
    copy = GRUCell.from_config(cell.get_config())
    assert copy.use_candidate_bias and not copy.use_layer_norm and copy.reset_after
    assert copy.get_config() == cell.get_config()
    plain = LAUCell(2, use_layer_norm=False, use_bias=False)
    assert not LAUCell.from_config(plain.get_config()).use_bias


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


# What one kind of cell does.


def linear_path(kind, rng):
    """A cell of which nothing but `W_x` and the gates' biases is left."""
    cell = make_cell(kind, 2, 3, rng, use_layer_norm=False)
    kernel = np.zeros((2, 15), dtype="float32")
    kernel[:, 12:] = [[100, 0, -3], [0, 7, 50]]
    cell.kernel.assign(kernel)
    cell.recurrent_kernel.assign(np.zeros((3, 12)))
    cell.candidate_bias.assign(np.zeros(3))
    return cell, np.array([[1, 2], [0, 0]], dtype="float32"), np.ones((2, 3), dtype="float32")


def test_an_lgru_s_linear_path_has_neither_bias_nor_bound(rng):
    cell, x, h = linear_path("lgru", rng)
    cell.gates.bias.assign(np.full((3, 3), 1e4))  # r = z = l = 1
    output, _ = cell(x, [h])
    np.testing.assert_allclose(output, [[100, 14, 97], [0, 0, 0]], atol=1e-6)


def test_an_lau_s_linear_term_takes_the_place_of_the_state(rng):
    # With g = 1, h' = W_x x, however large; with g = 0 it is not seen at all.
    cell, x, h = linear_path("lau", rng)
    for g, z, expected in (
        (1e4, -1e4, [[100, 14, 97], [0, 0, 0]]),
        (1e4, 1e4, [[100, 14, 97], [0, 0, 0]]),
        (-1e4, -1e4, h),
        (-1e4, 1e4, np.zeros((2, 3))),
    ):
        cell.gates.bias.assign([[0] * 3, [z] * 3, [g] * 3])
        output, _ = cell(x, [h])
        np.testing.assert_allclose(output, expected, atol=1e-6)


def test_dropout_spares_an_lau_s_linear_term(rng):
    cell = make_cell("lau", 3, 5, rng)
    x, h, _ = arguments(3, 5, rng)
    projected, nothing = cell.project(x), np.zeros((4, 5), dtype="float32")
    dropped, *_ = cell.evaluate(projected, nothing, [h])
    values = {name: np.asarray(value) for name, value in cell.gate_values(projected, h).items()}
    linear = x @ cell.kernel.numpy()[:, 20:]
    expected = (1 - values["z"]) * h * (1 - values["g"]) + values["g"] * linear
    assert relative_error(dropped, expected) <= 1e-5


def test_a_tgru_s_inputs_do_not_matter(rng):
    cell = make_cell("tgru", 2, 4, rng)
    _, h, _ = arguments(2, 4, rng)
    x = rng.normal(size=(2, 4, 7)).astype("float32")
    np.testing.assert_array_equal(cell(x[0], [h])[0], cell(x[1], [h])[0])
    assert cell.project(x).shape == (2, 4, 0)
