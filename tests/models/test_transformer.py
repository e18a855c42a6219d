"""The Transformer against the twin, by its counts, in search, and what may not change it."""

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf

from dtmt_tf.config import DataConfig, Task, TrainingConfig
from dtmt_tf.decoding import beam_search
from dtmt_tf.errors import UserError
from dtmt_tf.experiment import from_dict, resolve, to_dict
from dtmt_tf.models import MODELS, TransformerConfig
from dtmt_tf.training import TrainingStep
from tests.cells.twin import assert_gradients_match, randomise, relative_error, stored
from tests.decoding.automaton import settings
from tests.models.contract import (
    REAL,
    SOURCE,
    TARGET,
    WORDS_S,
    WORDS_T,
    check_translation_model_contract,
    loss_of,
)
from tests.reference import numpy_dtmt, numpy_transformer

pytestmark = pytest.mark.filterwarnings("ignore:You are using a softmax over axis")  # one word
SMALL = {"model_dim": 8, "filter_dim": 12, "num_heads": 2}


def make_model(rates=0.0, layers=(1, 1), **options):
    training = TrainingConfig(
        embedding_dropout_rate=rates, output_dropout_rate=rates, candidate_dropout_rate=rates
    )
    sizes = {"encoder_layers": layers[0], "decoder_layers": layers[1]}
    config = TransformerConfig(**{**SMALL, **sizes, **options})
    return randomise(config.build(WORDS_S, WORDS_T, training), np.random.default_rng(7), 0.5)


@pytest.fixture(scope="module", params=[0, 1], ids=["post-norm", "pre-norm, relative"])
def model(request):
    """Two layers on both sides."""
    return make_model(
        layers=(2, 2), pre_norm=bool(request.param), relative_distance=2 * request.param
    )


def test_vectors_of_relative_positions_are_reckoned_with():
    plain, relative = (make_model(layers=(2, 1), relative_distance=d) for d in (0, 3))
    more = {"relative positions": 3 * 2 * 20**2 * 8}  # of three self-attentions, keys and values
    assert relative.largest_tensors(5, 20) == plain.largest_tensors(5, 20) | more


# The twin.


def attention_weights(attention, value):
    key_kernel, value_kernel = np.split(value(attention.key_value.kernel), 2, axis=1)
    key_bias, value_bias = np.split(value(attention.key_value.bias), 2)
    weights = {
        "query": (value(attention.query.kernel), value(attention.query.bias)),
        "key": (key_kernel, key_bias),
        "value": (value_kernel, value_bias),
        "output": (value(attention.output_map.kernel), value(attention.output_map.bias)),
    }
    if attention.relative_distance:
        weights["relative"] = value(attention.relative_keys), value(attention.relative_values)
    return weights


def layer_weights(layer, value):
    def norm(part):
        return value(part.gamma), value(part.beta)

    weights = {
        "self": attention_weights(layer.self_attention, value),
        "self_norm": norm(layer.self_norm),
        "inner": (value(layer.inner.kernel), value(layer.inner.bias)),
        "outer": (value(layer.outer.kernel), value(layer.outer.bias)),
        "outer_norm": norm(layer.outer_norm),
    }
    if layer.source_attention is not None:
        weights["source"] = attention_weights(layer.source_attention, value)
        weights["source_norm"] = norm(layer.source_norm)
    return weights


def weights_of(model, value=stored):
    weights = {
        "source": {
            "table": value(model.source_embedding.table),
            "bias": value(model.source_embedding.bias),
        },
        "target": {"table": value(model.target_embedding.table)},
    }
    for name in ("encoder", "decoder"):
        part = getattr(model, name)
        weights[name] = [layer_weights(layer, value) for layer in part.layers]
        if part.norm is not None:
            weights[f"{name}_norm"] = (value(part.norm.gamma), value(part.norm.beta))
    tied = model.config.tied_embeddings != "none"
    weights["softmax"] = (
        weights["target"]["table"].T if tied else value(model.readout.logits.kernel)
    )
    return weights


