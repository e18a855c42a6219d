"""Attentive recurrences: their cell in Keras's own RNN, and the order of their chains."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from dtmt_tf.cells import AbstractRNNCell, GRUCell
from dtmt_tf.layers import AdditiveAttention, AttentiveCell, AttentiveRecurrence
from tests.cells.twin import randomise, relative_error

BATCH, WORDS, UNITS, STEPS = 3, 4, 5, 6
MASK = np.arange(WORDS) < np.array([4, 2, 1])[:, None]


@pytest.fixture
def recurrence(rng):
    """Two chains."""
    attention = AdditiveAttention(
        UNITS, use_layer_norm=False, use_bias=False, initializer="glorot_uniform"
    )
    cells = [AttentiveCell(GRUCell(UNITS), attention) for _ in range(2)]
    layer = AttentiveRecurrence(cells, STEPS)
    layer.build((None, None, UNITS))
    return randomise(layer, rng)


def test_keras_s_own_rnn_runs_the_cell_with_the_same_gradients(recurrence, rng):
    x, first = (
        tf.constant(rng.normal(size=shape), "float32")
        for shape in ((BATCH, WORDS, UNITS), (2, BATCH, UNITS))
    )
    weigh = rng.normal(size=(BATCH, STEPS, 2 * UNITS)).astype("float32")
    points = [x, first, *(weight.value for weight in recurrence.trainable_weights)]

    def stock():
        chains = []
        for chain, h in zip(recurrence.chains, tf.unstack(first), strict=True):
            cell = chain.transition
            nothing = tf.zeros((BATCH, STEPS, 0))
            states = [h, *cell.precompute(x, MASK)]
            layer = keras.layers.RNN(cell, return_sequences=True)
            chains.append(layer(nothing, initial_state=states))
        return tf.concat([chains[0], chains[1][:, ::-1]], axis=-1)

    results = []
    for run in (stock, lambda: recurrence(x, MASK, tf.unstack(first))[0]):
        with tf.GradientTape() as tape:
            tape.watch([x, first])
            outputs = run()
            loss = tf.reduce_sum(outputs * weigh)
        results.append([outputs, *tape.gradient(loss, points)])
    for theirs, ours in zip(*results, strict=True):
        assert relative_error(ours, theirs) <= 1e-5
        assert np.max(np.abs(theirs)) > 1e-3


def test_chains_share_their_attention():
    cells = [
        AttentiveCell(
            GRUCell(UNITS),
            AdditiveAttention(UNITS, use_layer_norm=False, use_bias=False, initializer="zeros"),
        )
        for _ in range(2)
    ]
    for wrong in (cells, [], 3 * cells[:1]):
        with pytest.raises(ValueError, match="one or two that share their attention"):
            AttentiveRecurrence(wrong, STEPS)


def test_a_cell_made_of_layers_has_no_config(recurrence):
    cell = recurrence.chains[0].transition
    assert isinstance(cell, AbstractRNNCell) and cell.parts
    with pytest.raises(TypeError, match="AttentiveCell is made of cells"):
        cell.get_config()
