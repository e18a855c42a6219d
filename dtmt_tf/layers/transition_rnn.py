"""`keras.layers.RNN` with the state-free half of the cell taken out of the loop."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops, tree

from dtmt_tf.cells import AbstractRNNCell
from dtmt_tf.cells.operations import cut
from dtmt_tf.layers.watching import is_watched, note

OPTIONS = (  # of `keras.layers.RNN`
    *("return_sequences", "return_state", "go_backwards", "stateful", "unroll"),
    "zero_output_for_mask",
)


class PreparedCell(keras.layers.Layer):
    """The second half of a cell: runs `step` on inputs that are already prepared.

    Args:
        cell: The whole cell; this layer builds and tracks it.
        shows_states: Whether the output is the states that change, side by side, in the place of
            the cell's own output.
    """

    def __init__(self, cell: AbstractRNNCell, shows_states: bool = False, **kwargs: Any) -> None:
        super().__init__(name="prepared", **kwargs)
        self.cell = cell
        self.shows_states = shows_states
        self.state_size = cell.state_size
        self.output_size = sum(cell.hidden_sizes) if shows_states else cell.output_size

    def build(self, inputs_shape: Any) -> None:
        """Builds the cell for its raw inputs."""
        if not self.cell.built:
            self.cell.build(inputs_shape)

    def call(self, inputs: Any, states: Any) -> tuple[Any, list[Any]]:
        """One step: `(output, new_states)`."""
        output, states = self.cell.step(inputs, states)
        if self.shows_states:
            output = ops.concatenate(states[: len(self.cell.hidden_sizes)], axis=-1)
        return output, states

    def get_initial_state(self, batch_size: Any = None) -> list[Any]:
        """The cell's own initial state."""
        return self.cell.get_initial_state(batch_size)


@keras.saving.register_keras_serializable("dtmt_tf")
class TransitionRNN(keras.layers.RNN):
    """Runs a cell over time; its input projections and dropout masks are made beforehand.

    Equal to `keras.layers.RNN(cell)` in values and gradients; the input projection of the whole
    sequence is one matrix product instead of one for each step.

    Args:
        cell: An `AbstractRNNCell`.
        **kwargs: As for `keras.layers.RNN`.

    Call arguments:
        sequences: Shape `[B, T, I]`.
        initial_state: The cell's states, `[B, H]` each; its own initial state by default.
        mask: Bool `[B, T]`; where it is False the state is copied. `None`: every step counts.
        training: Whether dropout is active.
        seeds: A `keras.random.SeedGenerator` for the dropout masks; the cell's own by default.

    Returns:
        As `keras.layers.RNN`: outputs, and the final states with `return_state`.
    """

    def __init__(self, cell: AbstractRNNCell, **kwargs: Any) -> None:
        super().__init__(PreparedCell(cell, dtype=cell.dtype_policy), **kwargs)
        self.transition = cell

    def call(
        self,
        sequences: Any,
        initial_state: Any = None,
        mask: Any = None,
        training: bool = False,
        seeds: Any = None,
    ) -> Any:
        """Prepares the sequence, then lets Keras run the loop."""
        prepared = self.transition.prepare(sequences, training, seeds)
        if is_watched(self):
            inner = self.inner_values(self.transition.project(sequences), initial_state, mask)
            note(self, inner, mask)
        return super().call(prepared, initial_state=initial_state, mask=mask)

    def inner_values(self, projected: Any, initial_state: Any, mask: Any) -> dict[str, Any]:
        """Returns what the cell tells of each step, `[B, T, ...]`, in the order of the inputs.

        One loop finds the states before each step; then all steps are one, as if the T steps were
        T hypotheses of the sentence.
        """
        cell = self.transition
        batch, length = ops.shape(projected)[:2]
        if initial_state is None:
            initial_state = cell.get_initial_state(batch)
        states = tree.flatten(initial_state)
        hidden, memory = states[: len(cell.hidden_sizes)], states[len(cell.hidden_sizes) :]
        first = ops.concatenate(hidden, axis=-1)[:, None]
        loop = keras.layers.RNN(
            PreparedCell(cell, shows_states=True, dtype=cell.dtype_policy),
            return_sequences=True,
            go_backwards=self.go_backwards,
        )
        after = loop(projected, initial_state=states, mask=mask)
        if self.go_backwards and mask is not None:  # the loop begins with padding, and tells zeros
            begun = ops.cumsum(ops.cast(ops.flip(mask, axis=1), "int32"), axis=1) > 0
            after = ops.where(begun[..., None], after, first)
        before = ops.concatenate([first, after[:, :-1]], axis=1)
        if self.go_backwards:
            before = ops.flip(before, axis=1)

        def rows(tensor: Any) -> Any:  # [B, T, F] -> [B * T, F]
            return ops.reshape(tensor, (-1, tensor.shape[-1]))

        now = [rows(state) for state in cut(before, cell.hidden_sizes)]
        inner = cell.evaluate(rows(projected), None, [*now, *memory]).inner
        return {
            name: ops.reshape(value, (batch, length, *ops.shape(value)[1:]))
            for name, value in inner.items()
        }

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal layer."""
        config = super(keras.layers.RNN, self).get_config()  # without the half of the cell
        config |= {name: getattr(self, name) for name in OPTIONS}
        return {**config, "cell": keras.saving.serialize_keras_object(self.transition)}


@keras.saving.register_keras_serializable("dtmt_tf")
class EncoderRNN(TransitionRNN):
    """Reads a sentence in either direction; its states are in the order of the tokens.

    From right to left it begins at each sentence's own last token: padding comes first and leaves
    the first state as it is. States of padded positions are zero.

    Args:
        cell: An `AbstractRNNCell`.
        go_backwards: Whether it reads from right to left.
        **kwargs: As for `keras.layers.RNN`; its name is the cell's by default.

    Call arguments:
        As of `TransitionRNN`.

    Returns:
        States, `[B, T, H]`.
    """

    def __init__(self, cell: AbstractRNNCell, *, go_backwards: bool = False, **kwargs: Any) -> None:
        options = {"name": cell.name, "return_sequences": True, "zero_output_for_mask": True}
        super().__init__(cell, go_backwards=go_backwards, **(options | kwargs))

    def call(
        self,
        sequences: Any,
        initial_state: Any = None,
        mask: Any = None,
        training: bool = False,
        seeds: Any = None,
    ) -> Any:
        """Runs the loop, and turns what was read from right to left."""
        states = super().call(sequences, initial_state, mask, training, seeds)
        return ops.flip(states, axis=1) if self.go_backwards else states