def twin(model, value=stored):
    """Logits and attention of each sentence, run alone without its padding."""
    weights, config = weights_of(model, value), model.config
    for source, target in zip(SOURCE, TARGET, strict=True):
        yield numpy_transformer.forward(
            weights,
            source[source != 0],
            target[target != 0],
            config.num_heads,
            config.pre_norm,
            config.directional,
        )


def assert_equals_the_twin(model):
    logits = model(SOURCE, TARGET)
    assert logits.shape == (3, 4, WORDS_T)
    for b, (expected, _) in enumerate(twin(model)):
        assert relative_error(logits[b, : len(expected)], expected) <= 1e-5


def test_logits_equal_the_twin(model):
    assert_equals_the_twin(model)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"pre_norm": True, "layers": (1, 3)},
        {"num_heads": 1},
        {"num_heads": 4, "filter_dim": 3},
        {"tied_embeddings": "target"},
        {"relative_distance": 2},
        {"relative_distance": 9, "pre_norm": True, "layers": (2, 2)},
        {"directional": True},
        {"directional": True, "relative_distance": 1, "num_heads": 4},
    ],
)
def test_every_switch_equals_the_twin(options):
    assert_equals_the_twin(make_model(**options))


@pytest.mark.parametrize(
    "options", [{}, {"pre_norm": True, "relative_distance": 1}], ids=["post-norm", "pre-norm"]
)
def test_gradient_of_the_loss_equals_central_differences_of_the_twin(dtype_policy, options):
    dtype_policy("float64")
    model = make_model(**options)

    def twin_loss(value):
        rows = zip(twin(model, value), TARGET, strict=True)
        return -sum(
            float(numpy_dtmt.sentence_log_probs(logits[None], target[None, target != 0])[0])
            for (logits, _), target in rows
        )

    assert_gradients_match(
        lambda: loss_of(model), twin_loss, [], model.trainable_variables, tolerance=1e-6, samples=3
    )


def test_inspection_shows_the_attention_of_the_twin(model):
    gates, attended = model.inspect(SOURCE, TARGET)
    assert gates == {}
    for b, (logits, weights) in enumerate(twin(model)):
        expected = np.zeros((len(logits), SOURCE.shape[1]))
        expected[:, : weights.shape[-1]] = weights.mean(axis=(0, 1))
        assert relative_error(attended[b, : len(logits)], expected) <= 1e-5


# Search.


def test_it_does_what_every_translation_model_must(model):
    check_translation_model_contract(model)


def test_a_step_adds_one_word_to_the_past(model):
    state = model.encode(SOURCE)
    for t in range(3):
        _, state = model.decode_step(np.full((3, 1), 2 + t), state)
        (keys, values), *_ = state[0]["past"]
        assert keys.shape == values.shape == (3, 1, 2, t + 1, 4)
    first = model.decoder.layers[0]
    words = model.target_embedding(np.array([[0, 3, 4]] * 3), np.arange(3))
    if model.config.pre_norm:
        words = first.self_norm(words)
    expected = first.self_attention.precompute(words)[0]  # of all words at once
    assert relative_error(keys[:, 0], expected) <= 1e-5


@pytest.mark.parametrize("in_graph", [False, True])
def test_beam_search_finds_what_the_reference_finds(model, in_graph):
    weights, config = weights_of(model), model.config

    def search(source):
        return beam_search(
            lambda ids, state: (lambda logits, state: (tf.nn.log_softmax(logits), state))(
                *model.decode_step(ids, state)
            ),
            model.encode(source),
            tf.fill([tf.shape(source)[0]], 6),
            settings(3, 0.6),
        )

    if in_graph:
        search = tf.function(search, input_signature=[tf.TensorSpec([None, None], tf.int32)])
    found = search(tf.constant(SOURCE, tf.int32))
    for b in range(3):

        def log_probs(prefix, source=SOURCE[b]):
            target = [*prefix, 1]  # the last word is predicted, never read
            logits, _ = numpy_transformer.forward(
                weights, source[source != 0], target, config.num_heads, config.pre_norm
            )
            return numpy_dtmt.log_softmax(logits[-1])

        expected = numpy_dtmt.beam_search(log_probs, 0, 3, 0.6, WORDS_T, 1, max_len=6)
        for k, (ids, _, score) in enumerate(expected):
            assert tuple(found.ids.numpy()[b, k, : len(ids)]) == ids
            np.testing.assert_allclose(found.scores[b, k], score, rtol=1e-4)


