"""The bidirectional encoder against the twin, and what padding and order may not change."""

import numpy as np
import pytest
import tensorflow as tf

from dtmt_tf.layers import BidirectionalEncoder, SeedStream
from tests.cells.test_deep_transition import make_module
from tests.cells.twin import assert_gradients_match, encoder_weights, randomise, relative_error
from tests.reference import numpy_dtmt as ref

LENGTHS = [4, 6, 1, 3]


def make_encoder(rng, kind="lgru", depth=1, units=5, inputs=3, **options):
    encoder = BidirectionalEncoder(
        make_module(kind, depth, units, **options), make_module(kind, depth, units, **options)
    )
    encoder.build((None, None, inputs))
    encoder.built = True
    return randomise(encoder, rng)


def batch(rng, lengths=LENGTHS, inputs=3):
    steps = max(lengths)
    embedded = rng.normal(size=(len(lengths), steps, inputs)).astype("float32")
    return embedded, np.arange(steps) < np.array(lengths)[:, None]


def twin(embedded, mask, weights, kind="lgru"):
    return ref.encode(embedded, mask, weights["forward"], weights["backward"], kind)


@pytest.mark.parametrize("kind", ["gru", "lgru"])
@pytest.mark.parametrize(("depth", "units", "inputs"), [(0, 5, 3), (1, 1, 1), (2, 4, 7)])
def test_annotations_equal_the_twin(rng, kind, depth, units, inputs):
    encoder = make_encoder(rng, kind, depth, units, inputs)
    embedded, mask = batch(rng, inputs=inputs)
    expected = twin(embedded, mask, encoder_weights(encoder), kind)
    annotations = np.asarray(encoder(embedded, mask))
    assert annotations.shape == (4, 6, 2 * units)
    assert relative_error(annotations, expected) <= 1e-5
    assert not np.any(annotations[~mask])
    assert np.all(annotations[mask] != 0)


@pytest.mark.parametrize(("policy", "tolerance"), [("float32", 1e-3), ("float64", 1e-6)])
def test_gradients_equal_central_differences_of_the_twin(rng, dtype_policy, policy, tolerance):
    dtype_policy(policy)
    encoder = make_encoder(rng, units=4)
    embedded, mask = batch(rng, [2, 3])
    weigh = rng.normal(size=(2, 3, 8)).astype(policy)

    def loss(embedded):
        return tf.reduce_sum(encoder(embedded, mask) * weigh)

    def twin_loss(value, embedded):
        return float(np.sum(twin(embedded, mask, encoder_weights(encoder, value)) * weigh))

    assert len(encoder.trainable_variables) == 2 * 9
    assert_gradients_match(
        loss,
        twin_loss,
        [embedded.astype(policy)],
        encoder.trainable_variables,
        tolerance=tolerance,
        samples=6,
    )


def test_padding_does_not_change_annotations(rng):
    encoder = make_encoder(rng)
    embedded, mask = batch(rng)
    expected = encoder(embedded, mask)
    noise = 100 * rng.normal(size=(4, 5, 3)).astype("float32")
    longer = np.concatenate([np.where(mask[..., None], embedded, 7), noise], axis=1)
    padded = encoder(longer.astype("float32"), np.pad(mask, [(0, 0), (0, 5)]))
    assert relative_error(padded[:, :6], expected) <= 1e-6  # products of other shapes round apart
    assert not np.any(padded[:, 6:])


def test_sentences_do_not_see_each_other(rng):
    encoder = make_encoder(rng)
    embedded, mask = batch(rng)
    annotations = np.asarray(encoder(embedded, mask))
    order = [2, 0, 3, 1]
    assert relative_error(encoder(embedded[order], mask[order]), annotations[order]) <= 1e-6
    for b, length in enumerate(LENGTHS):
        alone = encoder(embedded[b : b + 1, :length], mask[b : b + 1, :length])
        assert relative_error(alone[0], annotations[b, :length]) <= 1e-6


def test_each_direction_sees_its_own_side(rng):
    encoder = make_encoder(rng)
    embedded, mask = batch(rng, [6])
    before = np.asarray(encoder(embedded, mask))[0]
    embedded[0, 3] += 1
    changed = np.any(np.asarray(encoder(embedded, mask))[0] != before, axis=-1)
    assert changed.all()  # one direction or the other
    forward, backward = np.split(np.asarray(encoder(embedded, mask))[0] != before, 2, axis=-1)
    assert forward.any(-1).tolist() == [False, False, False, True, True, True]
    assert backward.any(-1).tolist() == [True, True, True, True, False, False]


def test_dropout_follows_the_seed_stream(rng):
    encoder = make_encoder(rng, dropout_rate=0.4)
    embedded, mask = batch(rng)
    first, same, other = (
        np.asarray(encoder(embedded, mask, training=True, seeds=SeedStream(base)))
        for base in ((1, 2), (1, 2), (1, 3))
    )
    np.testing.assert_array_equal(first, same)
    assert relative_error(other, first) > 0.01
    assert not np.any(first[~mask])
    assert relative_error(encoder(embedded, mask), first) > 0.01
