"""Each dropout rate reaches its own places of every architecture, and no others."""

import functools

import keras
import numpy as np
import pytest

from dtmt_tf.cells import GatedCell, NematusGRUCell
from dtmt_tf.config import TrainingConfig
from dtmt_tf.layers import SeedStream, TokenEmbedding
from dtmt_tf.layers.residual_norm import ResidualNorm
from dtmt_tf.models import (
    DeepLAUConfig,
    DeepRNNConfig,
    DTMTConfig,
    RecurrenceTransformerConfig,
    TransformerConfig,
)
from tests.cells.twin import randomise, relative_error
from tests.models.contract import SOURCE, TARGET, WORDS_S, WORDS_T

RECURRENT = {"embedding_dim": 8, "units": 8}
DEPTHS = {"encoder_depth": 2, "decoder_depth": 2}
WIDTHS = {"model_dim": 8, "filter_dim": 12, "num_heads": 2}
LAYERS = {"encoder_layers": 1, "decoder_layers": 1}
MODELS = {
    "dtmt": DTMTConfig(**RECURRENT, **DEPTHS, query_depth=2, num_heads=2),
    "deep rnn": DeepRNNConfig(**RECURRENT, **DEPTHS),
    "deep lau": DeepLAUConfig(**RECURRENT, **DEPTHS),
    "transformer": TransformerConfig(**WIDTHS, **LAYERS),
    "recurrence": RecurrenceTransformerConfig(**WIDTHS, **LAYERS, recurrence_steps=3),
}
PLACES = {"embedding": 0.1, "candidate": 0.2, "output": 0.3, "word": 0.4}
LEAST = 1e-3  # far above rounding
every_model = pytest.mark.parametrize("name", MODELS)


def make_model(name, rates):
    training = {f"{place}_dropout_rate": rates.get(place, 0.0) for place in PLACES}
    return MODELS[name].build(WORDS_S, WORDS_T, TrainingConfig(**training))


@every_model
def test_every_layer_that_drops_has_the_rate_of_its_place(name):
    model = make_model(name, PLACES)
    found = {place: set() for place in PLACES}
    found["output"].add(model.readout.dropout_rate)
    for layer in model._flatten_layers():
        if isinstance(layer, TokenEmbedding):
            found["embedding"].add(layer.dropout_rate)
            found["word"].add(layer.word_dropout_rate)
        elif isinstance(layer, ResidualNorm):
            found["candidate"].add(layer.dropout_rate)
        elif isinstance(layer, GatedCell | NematusGRUCell) and name != "recurrence":
            found["candidate"].add(layer.dropout_rate)  # there the sum after them is dropped
    assert found == {place: {rate} for place, rate in PLACES.items()}


@functools.cache
def undropped(name):
    """A model without dropout, with its features and logits."""
    model = make_model(name, {})
    features = model.features(SOURCE, TARGET)
    return model, features, model.readout(features)


@pytest.mark.parametrize("place", PLACES)
@every_model
def test_what_is_dropped_depends_on_the_seeds_alone(name, place):
    model, (_, still_features, still) = make_model(name, {place: 0.4}), undropped(name)
    seeds = SeedStream((1, 2))
    features = model.features(SOURCE, TARGET, training=True, seeds=seeds)
    first = model.readout(features, training=True, seeds=seeds)
    same, other = (
        model(SOURCE, TARGET, training=True, seeds=SeedStream(base)) for base in ((1, 2), (1, 3))
    )
    np.testing.assert_array_equal(first, same)
    assert relative_error(other, first) > LEAST and relative_error(first, still) > LEAST
    assert (relative_error(features, still_features) > LEAST) == (place != "output")


@every_model
def test_only_training_drops(name):
    *_, still = undropped(name)
    np.testing.assert_array_equal(make_model(name, PLACES)(SOURCE, TARGET), still)


@every_model
def test_training_without_rates_drops_nothing(name):
    plain, _, still = undropped(name)
    assert relative_error(plain(SOURCE, TARGET, training=True), still) == 0