# Dropout, precision, first weights, settings.


def test_mixed_precision_stays_near_float32(model, dtype_policy):
    dtype_policy("mixed_bfloat16")
    low = make_model(
        layers=(2, 2),
        pre_norm=model.config.pre_norm,
        relative_distance=model.config.relative_distance,
    )
    low.set_weights(model.get_weights())
    expected = np.asarray(model(SOURCE, TARGET))
    logits = tf.cast(low(SOURCE, TARGET), "float32")
    assert relative_error(logits[REAL], expected[REAL]) <= 0.1
    step, _ = low.decode_step(np.full((3, 1), 1), low.encode(SOURCE))
    assert relative_error(tf.cast(step, "float32")[:, 0], expected[:, 0]) <= 0.1


def test_first_weights_are_by_rule_and_fixed_by_the_seed():
    def build(seed):
        config = TransformerConfig(64, 128, 4, 1, 1)
        return config.build(300, 200, TrainingConfig(seed=seed))

    model, same, other = build(1), build(1), build(2)
    starts = []
    for ours, equal, unequal in zip(model.weights, same.weights, other.weights, strict=True):
        values = ours.numpy()
        np.testing.assert_array_equal(values, equal.numpy())
        if ours.name == "gamma":
            assert np.all(values == 1)
        elif values.ndim == 1:
            assert np.all(values == 0)
        else:
            assert np.any(values != unequal.numpy())
            starts.append(float(values.flat[0]))
            table = "embedding" in ours.path or "logits" in ours.path
            spread = 64**-0.5 if table else (2 / sum(values.shape)) ** 0.5  # Glorot and Bengio
            assert abs(np.std(values) / spread - 1) < 0.05
            assert (np.max(np.abs(values)) > 2 * spread) == table  # uniform: at most 3^(1/2)
    assert len(starts) == len(set(starts)) == 3 + 5 + 8  # no two matrices start alike


def test_one_batch_is_learnt_by_heart():
    training = TrainingConfig(
        embedding_dropout_rate=0.0,
        candidate_dropout_rate=0.1,
        output_dropout_rate=0.0,
        label_smoothing=0.0,
        schedule_replicas=1,
        learning_rate=3e-3,
    )
    config = TransformerConfig(32, 64, 4, 1, 1)
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    with strategy.scope():
        model = config.build(WORDS_S, WORDS_T, training)
    step = TrainingStep(model, training, strategy)
    losses = [float(step(SOURCE, TARGET).loss) for _ in range(60)]
    assert losses[0] > 1.5 and losses[-1] < 0.1
    logits = np.asarray(model(SOURCE, TARGET))
    np.testing.assert_array_equal(np.argmax(logits, axis=-1)[REAL], TARGET[REAL])


@pytest.mark.parametrize("name", ["transformer_tiny", "transformer_base", "transformer_big"])
def test_saved_settings_of_a_preset_are_read_back(name):
    config = dataclasses.replace(MODELS[name], pre_norm=True, filter_dim=20)
    task = Task("none", "", name, DataConfig(), TrainingConfig())
    experiment, _ = resolve(task, name, MODELS[name], ["model.pre_norm=1", "model.filter_dim=20"])
    values = json.loads(json.dumps(to_dict(experiment)))
    assert from_dict(values, type(MODELS[values["model_name"]])).model == config


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model_dim": 10, "num_heads": 4}, "divisible by `model.num_heads`. Received: 10 and 4"),
        (
            {"filter_dim": 0},
            "`model.filter_dim` should be at least 1 .*Received: 0",
        ),
        (
            {"decoder_layers": 0},
            "`model.decoder_layers` should be at least 1 .*Received: 0",
        ),
        ({"directional": True, "num_heads": 1}, "needs an even `model.num_heads`. Received: 1"),
        ({"tied_embeddings": "yes"}, "`model.tied_embeddings` should be none, target or all"),
    ],
)
def test_impossible_settings_are_named(options, message):
    with pytest.raises(UserError, match=message):
        TransformerConfig(**options)
