"""Each dropout rate reaches its own places of every architecture, and no others."""

import functools

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
from tests.cells.twin import relative_error
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
