"""Bidirectional deep-transition encoder."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from dtmt_tf.cells import AbstractRNNCell
from dtmt_tf.layers.transition_rnn import TransitionRNN


class BidirectionalEncoder(keras.layers.Layer):
    """Annotates every source word with what precedes and what follows it.

    `h_j = [forward_j ; backward_j]` (Meng and Zhang, 2019, *DTMT*, Encoder). The backward direction
    reads each sentence from its own last word: padding comes first and leaves the zero state as it
    is. Annotations of padded positions are zero.

    Args:
        forward: Cell of the forward direction.
        backward: Cell of the backward direction, with weights of its own.

    Call arguments:
        embedded: Source embeddings, `[B, S, E]`.
        mask: Bool `[B, S]`, True where the token is real; real tokens come first.
        training: Whether dropout is active.
        seeds: A `keras.random.SeedGenerator` for the dropout masks.

    Returns:
        Annotations, `[B, S, 2H]`.
    """

    def __init__(self, forward: AbstractRNNCell, backward: AbstractRNNCell, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        options = {"return_sequences": True, "zero_output_for_mask": True}
        self.forward = TransitionRNN(forward, name="forward", **options)
        self.backward = TransitionRNN(backward, name="backward", go_backwards=True, **options)

    def build(self, embedded_shape: Any) -> None:
        """Builds both directions."""
        self.forward.build(embedded_shape)
        self.backward.build(embedded_shape)

    def call(self, embedded: Any, mask: Any, training: bool = False, seeds: Any = None) -> Any:
        """Runs both directions and puts their states side by side."""
        options = {"mask": mask, "training": training, "seeds": seeds}
        forward = self.forward(embedded, **options)
        backward = ops.flip(self.backward(embedded, **options), axis=1)
        return ops.concatenate([forward, backward], axis=-1)
