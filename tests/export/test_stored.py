"""Weights that are kept in fewer bits: what is left of them, and that every answer uses it."""

import numpy as np
import pytest
import tensorflow as tf

from dtmt_tf.config import DataConfig, DecodingConfig, ExportConfig, TrainingConfig
from dtmt_tf.export import Endpoints
from dtmt_tf.export.steps import Steps
from dtmt_tf.export.stored import StoredWeights
from dtmt_tf.models import DTMTConfig, TransformerConfig
from dtmt_tf.text import Vocabulary
from tests.cells.twin import randomise

LINES = ["a small dog runs", "two dogs run in the grass", "the cat sleeps on a mat"]


@pytest.fixture(scope="module")
def vocabulary():
    return Vocabulary.train(LINES * 9, LINES * 9, DataConfig(source_vocab_size=60))


@pytest.fixture
def model(vocabulary):
    size = vocabulary.source.size
    config = TransformerConfig(8, 12, 2, 1, 1)
    return randomise(config.build(size, size, TrainingConfig()), np.random.default_rng(1), 1.0)


def rounded(weight, quantize):
    """What the docstring of `StoredWeights` says of a weight, in NumPy."""
    if weight.ndim < 2:
        return weight
    if quantize == "bfloat16":
        bits = weight.view(np.uint32)
        return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).view(np.float32)
    rows = weight if weight.shape[0] > weight.shape[1] else weight.T
    sizes = np.abs(rows).max(axis=1, keepdims=True) / np.float32(127)
    found = np.round(rows / sizes) * sizes
    return found if rows is weight else found.T


@pytest.mark.parametrize("quantize", ["bfloat16", "int8"])
def test_matrices_are_rounded_and_vectors_are_not(model, quantize):
    before = [weight.numpy() for weight in model.weights]
    stored = StoredWeights(model, quantize)
    with stored.read():
        found = [tf.convert_to_tensor(weight.value).numpy() for weight in model.weights]
    for weight, value, own in zip(before, found, model.weights, strict=True):
        assert np.abs(value - rounded(weight, quantize)).max() < 1e-6, own.path
        np.testing.assert_array_equal(own.numpy(), weight)
    wide = sum(weight.size for weight in before if weight.ndim > 1)
    narrow = sum(size_of(each) for each in stored.variables if each.dtype != tf.float32)
    assert narrow == wide * {"bfloat16": 2, "int8": 1}[quantize]


@pytest.mark.parametrize("quantize", ["bfloat16", "int8"])
@pytest.mark.parametrize(("norm", "names"), [(True, {"gain", "offset"}), (False, {"bias"})])
def test_what_gates_add_and_scale_by_stays_bit_for_bit(quantize, norm, names):
    depths = {"encoder_depth": 1, "query_depth": 0, "decoder_depth": 0}
    config = DTMTConfig(8, 8, 2, use_layer_norm=norm, **depths)
    model = randomise(config.build(9, 9, TrainingConfig()), np.random.default_rng(1), 1.0)
    of_gates = [w for w in model.weights if "gates" in w.path]
    assert {w.name for w in of_gates} == names and any(len(w.shape) == 2 for w in of_gates)
    with StoredWeights(model, quantize).read():
        found = {w.path: tf.convert_to_tensor(w.value).numpy() for w in model.weights}
    for weight in of_gates:
        np.testing.assert_array_equal(found[weight.path], weight.numpy())
    rounded_ones = [w.path for w in model.weights if (found[w.path] != w.numpy()).any()]
    assert rounded_ones and all(path.rpartition("/")[2] not in names for path in rounded_ones)


def size_of(variable):
    return variable.shape.num_elements() * variable.dtype.size


def test_every_answer_is_that_of_the_rounded_model(model, vocabulary):
    decoding = DecodingConfig(beam_size=2, extra_length=5)
    """Of the search, the attention, given translations and the parts of a search."""
    whole = Endpoints(model, vocabulary, decoding, 20, "de")
    text, target = tf.constant(LINES), tf.constant(LINES[::-1])

    def answers(endpoints, steps):
        ids, *_ = steps.read(text)
        logits, _ = steps.step(tf.zeros([len(LINES), 1], tf.int32), steps.encode(ids))
        return [
            endpoints.translate_nbest(text)["scores"],
            endpoints.align(text)["attention"],
            endpoints.score(text, target)["log_probability"],
            logits,
        ]

    steps = Steps(whole)
    exact = answers(whole, steps)
    kept = Endpoints(model, vocabulary, decoding, 20, "de", ExportConfig("int8"))
    found = answers(kept, Steps(kept))
    for weight in model.weights:
        weight.assign(rounded(weight.numpy(), "int8"))
    for value, expected, other in zip(found, answers(whole, steps), exact, strict=True):
        np.testing.assert_allclose(value, expected, atol=1e-4)
        assert value.shape != other.shape or np.abs(value - other).max() > 1e-3  # rounding shows
