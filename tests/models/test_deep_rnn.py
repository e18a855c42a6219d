"""The deep recurrent family against the twin, and what padding, search and depth may not change."""

import functools

import numpy as np
import pytest

from dtmt_tf.config import TrainingConfig
from dtmt_tf.errors import UserError
from dtmt_tf.models import DeepRNNConfig
from tests.cells.twin import assert_gradients_match, randomise, relative_error, stored
from tests.models.contract import (
    REAL,
    SOURCE,
    TARGET,
    WORDS_S,
    WORDS_T,
    check_translation_model_contract,
    loss_of,
)
from tests.reference import numpy_deep_rnn as ref
from tests.reference import numpy_dtmt

SIZES = {"embedding_dim": 5, "units": 6}
FORMS = {
    "shallow": {},
    "no norm": {"use_layer_norm": False},
    "transition": {"encoder_transition": 3, "decoder_transition": 4},
    "alternating": {"encoder_depth": 3, "decoder_depth": 2},
    "even": {"encoder_depth": 2, "decoder_depth": 3, "high_cell": "rgru"},
    "above": {"encoder_above": 2},
    "mixed": {"encoder_depth": 2, "encoder_above": 1},
    "cgru": {"decoder_depth": 3, "high_cell": "cgru", "high_transition": 2},
    "crgru": {"decoder_depth": 3, "high_cell": "crgru", "high_transition": 3},
    "bideep": {
        "encoder_depth": 2,
        "encoder_transition": 2,
        "decoder_transition": 4,
        "decoder_depth": 2,
        "high_cell": "rgru",
        "high_transition": 2,
    },
    "output": {"output_depth": 3},
    "no norm in a stack": {"use_layer_norm": False, "decoder_depth": 2, "decoder_transition": 3},
}
# each kind of level, stack, readout and norm; the others put the same together otherwise
KINDS = ("mixed", "cgru", "crgru", "bideep", "output", "no norm in a stack")


def make_model(form="bideep", rate=0.0, **options):
    training = TrainingConfig(
        embedding_dropout_rate=rate, output_dropout_rate=rate, candidate_dropout_rate=rate
    )
    config = DeepRNNConfig(**{**SIZES, **FORMS[form], **options})
    return randomise(config.build(WORDS_S, WORDS_T, training), np.random.default_rng(7), 0.5)


@functools.cache
def shared_model(form):
    """A model whose weights no test may change."""
    return make_model(form)


def norm(layer, value):
    return None if layer is None else (value(layer.gamma), value(layer.beta))


def gru(cell, value):
    d = cell.units
    bias, recurrent = value(cell.bias), value(cell.recurrent_kernel)
    weights = {
        "gate_bias": bias[: 2 * d],
        "candidate_bias": bias[2 * d :],
        "gate_recurrent": recurrent[:, : 2 * d],
        "candidate_recurrent": recurrent[:, 2 * d :],
    }
    if cell.reads_input:
        kernel = value(cell.kernel)
        weights |= {"gate_kernel": kernel[:, : 2 * d], "candidate_kernel": kernel[:, 2 * d :]}
    for side, norms in (("input", cell.input_norms), ("state", cell.state_norms)):
        gates, candidate = norms or (None, None)
        weights[side] = {"gates": norm(gates, value), "candidate": norm(candidate, value)}
    return weights


def blocks(transition, value):
    return transition and [gru(cell, value) for cell in transition.cells]


def attention(layer, value):
    return layer and {
        "query": value(layer.query_kernel),
        "key": value(layer.key_kernel),
        "key_bias": value(layer.key_bias),
        "score": value(layer.score),
        "query_norm": norm(layer.query_norm, value),
        "key_norm": norm(layer.key_norm, value),
    }


def affine(layer, value):
    kernel, bias = value(layer.affine.kernel), value(layer.affine.bias)
    return {"kernel": kernel, "bias": bias, "norm": norm(layer.norm, value)}


def level(part, value):
    return {
        "first": blocks(part.first, value),
        "second": blocks(part.second, value),
        "attention": attention(part.attention, value),
    }


