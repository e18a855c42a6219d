"""DeepLAU and DeepGRU against the twin, by their counts, in search, and how gradients flow."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from dtmt_tf.cells import GRUCell, LAUCell
from dtmt_tf.config import TrainingConfig
from dtmt_tf.errors import UserError
from dtmt_tf.layers import StackConnection, TransitionRNN
from dtmt_tf.models import MODELS, DeepLAUConfig
from tests.cells.twin import (
    assert_gradients_match,
    cell_weights,
    randomise,
    relative_error,
    stored,
)
from tests.models.contract import (
    REAL,
    SOURCE,
    TARGET,
    WORDS_S,
    WORDS_T,
    check_translation_model_contract,
    loss_of,
)
from tests.models.test_parameter_counts import counts_of
from tests.reference import numpy_deep_lau as ref
from tests.reference import numpy_dtmt

SIZES = {"embedding_dim": 5, "units": 6}
FORMS = {
    "lau": {"encoder_depth": 3, "decoder_depth": 2},
    "shallow": {"encoder_depth": 1, "decoder_depth": 1},
    "gru": {"cell": "gru", "encoder_depth": 2, "decoder_depth": 2},
    "lgru": {"cell": "lgru", "encoder_depth": 2, "decoder_depth": 2},
    "offset": {"cell": "gru", "encoder_depth": 2, "decoder_depth": 1, "gate_offset": -1.5},
    "resnet": {"cell": "gru", "encoder_depth": 4, "decoder_depth": 3, "connection": "residual"},
    "f-f": {"encoder_depth": 3, "decoder_depth": 3, "connection": "fast_forward"},
}
every_form = pytest.mark.parametrize("form", FORMS)


def make_model(form, **rates):
    names = ("embedding", "output", "candidate")
    training = TrainingConfig(**{f"{name}_dropout_rate": rates.get(name, 0.0) for name in names})
    config = DeepLAUConfig(**SIZES, **FORMS[form])
    return randomise(config.build(WORDS_S, WORDS_T, training), np.random.default_rng(7), 0.5)


def maps(connections, value):
    kinds = {"none": lambda _: None, "residual": lambda c: c.kind}
    return [kinds.get(c.kind, lambda c: value(c.kernel))(c) for c in connections]


def weights_of(model, value=stored):
    """All of a model's, as the twin names them."""
    attention, h = model.cell.attention, model.config.units
    query = value(attention.query_kernel)
    return {
        "source": value(model.source_embedding.table),
        "target": value(model.target_embedding.table),
        "encoder": [cell_weights(level.transition, value) for level in model.encoder.levels],
        "decoder": [cell_weights(cell, value) for cell in model.cell.cells],
        "encoder_maps": maps(model.encoder.connections, value),
        "decoder_maps": maps(model.cell.connections, value),
        "attention": {
            "state": query[:h],
            "word": query[h:],
            "annotation": value(attention.key_kernel),
            "score": value(attention.score)[:, 0],
        },
        "initial": tuple(
            value(getattr(model.initial_state.affine, name)) for name in ("kernel", "bias")
        ),
        "softmax": value(model.readout.logits.kernel),
    }


@every_form
def test_logits_equal_the_twin(form):
    model = make_model(form)
    expected = ref.forward(weights_of(model), SOURCE, TARGET, model.config.cell)
    assert relative_error(model(SOURCE, TARGET)[REAL], expected[REAL]) <= 1e-5


@pytest.mark.parametrize("form", ["resnet", "f-f"])
def test_gradient_of_the_loss_equals_central_differences_of_the_twin(dtype_policy, form):
    dtype_policy("float64")
    model = make_model(form)
    source, target = SOURCE[1:2, :4], np.array([[5, 3, 1]])

    def twin_loss(value):
        logits = ref.forward(weights_of(model, value), source, target, model.config.cell)
        return -float(np.sum(numpy_dtmt.sentence_log_probs(logits, target)))

    variables = model.trainable_variables
    loss = functools.partial(loss_of, model, source, target)
    assert_gradients_match(loss, twin_loss, [], variables, tolerance=1e-5, samples=2)


@pytest.mark.parametrize("form", ["resnet", "f-f"])
def test_it_does_what_every_translation_model_must(form):
    check_translation_model_contract(make_model(form))


