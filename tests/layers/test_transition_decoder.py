"""One decoder step against the twin, alone and with several hypotheses of a sentence."""

import numpy as np
import pytest
import tensorflow as tf

from dtmt_tf.layers import (
    MultiHeadAdditiveAttention,
    SeedStream,
    TransitionDecoderCell,
    TransitionRNN,
)
from tests.cells.test_deep_transition import make_module
from tests.cells.twin import assert_gradients_match, decoder_weights, randomise, relative_error
from tests.reference import numpy_dtmt as ref

INPUTS, UNITS, HEADS = 3, 4, 2
MASK = np.arange(5) < np.array([4, 5, 1])[:, None]


def make_decoder(rng, kind="lgru", query_depth=1, depth=1, output_dim=8, **options):
    cell = TransitionDecoderCell(
        make_module(kind, query_depth, UNITS, **options),
        MultiHeadAdditiveAttention(HEADS, UNITS, 2 * UNITS, output_dim, initializer="zeros"),
        make_module(kind, depth, UNITS, **options),
    )
    cell.build((None, INPUTS))
    cell.built = True
    return randomise(cell, rng)


def arguments(rng, rows=3, dtype="float32"):
    y, s = rng.normal(size=(rows, INPUTS)), rng.normal(size=(rows, UNITS))
    annotations = rng.normal(size=(3, 5, 2 * UNITS)) * MASK[..., None]
    return [array.astype(dtype) for array in (y, s, annotations)]


@pytest.mark.parametrize("kind", ["gru", "lgru"])
@pytest.mark.parametrize(
    ("query_depth", "depth", "output_dim"), [(0, 0, 8), (1, 2, 8), (2, 0, 4), (0, 1, 7)]
)
def test_step_equals_the_twin(rng, kind, query_depth, depth, output_dim):
    cell = make_decoder(rng, kind, query_depth, depth, output_dim)
    y, s, annotations = arguments(rng)
    memory = cell.attention.precompute(annotations, MASK)
    output, (state, *carried) = cell(y, [s, *memory])
    new_s, context, _, _ = ref.decoder_step(
        y, s, (annotations, MASK), decoder_weights(cell), HEADS, kind
    )
    assert output.shape == (3, UNITS + output_dim) == (3, cell.output_size)
    assert relative_error(state, new_s) <= 1e-5
    assert relative_error(output[:, :UNITS], new_s) <= 1e-5
    assert relative_error(output[:, UNITS:], context) <= 1e-5
    for before, after in zip(memory, carried, strict=True):
        np.testing.assert_array_equal(after, before)


@pytest.mark.parametrize(("policy", "tolerance"), [("float32", 1e-3), ("float64", 1e-6)])
def test_gradients_equal_central_differences_of_the_twin(rng, dtype_policy, policy, tolerance):
    dtype_policy(policy)
    cell = make_decoder(rng)
    y, s, annotations = arguments(rng, dtype=policy)
    weigh = rng.normal(size=(3, UNITS + 8)).astype(policy)

    def loss(y, s, annotations):
        output, _ = cell(y, [s, *cell.attention.precompute(annotations, MASK)])
        return tf.reduce_sum(output * weigh)

    def twin_loss(value, y, s, annotations):
        weights = decoder_weights(cell, value)
        s, context, _, _ = ref.decoder_step(y, s, (annotations, MASK), weights, HEADS)
        return float(np.sum(np.concatenate([s, context], axis=-1) * weigh))

    assert len(cell.trainable_variables) == 9 + 5 + 9
    assert_gradients_match(
        loss,
        twin_loss,
        [y, s, annotations],
        cell.trainable_variables,
        tolerance=tolerance,
        samples=8,
    )


def test_hypotheses_of_a_sentence_are_as_many_sentences(rng):
    cell, beams = make_decoder(rng), 4
    y, s, annotations = arguments(rng, rows=3 * beams)
    together, (state, *_) = cell(y, [s, *cell.attention.precompute(annotations, MASK)])
    memory = cell.attention.precompute(
        np.repeat(annotations, beams, axis=0), np.repeat(MASK, beams, axis=0)
    )
    apart, (apart_state, *_) = cell(y, [s, *memory])
    assert relative_error(together, apart) <= 1e-6
    assert relative_error(state, apart_state) <= 1e-6


def test_both_transitions_have_masks_of_their_own(rng):
    cell = make_decoder(rng, query_depth=1, depth=2, dropout_rate=0.4)
    y, s, annotations = arguments(rng)
    masks = np.asarray(cell.masks(y, SeedStream((3, 4))))
    assert masks.shape == (3, 5 * UNITS)
    memory = cell.attention.precompute(annotations, MASK)
    output, *_ = cell.evaluate(cell.project(y), masks, [s, *memory])

    weights = decoder_weights(cell)
    parts = np.split(masks, 5, axis=-1)
    q = ref.deep_transition_step(y, s, weights["query"], parts[:2])
    context, _ = ref.attention(q, annotations, MASK, weights["attention"], HEADS)
    expected = ref.deep_transition_step(context, q, weights["transition"], parts[2:])
    assert relative_error(output[:, :UNITS], expected) <= 1e-5
    assert relative_error(output[:, UNITS:], context) <= 1e-5


def test_a_whole_sentence_equals_the_twin(rng):
    cell = make_decoder(rng)
    _, s, annotations = arguments(rng)
    words = rng.normal(size=(3, 6, INPUTS)).astype("float32")
    outputs = TransitionRNN(cell, return_sequences=True)(
        words, initial_state=[s, *cell.attention.precompute(annotations, MASK)]
    )
    weights = decoder_weights(cell)
    for t in range(6):
        s, context, _, _ = ref.decoder_step(words[:, t], s, (annotations, MASK), weights, HEADS)
        expected = np.concatenate([s, context], axis=-1)
        assert relative_error(outputs[:, t], expected) <= 1e-5
