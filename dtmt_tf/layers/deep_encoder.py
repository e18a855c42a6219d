"""One stack of recurrent layers that read a sentence to and fro."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras

from dtmt_tf.cells import AbstractRNNCell
from dtmt_tf.layers.stack_connection import StackConnection
from dtmt_tf.layers.transition_rnn import EncoderRNN


class DeepEncoder(keras.layers.Layer):
    """Layers of alternating directions, the first left to right (Wang et al., 2017, Eq. (9)).

    A layer reads what the one below passes on; what the top layer passes on are the annotations.
    From the second layer on, a connection may pass on more than the state. Annotations of padded
    positions are zero.

    Args:
        cells: A cell for each layer, bottom first.
        connections: One for each layer but the first.

    Call arguments:
        embedded: Source embeddings, `[B, S, E]`.
        mask: Bool `[B, S]`, True where the token is real; real tokens come first.
        training: Whether dropout is active.
        seeds: A `keras.random.SeedGenerator` for the dropout masks.

    Returns:
        Annotations, `[B, S, H]`.
    """

    def __init__(
        self,
        cells: Sequence[AbstractRNNCell],
        connections: Sequence[StackConnection],
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.levels = [EncoderRNN(cell, go_backwards=k % 2 == 1) for k, cell in enumerate(cells)]
        self.connections = list(connections)

    @property
    def output_size(self) -> int:
        """Width of the annotations."""
        return self.levels[-1].transition.output_size

    def depths(self) -> dict[str, list[Any]]:
        """Weights of all layers by depth, see `AbstractRNNCell.depths`."""
        found = [depth for level in self.levels for depth in level.transition.depths().items()]
        return dict(found)

    def build(self, embedded_shape: Any) -> None:
        """Builds layers and connections."""
        above = (*embedded_shape[:-1], self.output_size)
        for k, level in enumerate(self.levels):
            level.build(above if k else embedded_shape)
        for connection in self.connections:
            connection.build(above)

    def call(self, embedded: Any, mask: Any, training: bool = False, seeds: Any = None) -> Any:
        """Runs the layers."""
        x = embedded
        for k, level in enumerate(self.levels):
            h = level(x, mask=mask, training=training, seeds=seeds)
            x = self.connections[k - 1](x, h) if k else h
        return x