def weights_of(model, value=stored):
    """All of a model's, as the twin names them."""
    encoder, readout = model.encoder, model.readout
    base, *high = (level(part, value) for part in model.cell.levels)
    sides = ("forward", "backward", "above")
    word, state, context = (affine(layer, value) for layer in readout.first)
    return {
        **{side: [blocks(r.transition, value) for r in getattr(encoder, side)] for side in sides},
        "source": value(model.source_embedding.table),
        "target": value(model.target_embedding.table),
        "initial": affine(model.initial_state, value),
        "base": base,
        "high": high,
        "readout": {
            "word": word,
            "state": state,
            "context": context,
            "further": [affine(layer, value) for layer in readout.further],
        },
        "softmax": value(model.target_embedding.table).T,
        "bias": value(readout.logits.bias),
    }


@pytest.mark.parametrize("form", FORMS)
def test_logits_equal_the_twin(form):
    model = shared_model(form)
    expected = ref.forward(weights_of(model), SOURCE, TARGET, model.config.high_cell)
    assert relative_error(model(SOURCE, TARGET)[REAL], expected[REAL]) <= 1e-5


@pytest.mark.parametrize(("tied", "tables"), [("none", 3), ("target", 2), ("all", 1)])
def test_tables_are_tied_as_the_setting_says(tied, tables):
    config = DeepRNNConfig(**SIZES, tied_embeddings=tied)
    model = config.build(WORDS_T, WORDS_T, TrainingConfig())
    ends = "embedding/table", "logits/kernel"
    assert sum(each.path.endswith(ends) for each in model.trainable_variables) == tables


@pytest.mark.parametrize("form", KINDS)
def test_gradient_of_the_loss_equals_central_differences_of_the_twin(dtype_policy, form):
    dtype_policy("float64")
    model = make_model(form)
    source, target = SOURCE[1:2, :4], np.array([[5, 3, 1]])

    def twin_loss(value):
        logits = ref.forward(weights_of(model, value), source, target, model.config.high_cell)
        return -float(np.sum(numpy_dtmt.sentence_log_probs(logits, target)))

    # the bias of an attention's scores has no gradient, and the twin does not know it
    variables = [v for v in model.trainable_variables if v.name != "score_bias"]
    assert len(model.trainable_variables) - len(variables) == len(model.cell.attentions)
    loss = functools.partial(loss_of, model, source, target)
    assert_gradients_match(loss, twin_loss, [], variables, tolerance=1e-5, samples=2)


@pytest.mark.parametrize("form", ["mixed", "crgru", "bideep"])
def test_it_does_what_every_translation_model_must(form):
    check_translation_model_contract(shared_model(form))


def test_inspection_shows_gates_of_every_block_and_the_mean_attention():
    model = shared_model("cgru")
    gates, attended = model.inspect(SOURCE, TARGET)
    np.testing.assert_allclose(model.attention(SOURCE, TARGET), attended, atol=1e-6)
    blocks = ["forward_1/gru_1", "backward_1/gru_1", "base_query/gru_1", "base/gru_2"]
    blocks += [f"level_{k}{part}" for k in (2, 3) for part in ("_query/gru_1", "/gru_2")]
    assert set(gates) == {f"{block}/{gate}" for block in blocks for gate in "ru"}
    weights, shares = weights_of(model), []
    for k, source in enumerate(SOURCE):
        annotations = ref.encode(weights["source"][source[source != 0]], weights)
        first = np.tanh(ref.affine(annotations.mean(axis=0), weights["initial"]))
        s = ref.transition(np.zeros(5), first, weights["base"]["first"])
        context, found = ref.attend(s, annotations, weights["base"]["attention"])
        looked = [found]
        r = ref.transition(context, s, weights["base"]["second"], after_attention=True)
        for high in weights["high"]:
            s = ref.transition(r, first, high["first"])
            context, found = ref.attend(s, annotations, high["attention"])
            looked.append(found)
            r = r + ref.transition(context, s, high["second"], after_attention=True)
        shares = np.mean(looked, axis=0)
        assert relative_error(attended[k, 0, : len(shares)], shares) <= 1e-5


