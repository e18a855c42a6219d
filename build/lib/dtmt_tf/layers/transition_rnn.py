"""`keras.layers.RNN` with the state-free half of the cell taken out of the loop."""

from __future__ import annotations

from typing import Any

import keras

from dtmt_tf.cells import AbstractRNNCell


class PreparedCell(keras.layers.Layer):
    """The second half of a cell: runs `step` on inputs that are already prepared.

    Args:
        cell: The whole cell; this layer builds and tracks it.
    """

    def __init__(self, cell: AbstractRNNCell, **kwargs: Any) -> None:
        super().__init__(name="prepared", **kwargs)
        self.cell = cell
        self.state_size = cell.state_size
        self.output_size = cell.output_size

    def build(self, inputs_shape: Any) -> None:
        """Builds the cell for its raw inputs."""
        if not self.cell.built:
            self.cell.build(inputs_shape)
            self.cell.built = True

    def call(self, inputs: Any, states: Any) -> tuple[Any, list[Any]]:
        """One step: `(output, new_states)`."""
        return self.cell.step(inputs, states)

    def get_initial_state(self, batch_size: Any = None) -> list[Any]:
        """The cell's own initial state."""
        return self.cell.get_initial_state(batch_size)


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
        return super().call(prepared, initial_state=initial_state, mask=mask)