# Counts, parts, first weights, dropout.


@pytest.mark.parametrize(
    "name", ["deep_gru_2_1", "deep_gru_4_4_ff", "deep_lau_4_4", "deep_lau_8_6_narrow"]
)
def test_counts_by_formula(name):
    config, e, d = MODELS[name], 512, MODELS[name].units
    by_input, by_state = {"lau": (5, 4), "gru": (3, 3)}[config.cell]  # matrices, no biases
    counts = counts_of(config, 30_000, 20_000)

    def stack(first, depth):
        maps = (depth - 1) * d * d if config.connection == "fast_forward" else 0
        layers = by_input * first * d + (depth - 1) * by_input * d * d + depth * by_state * d * d
        return layers + maps

    assert counts == {
        "source embedding": 30_000 * e,
        "target embedding": 20_000 * e,
        "encoder": stack(e, config.encoder_depth),
        "initial state": d * d + d,
        "attention": d * d + e * d + d * d + d,
        "decoder": stack(d + e, config.decoder_depth),
        "softmax": 20_000 * d,
    }


def test_presets_are_the_rows_of_table_4():
    def row(name):
        config = MODELS[name]
        depths = config.encoder_depth, config.decoder_depth
        return config.cell, depths, config.units, config.connection

    assert [row(name) for name in MODELS if name.startswith("deep_")] == [
        ("gru", (2, 1), 512, "none"),
        ("gru", (2, 2), 1024, "none"),
        ("gru", (2, 2), 512, "none"),
        ("gru", (4, 4), 512, "none"),
        ("gru", (4, 4), 512, "residual"),
        ("gru", (4, 4), 512, "fast_forward"),
        ("lau", (2, 2), 512, "none"),
        ("lau", (4, 4), 512, "none"),
        ("lau", (8, 6), 512, "none"),
        ("lau", (8, 6), 256, "none"),
    ]
    assert MODELS["deep_lau_4_4"] == DeepLAUConfig()


def test_first_weights_are_normal_with_the_paper_s_deviation():
    model, same, other = (
        DeepLAUConfig(units=48, embedding_dim=40).build(100, 90, TrainingConfig(seed=seed))
        for seed in (1, 1, 2)
    )
    starts = []
    for ours, equal, unequal in zip(model.weights, same.weights, other.weights, strict=True):
        values = ours.numpy()
        np.testing.assert_array_equal(values, equal)
        if values.ndim == 1:
            assert ours.path.endswith("initial_state/affine/bias") and not np.any(values)
            continue
        assert np.any(values != unequal.numpy())
        starts.append(float(values.flat[0]))
        assert abs(np.mean(values)) < 0.02 and 0.03 < np.std(values) < 0.05, ours.path
    assert len(starts) == len(set(starts)) == 2 + 8 + 1 + 3 + 8 + 1


def test_inspection_depths_and_arithmetic_know_every_layer():
    model = make_model("f-f")
    gates, attended = model.inspect(SOURCE, TARGET)
    np.testing.assert_allclose(model.attention(SOURCE, TARGET), attended, atol=1e-6)
    layers = [f"{side}_{k}" for side in ("encoder", "decoder") for k in (1, 2, 3)]
    assert set(gates) == {f"{layer}/{gate}" for layer in layers for gate in "rzg"}
    assert set(model.depths()) == set(layers)
    weights = weights_of(model)
    for b, source in enumerate(SOURCE):
        annotations = ref.encode(weights["source"][source[source != 0]], weights, "lau")
        kernel, bias = weights["initial"]
        first = np.tanh(annotations.mean(axis=0) @ kernel + bias)
        _, shares = ref.attend(first, np.zeros(5), annotations, weights["attention"])
        assert relative_error(attended[b, 0, : len(shares)], shares) <= 1e-5
    e, d = SIZES["embedding_dim"], SIZES["units"]
    each = model.multiplications()
    assert (each.sentence, each.pair) == (d * d, 2 * d)
    above = 2 * (5 * d * d + 4 * d * d + d * d)
    assert each.source == 5 * e * d + 4 * d * d + above + d * d  # and the keys
    query = (d + e) * d
    assert each.target == query + 5 * (d + e) * d + 4 * d * d + above + d * WORDS_T


