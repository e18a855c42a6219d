"""Recurrences over a sentence: word by word, or by attention in a fixed number of steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from dtmt_tf.cells import AbstractRNNCell
from dtmt_tf.layers.attentive_cell import AttentiveCell
from dtmt_tf.layers.encoder import BidirectionalEncoder
from dtmt_tf.layers.transition_rnn import EncoderRNN, TransitionRNN


class WordRecurrence(keras.layers.Layer):
    """A bidirectional RNN with given first states (Hao et al., 2019, Eqs. (9)-(11)).

    Args:
        cells: The forward cell, then the backward one.

    Call arguments:
        x: `[B, S, I]`.
        mask: Bool `[B, S]`, True where the token is real; real tokens come first.
        first: The first state of each direction, `[B, H]`.
        training: Whether dropout is active.
        seeds: A `keras.random.SeedGenerator` for the dropout masks.

    Returns:
        `(states, mask)`: `[B, S, 2H]`, zero where padding is, and the mask that came in.
    """

    def __init__(self, cells: Sequence[AbstractRNNCell], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.directions = BidirectionalEncoder(*cells, name="directions")

    @property
    def chains(self) -> list[EncoderRNN]:
        """Both directions."""
        return self.directions.chains

    @property
    def output_size(self) -> int:
        """Width of the states."""
        return self.directions.output_size

    def build(self, x_shape: Any) -> None:
        """Builds both directions."""
        self.directions.build(x_shape)

    def call(
        self, x: Any, mask: Any, first: Sequence[Any], training: bool = False, seeds: Any = None
    ) -> tuple[Any, Any]:
        """Runs both directions."""
        return self.directions(x, mask, training=training, seeds=seeds, first=first), mask


class AttentiveRecurrence(keras.layers.Layer):
    """An attentive recurrent network, or two chains of it that run against each other.

    A chain of `AttentiveCell` makes T steps, whatever the sentence's length. The second chain goes
    from step T to step 1, so that row t of the result is `[h_t ; h'_{T-t+1}]`, each counted in the
    order of its own chain (Hao et al., 2019, Section 3.1, Eqs. (12) and (13)).

    Args:
        cells: One cell or two, which share their attention.
        steps: T; 0 for the length of what is read.

    Call arguments:
        x: `[B, S, I]`.
        mask: Bool `[B, S]`, True where `x` counts; such positions come first.
        first: The first state of each chain, `[B, H]`.
        training: Whether dropout is active.
        seeds: A `keras.random.SeedGenerator` for the dropout masks.

    Returns:
        `(states, mask)`: `[B, T, H]` or `[B, T, 2H]`, and a bool mask `[B, T]`, True everywhere if
        T is fixed.

    Raises:
        ValueError: If there is no cell, a third, or one with an attention of its own.
    """

    def __init__(self, cells: Sequence[AttentiveCell], steps: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        names = ("forward", "backward")[: len(cells)]
        if len(cells) not in (1, 2) or any(
            cell.attention is not cells[0].attention for cell in cells
        ):
            raise ValueError("`cells` should be one or two that share their attention.")
        self.chains = [
            TransitionRNN(cell, return_sequences=True, name=name)
            for name, cell in zip(names, cells, strict=True)
        ]
        self.steps = steps

    @property
    def output_size(self) -> int:
        """Width of the states."""
        return sum(chain.transition.output_size for chain in self.chains)

    def build(self, x_shape: Any) -> None:
        """Builds the chains, which read nothing."""
        for chain in self.chains:
            chain.build((*x_shape[:-1], 0))

    def call(
        self, x: Any, mask: Any, first: Sequence[Any], training: bool = False, seeds: Any = None
    ) -> tuple[Any, Any]:
        """Runs the chains."""
        memory = self.chains[0].transition.precompute(x, mask)
        if self.steps:
            mask = ops.ones((ops.shape(x)[0], self.steps), dtype="bool")
        nothing = ops.zeros((*ops.shape(mask), 0), dtype=self.compute_dtype)
        forward, *backward = (
            chain(nothing, initial_state=[h, *memory], training=training, seeds=seeds)
            for chain, h in zip(self.chains, first, strict=True)
        )
        turned = [_reverse(states, mask) for states in backward]
        return ops.concatenate([forward, *turned], axis=-1), mask


def _reverse(states: Any, mask: Any) -> Any:
    """Reverses the order of the first states `[B, T, H]`, as many as the mask has."""
    lengths = ops.sum(ops.cast(mask, "int32"), axis=1, keepdims=True)
    mirrored = ops.maximum(lengths - 1 - ops.arange(ops.shape(mask)[1], dtype="int32"), 0)
    return ops.take_along_axis(states, mirrored[..., None], axis=1)
