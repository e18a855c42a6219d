"""What every recurrent cell must do, in one call: `check_rnn_cell_contract(make_cell, count)`.

`make_cell(**options)` makes a cell of `UNITS` units and passes on `dropout_rate`; `count(i, d)` is
the number of parameters by formula.
"""

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from dtmt_tf.cells import LAUCell, NematusGRUCell
from dtmt_tf.layers import SeedStream, TransitionRNN
from tests.cells.twin import randomise, relative_error

INPUTS, UNITS = 3, 6
BATCH, STEPS = 4, 5
RATE = 0.4
ROUNDING = 1e-5  # float32, after a few steps


def check_rnn_cell_contract(make_cell, count):
    """Runs all checks below."""
    check_weights(make_cell, count)
    check_config_round_trip(make_cell)
    check_equals_stock_rnn(make_cell)
    check_masked_steps_carry_the_state(make_cell)
    check_mixed_precision(make_cell)
    check_dropout_masks(make_cell)
    check_dropout_reaches_candidates_alone(make_cell)
    check_dropout_is_the_same_inside_and_outside_the_loop(make_cell)
    check_a_gradient_step_lowers_a_loss(make_cell)


def built(make_cell, seed=0, **options):
    """A cell with random weights."""
    cell = make_cell(**options)
    cell.build((None, INPUTS))
    cell.built = True
    return randomise(cell, np.random.default_rng(seed))


def sequences(seed=1, steps=STEPS, batch=BATCH):
    """Inputs `[B, T, I]` and a first state `[B, H]`."""
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(batch, steps, INPUTS)).astype("float32")
    return inputs, rng.normal(size=(batch, UNITS)).astype("float32")


def basic_cells(cell):
    """The gated cells that a cell is made of."""
    return getattr(cell, "cells", [cell])


def force_update_gates(cell, value):
    """Shifts all update gates (the second of each cell) so far that they are 0 or 1 exactly.

    An LAU's linear term, which joins the state past the candidate, is shut out.
    """
    for part in basic_cells(cell):
        if isinstance(part, NematusGRUCell):  # its gate keeps the old state
            shift = part.state_norms[0].beta if part.use_layer_norm else part.bias
            moved = shift.numpy()
            moved[part.units : 2 * part.units] = -value
            shift.assign(moved)
            continue
        if getattr(part, "first_scale", 0):
            part.scale.assign(np.ones(part.units))
        shift = part.gates.offset if part.use_layer_norm else part.gates.bias
        moved = shift.numpy()
        moved[1] = value
        if isinstance(part, LAUCell):
            moved[2] = -1e4
        shift.assign(moved)


def check_weights(make_cell, count):
    """Weights appear when the cell is built, as many as the formula says, all trainable."""
    cell = make_cell()
    assert (cell.state_size, cell.output_size) == (UNITS, UNITS)
    assert not cell.weights
    outputs = keras.layers.RNN(cell)(sequences()[0])  # Keras builds it
    assert outputs.shape == (BATCH, UNITS)
    assert sum(int(np.prod(weight.shape)) for weight in cell.weights) == count(INPUTS, UNITS)
    assert len(cell.trainable_weights) == len(cell.weights)
    assert cell.count_params() == count(INPUTS, UNITS)


def check_config_round_trip(make_cell):
    """A cell made from a cell's config has the same outputs once the weights are copied."""
    cell = built(make_cell, dropout_rate=RATE)
    copy = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(cell))
    assert type(copy) is type(cell)
    assert copy.get_config() == cell.get_config()
    assert copy.mask_size == cell.mask_size > 0
    if not copy.built:  # Keras builds it where the config came from a built cell
        copy.build((None, INPUTS))
    copy.set_weights(cell.get_weights())
    inputs, state = sequences()
    output, (new_state,) = cell(inputs[:, 0], [state])
    copied, (copied_state,) = copy(inputs[:, 0], [state])
    np.testing.assert_array_equal(copied, output)
    np.testing.assert_array_equal(copied_state, new_state)