# Why LAU: its input's linear term.


def flow(cells, x):
    """Length of the gradient of the top layer's last state by the input at each step, `[T]`."""
    x = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        h = x
        for cell in cells:
            h = TransitionRNN(cell, return_sequences=True)(h)
        last = tf.reduce_sum(h[:, -1])
    return np.linalg.norm(tape.gradient(last, x), axis=(0, 2))


def plain_cell(kind, inputs, units, **options):
    options |= {"use_layer_norm": False, "use_bias": False}
    cell = (
        LAUCell(units, **options) if kind == "lau" else GRUCell(units, reset_after=False, **options)
    )
    cell.build((None, inputs))
    cell.built = True
    return cell


def test_a_linear_term_reaches_80_steps_far_where_a_candidate_is_saturated(rng):
    # The last input feature is 1 at the first step and -1 after it. It opens or shuts, by weights
    # of +-60, the gate that lets the input in; what is left is how an input joins the state.
    d, steps, switch = 4, 80, 60.0
    x = rng.normal(size=(1, steps, d + 1)).astype("float32")
    x[0, 0, :d] *= 30  # far into the ends of tanh
    x[0, :, d] = [1, *[-1] * (steps - 1)]
    lengths, kernels = {}, rng.normal(size=(d + 1, d)).astype("float32")
    kernels[d] = 0
    for kind, gate, columns in (("gru", 1, 3), ("lau", 2, 5)):
        cell = plain_cell(kind, d + 1, d)
        kernel = np.zeros((d + 1, columns * d), "float32")
        kernel[:, -d:] = kernels  # of the candidate of the GRU, of the linear term of the LAU
        kernel[d, gate * d : (gate + 1) * d] = switch
        if kind == "lau":  # its candidate stays outside: z is 0 but for the first step
            kernel[d, d : 2 * d] = switch
        cell.kernel.assign(kernel)
        cell.recurrent_kernel.assign(np.zeros_like(cell.recurrent_kernel.numpy()))
        lengths[kind] = flow([cell], x)[0]
    linear = np.linalg.norm(np.sum(kernels, axis=1))  # of W_x itself: nothing is lost on the way
    assert abs(lengths["lau"] / linear - 1) < 1e-4
    assert lengths["gru"] < 0.2 * lengths["lau"]


def test_a_fresh_lau_passes_less_gradient_back_in_time(rng):
    # (1 - g) stands before the carried state, too: until gates have learnt, memory is shorter.
    x = rng.normal(size=(1, 80, 8)).astype("float32")
    lengths = {}
    for kind in ("gru", "lau"):
        cell = randomise(plain_cell(kind, 8, 8), np.random.default_rng(3), 0.4)
        lengths[kind] = flow([cell], x)
    assert lengths["lau"][40] < 0.1 * lengths["gru"][40]  # 40 steps back
    assert lengths["lau"][-1] > 0.1 * lengths["gru"][-1]  # the same step


def test_a_lau_whose_gates_start_lower_keeps_up(rng):
    x = rng.normal(size=(1, 80, 8)).astype("float32")
    lengths = {}
    for kind in ("gru", "lau"):  # both of a LAU's gates that take from the state
        cell = plain_cell(kind, 8, 8, update_offset=-3.0)
        lengths[kind] = flow([randomise(cell, np.random.default_rng(3), 0.4)], x)
    assert lengths["lau"][40] > 0.1 * lengths["gru"][40]  # 40 steps back


def test_a_connection_of_no_kind_is_refused_when_it_is_made():
    with pytest.raises(ValueError, match="one of .*'fast_forward'.* Received: 'fast-forward'"):
        StackConnection("fast-forward", initializer="zeros")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cell": "lstm"}, "`model.cell` should be gru, lau or lgru. Received: 'lstm'"),
        ({"connection": "dense"}, "connection` should be none, residual or fast_forward"),
        ({"decoder_depth": 0}, "`model.decoder_depth` should be at least 1"),
        ({"initializer_stddev": 0.0}, "`model.initializer_stddev` should be above 0"),
    ],
)
def test_impossible_settings_are_named(options, message):
    with pytest.raises(UserError, match=message):
        DeepLAUConfig(**options)