def test_gradient_norms_and_arithmetic_know_every_block():
    model = shared_model("bideep")
    names = [
        f"{side}_{k}/gru_{b}" for side in ("forward", "backward") for k in (1, 2) for b in (1, 2)
    ]
    names += ["base_query/gru_1", "base/gru_2", "base/gru_3", "base/gru_4"]
    names += ["level_2/gru_1", "level_2/gru_2"]
    assert set(model.depths()) == set(names)
    e, d = SIZES["embedding_dim"], SIZES["units"]
    each = model.multiplications()
    assert each.sentence == 2 * d * d
    first, block = 3 * d * d, 3 * d * d
    encoder = 2 * (3 * e * d + first + block) + 2 * (3 * d * d + first + block)
    assert each.source == encoder + 2 * d * 2 * d  # and the keys
    base = (3 * e * d + first) + d * 2 * d + (3 * 2 * d * d + first) + 2 * block
    high = 3 * 3 * d * d + first + block
    assert each.target == base + high + (e + d + 2 * d) * e + e * WORDS_T
    assert each.pair == 2 * d + 2 * d


def test_initial_weights_are_orthogonal_where_square_and_small_elsewhere():
    config = DeepRNNConfig(48, 32, decoder_depth=2, output_depth=2)
    model, same, other = (config.build(200, 300, TrainingConfig(seed=seed)) for seed in (1, 1, 2))
    for ours, equal, unequal in zip(model.weights, same.weights, other.weights, strict=True):
        np.testing.assert_array_equal(ours, equal)
        if len(ours.shape) < 2:
            assert np.all(np.asarray(ours) == (ours.name == "gamma")), ours.path
        else:
            assert np.any(np.asarray(ours) != np.asarray(unequal)), ours.path
    base, above = model.cell.levels

    def by_gate(kernel):
        return np.split(kernel.numpy(), 3, axis=1)

    square = [
        *by_gate(base.first.cells[0].recurrent_kernel),
        *by_gate(above.first.cells[0].kernel),
        base.attention.key_kernel.numpy(),
        model.readout.further[0].affine.kernel.numpy(),
    ]
    for matrix in square:
        np.testing.assert_allclose(matrix.T @ matrix, np.eye(len(matrix)), atol=1e-5)
    assert np.abs(square[0] - square[1]).max() > 0.1
    oblong = [
        *by_gate(base.first.cells[0].kernel),
        *by_gate(base.second.cells[0].kernel),
        base.attention.query_kernel,
        model.initial_state.affine.kernel,
        model.readout.first[0].affine.kernel,  # square, and drawn like its neighbours
        model.source_embedding.table,
        model.target_embedding.table,
    ]
    for matrix in oblong:
        assert 0.0093 < np.std(matrix) < 0.0107


@pytest.mark.parametrize("use_layer_norm", [True, False])
def test_blocks_without_input_start_from_their_offset(use_layer_norm):
    options = {"transition_offset": -3.0, "use_layer_norm": use_layer_norm, **SIZES}
    config = DeepRNNConfig(encoder_transition=2, decoder_transition=3, **options)
    gates, _ = config.build(WORDS_S, WORDS_T, TrainingConfig()).inspect(SOURCE, TARGET)
    kept = 1 / (1 + np.exp(-3.0))
    for name, mean in gates.items():
        if name.endswith("/u"):
            block = name.split("/")[1]
            deep = block == "gru_3" or (block == "gru_2" and not name.startswith("base"))
            assert abs(mean - (kept if deep else 0.5)) < 0.1, name


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"decoder_transition": 1}, "`model.decoder_transition` should be at least 2, one block"),
        ({"high_cell": "lstm"}, "high_cell` should be gru, rgru, cgru or crgru. Received: 'lstm'"),
        ({"high_cell": "cgru", "decoder_depth": 2}, "`model.high_transition` should be at least 2"),
        ({"encoder_depth": 0}, "`model.encoder_depth` should be at least 1"),
    ],
)
def test_impossible_settings_are_named(options, message):
    with pytest.raises(UserError, match=message):
        DeepRNNConfig(**options)