def check_equals_stock_rnn(make_cell):
    """`keras.layers.RNN` and `TransitionRNN` agree in values and gradients."""
    cell = built(make_cell)
    inputs, state = (tf.convert_to_tensor(array) for array in sequences())
    weigh = np.random.default_rng(2).normal(size=(BATCH, STEPS, UNITS)).astype("float32")
    results = []
    for make_layer in (keras.layers.RNN, TransitionRNN):
        layer = make_layer(cell, return_sequences=True, return_state=True)
        with tf.GradientTape() as tape:
            tape.watch([inputs, state])
            outputs, last = layer(inputs, initial_state=state)
            loss = tf.reduce_sum(outputs * weigh)
        np.testing.assert_array_equal(last, outputs[:, -1])
        points = [inputs, state, *(weight.value for weight in cell.weights)]
        results.append([outputs, *tape.gradient(loss, points, unconnected_gradients="zero")])
        assert len(layer.trainable_weights) == len(cell.weights)
    for ours, stock in zip(results[1], results[0], strict=True):
        assert relative_error(ours, stock) <= ROUNDING

    output, (h,) = None, [state]
    for t in range(STEPS):
        output, (h,) = cell(inputs[:, t], [h])
    assert relative_error(output, results[1][0][:, -1]) <= ROUNDING


def check_masked_steps_carry_the_state(make_cell):
    """Where the mask is False the state stays and the output is the last one, or zero."""
    cell = built(make_cell)
    inputs, state = sequences()
    lengths = [STEPS, 3, 1, 0]
    mask = np.arange(STEPS) < np.array(lengths)[:, None]
    for make_layer in (keras.layers.RNN, TransitionRNN):
        unmasked = make_layer(cell, return_sequences=True)(inputs, initial_state=state)
        for zero in (False, True):
            layer = make_layer(
                cell, return_sequences=True, return_state=True, zero_output_for_mask=zero
            )
            outputs, last = layer(inputs, initial_state=state, mask=mask)
            for b, length in enumerate(lengths):
                real = unmasked[b, :length]
                np.testing.assert_array_equal(outputs[b, :length], real)
                carried = real[-1] if length else state[b]
                np.testing.assert_array_equal(last[b], carried)
                if zero:
                    assert not np.any(outputs[b, length:])
                elif length:
                    assert np.all(outputs[b, length:] == carried)


def check_mixed_precision(make_cell):
    """Under `mixed_bfloat16` weights stay float32 and outputs are near those of float32."""
    cell = built(make_cell)
    inputs, state = sequences()
    expected = TransitionRNN(cell, return_sequences=True)(inputs, initial_state=state)
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        low = built(make_cell, dropout_rate=RATE)
        for make_layer in (keras.layers.RNN, TransitionRNN):
            layer = make_layer(low, return_sequences=True)
            outputs = layer(inputs, initial_state=state)
            assert outputs.dtype == "bfloat16"
            # 8 bits of mantissa, some ten roundings in a row
            assert relative_error(ops.cast(outputs, "float32"), expected) <= 0.05
            assert layer(inputs, training=True).dtype == "bfloat16"
        assert {weight.dtype for weight in low.weights} == {"float32"}
    finally:
        keras.config.set_dtype_policy(before)