# What is dropped, in order: place, length (source 5, target 4, steps of BiARN 3) and width. The
# softmax has 7 scores, all states 8 units, both directions of BiARN 16.
SOURCE_WORDS = [("word", 5, 1), ("embedding", 5, 8)]
TARGET_WORDS = [("word", 4, 1), ("embedding", 4, 8)]
OUTPUT = [("output", 4, 8)]
S, T, STEPS = ("candidate", 5, 8), ("candidate", 4, 8), ("candidate", 3, 16)
DROPPED = {
    # two directions of 3 cells; 3 cells of the query, 3 after it
    "dtmt": [*SOURCE_WORDS, *[S] * 6, *TARGET_WORDS, *[T] * 6, *OUTPUT],
    # two directions of 2 levels; the base level's two transitions, the level above
    "deep rnn": [*SOURCE_WORDS, *[S] * 4, *TARGET_WORDS, *[T] * 3, *OUTPUT],
    "deep lau": [*SOURCE_WORDS, *[S] * 2, *TARGET_WORDS, *[T] * 2, *OUTPUT],
    # attention and feed-forward; self-attention, attention, feed-forward
    "transformer": [*SOURCE_WORDS, *[S] * 2, *TARGET_WORDS, *[T] * 3, *OUTPUT],
    # twice the source; the second encoder's attention and feed-forward; the fusion's attention
    "recurrence": [
        *(*SOURCE_WORDS, *[S] * 2, *SOURCE_WORDS, *[STEPS] * 2),
        *(*TARGET_WORDS, *[T] * 4, *OUTPUT),
    ],
}


@every_model
def test_training_drops_at_every_place(name, monkeypatch):
    places, found = {rate: place for place, rate in PLACES.items()}, []
    seeds = SeedStream((1, 2))

    def dropout(x, rate, seed):
        assert seed is seeds
        found.append((places[rate], x.shape[1], x.shape[-1]))
        return x

    monkeypatch.setattr(keras.random, "dropout", dropout)
    dropped = make_model(name, PLACES)(SOURCE, TARGET, training=True, seeds=seeds)
    assert found == DROPPED[name]
    np.testing.assert_array_equal(dropped, undropped(name)[-1])  # and nowhere else


# What a mask of zeros moves, by the part that it is for: each state, then the context.
MOVED = {
    "dtmt": {"query": (True, True), "transition": (True, False)},
    "deep rnn": {
        "base_query": (True, True, True),
        "base": (True, True, False),
        "level_2": (False, True, False),
    },
    "deep lau": {"decoder_1": (True, True, False), "decoder_2": (False, True, False)},
}


@pytest.mark.parametrize("name", MOVED)
def test_each_part_of_a_decoder_is_given_its_own_mask(name):
    model = randomise(make_model(name, {"candidate": 0.2}), np.random.default_rng(7), 0.5)
    cell, first = model.cell, model.start(*model.annotate(SOURCE))
    projected = cell.project(np.ones((3, 8), "float32"))

    def values(masks):
        step = cell.evaluate(projected, masks, [state for each in first for state in each])
        states = step.states[: len(cell.hidden_sizes)]
        # in deep LAU the context comes before all cells: a mask can not move it
        context = [] if name == "deep lau" else [step.output[:, 8:]]
        return [np.asarray(value) for value in (*states, *context)]

    ones = np.ones((3, cell.mask_size), "float32")
    still, start = values(ones), 0
    moved = {}
    for part in cell.parts:
        masks = ones.copy()
        masks[:, start : start + part.mask_size] = 0
        start += part.mask_size
        found = [bool(np.any(was != now)) for was, now in zip(still, values(masks), strict=True)]
        moved[part.name] = (*found, *[False] * (name == "deep lau"))
    assert moved == MOVED[name]


def test_a_residual_norm_drops_what_is_added_alone():
    norm = ResidualNorm(pre_norm=True, dropout_rate=0.4)
    ones = np.ones((50, 8), "float32")
    np.testing.assert_array_equal(norm.after(ones, 0 * ones, True, SeedStream((1, 2))), ones)
    added = np.asarray(norm.after(0 * ones, ones, True, SeedStream((1, 2))))
    np.testing.assert_allclose(np.unique(added), [0, 1 / 0.6], rtol=1e-6)
    np.testing.assert_array_equal(norm.after(ones, ones, False, SeedStream((1, 2))), 2 * ones)
