"""Bidirectional deep-transition encoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from dtmt_tf.cells import AbstractRNNCell
from dtmt_tf.layers.transition_rnn import EncoderRNN


class BidirectionalEncoder(keras.layers.Layer):
    """Annotates every source token with what precedes and what follows it.

    `h_j = [forward_j ; backward_j]` (Meng and Zhang, 2019, *DTMT*, Encoder). Annotations
    of padded positions are zero.

    Args:
        forward: Cell of the forward direction.
        backward: Cell of the backward direction, with weights of its own.

    Call arguments:
        embedded: Source embeddings, `[B, S, E]`.
        mask: Bool `[B, S]`, True where the token is real; real tokens come first.
        training: Whether dropout is active.
        seeds: A `keras.random.SeedGenerator` for the dropout masks.
        first: The first state of each direction, `[B, H]`; the cells' own by default.

    Returns:
        Annotations, `[B, S, 2H]`.
    """

    def __init__(self, forward: AbstractRNNCell, backward: AbstractRNNCell, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.forward = EncoderRNN(forward, name="forward")
        self.backward = EncoderRNN(backward, name="backward", go_backwards=True)

    @property
    def chains(self) -> list[EncoderRNN]:
        """Both directions."""
        return [self.forward, self.backward]

    @property
    def output_size(self) -> int:
        """Width of the annotations."""
        return self.forward.transition.output_size + self.backward.transition.output_size

    def depths(self) -> dict[str, list[Any]]:
        """Weights of both directions by depth, see `AbstractRNNCell.depths`."""
        return {**self.forward.transition.depths(), **self.backward.transition.depths()}

    def build(self, embedded_shape: Any) -> None:
        """Builds both directions."""
        self.forward.build(embedded_shape)
        self.backward.build(embedded_shape)

    def call(
        self,
        embedded: Any,
        mask: Any,
        training: bool = False,
        seeds: Any = None,
        first: Sequence[Any] = (None, None),
    ) -> Any:
        """Runs both directions and puts their states side by side."""
        states = [
            chain(embedded, initial_state=state, mask=mask, training=training, seeds=seeds)
            for chain, state in zip(self.chains, first, strict=True)
        ]
        return ops.concatenate(states, axis=-1)