def check_dropout_masks(make_cell):
    """Masks hold 0 or 1/(1 - p) at the right rate, anew at every step, in training alone."""
    cell, plain = built(make_cell, dropout_rate=RATE), built(make_cell)
    inputs, state = sequences(steps=7, batch=100)
    assert plain.mask_size == 0 and plain.masks(inputs) is None
    assert plain.prepare(inputs, training=True).shape[-1] == plain.projection_size
    assert cell.prepare(inputs, training=False).shape[-1] == cell.projection_size

    masks = np.asarray(cell.masks(inputs))
    assert masks.shape == (*inputs.shape[:-1], cell.mask_size)
    np.testing.assert_allclose(np.unique(masks), [0, 1 / (1 - RATE)], rtol=1e-6)
    spread = np.sqrt(RATE * (1 - RATE) / masks.size)
    assert abs(np.mean(masks == 0) - RATE) < 5 * spread
    for t in range(6):  # independent masks agree in p^2 + (1 - p)^2 = 0.52 of their entries
        assert np.mean((masks[:, t] == 0) == (masks[:, t + 1] == 0)) < 0.7
    columns = (masks == 0).reshape(-1, cell.mask_size)
    for k in range(1, cell.mask_size):
        assert np.mean(columns[:, 0] == columns[:, k]) < 0.7
    assert np.any(np.asarray(cell.masks(inputs)) != masks)

    for make_layer in (keras.layers.RNN, TransitionRNN):
        still = make_layer(cell)(inputs, initial_state=state)
        np.testing.assert_array_equal(still, make_layer(plain)(inputs, initial_state=state))


def check_dropout_reaches_candidates_alone(make_cell):
    """With z = 1 the dropped candidate shows; with z = 0 the state stays to the bit.

    Gates without any shift can not be forced, and are not looked at.
    """
    cell = built(make_cell, dropout_rate=RATE)
    if not all(isinstance(part, NematusGRUCell) or part.gates.weights
               for part in basic_cells(cell)):  # fmt: skip
        return
    inputs, state = sequences(steps=7, batch=100)
    for make_layer in (keras.layers.RNN, TransitionRNN):
        layer = make_layer(cell, return_sequences=True)
        force_update_gates(cell, 1e4)
        dropped = np.asarray(layer(inputs, initial_state=state, training=True)) == 0
        assert abs(np.mean(dropped) - RATE) < 0.05
        for t in range(6):
            assert np.mean(dropped[:, t] == dropped[:, t + 1]) < 0.7
        assert not np.any(np.asarray(layer(inputs, initial_state=state)) == 0)

        force_update_gates(cell, -1e4)
        kept = np.asarray(layer(inputs, initial_state=state, training=True))
        # Nematus's GRU adds the candidate to the state's distance from it
        rounds = any(isinstance(part, NematusGRUCell) for part in basic_cells(cell))
        expected = np.repeat(state[:, None], 7, axis=1)
        np.testing.assert_allclose(kept, expected, rtol=0, atol=ROUNDING if rounds else 0)


def check_dropout_is_the_same_inside_and_outside_the_loop(make_cell):
    """Masks drawn for the whole sequence act as the same masks given step by step."""
    cell = built(make_cell, dropout_rate=RATE)
    inputs, h = sequences()
    outputs = TransitionRNN(cell, return_sequences=True)(
        inputs, initial_state=h, training=True, seeds=SeedStream((1, 2))
    )
    masks = cell.masks(inputs, SeedStream((1, 2)))
    for t in range(STEPS):
        output, (h,), _ = cell.evaluate(cell.project(inputs[:, t]), masks[:, t], [h])
        assert relative_error(output, outputs[:, t]) <= ROUNDING
    other = TransitionRNN(cell)(inputs, training=True, seeds=SeedStream((1, 3)))
    assert relative_error(other, outputs[:, -1]) > 0.01


def check_a_gradient_step_lowers_a_loss(make_cell):
    """One small step of plain gradient descent helps, with dropout off in the loss."""
    cell = built(make_cell, dropout_rate=RATE)
    layer = TransitionRNN(cell)
    inputs, state = sequences()
    goal = np.random.default_rng(3).normal(size=(BATCH, UNITS))

    def loss():
        return tf.reduce_mean(tf.square(layer(inputs, initial_state=state) - goal))

    before = loss()
    with tf.GradientTape() as tape:
        value = loss()
    optimizer = keras.optimizers.SGD(0.05)
    weights = layer.trainable_weights
    gradients = tape.gradient(value, weights)
    assert all(gradient is not None for gradient in gradients)
    optimizer.apply(gradients, weights)
    assert loss() < before
