"""A decoder of stacked recurrent layers that attends before its first layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keras import ops

from dtmt_tf.cells import AbstractRNNCell, Step
from dtmt_tf.layers.abstract_decoder_cell import AbstractDecoderCell
from dtmt_tf.layers.additive_attention import AdditiveAttention
from dtmt_tf.layers.attention import attend
from dtmt_tf.layers.stack_connection import StackConnection


class DeepDecoderCell(AbstractDecoderCell):
    """One decode step (Wang et al., 2017, "DeepLAU", Eqs. (10) and (11) and *Decoder*).

        c_t = attention([s_1 ; y_{t-1}])         with the first layer's previous state
        s_1 = cell_1([c_t ; y_{t-1}], s_1),      s_k = cell_k(what layer k - 1 passes on, s_k)

    Query and token enter the attention's scores through one matrix each, which are one kernel here.

    Args:
        cells: A cell for each layer, bottom first, all of the same units.
        attention: The attention.
        connections: One for each layer but the first.
        embedding_dim: Width of y, E.

    Call arguments:
        inputs: Embedding of the previous token, `[B * K, E]`.
        states: A state of each layer, `[B * K, H]`, then what `precompute` returned.
        training: Whether dropout is active.

    Returns:
        `(s, states)`: what the top layer passes on, `[B * K, H]`.
    """

    def __init__(
        self,
        cells: Sequence[AbstractRNNCell],
        attention: AdditiveAttention,
        connections: Sequence[StackConnection],
        embedding_dim: int,
        **kwargs: Any,
    ) -> None:
        super().__init__(cells[0].units, **kwargs)
        self.attention = attention
        self.cells = list(cells)
        self.connections = list(connections)
        self.embedding_dim = embedding_dim

    @property
    def attentions(self) -> list[AdditiveAttention]:
        """See the base class."""
        return [self.attention]

    @property
    def hidden_sizes(self) -> list[int]:
        """A state of each layer."""
        return [cell.units for cell in self.cells]

    @property
    def parts(self) -> list[AbstractRNNCell]:
        """The cells of all layers."""
        return self.cells

    def build(self, inputs_shape: Any) -> None:
        """Builds all parts."""
        self.attention.build((None, None, self.units + self.embedding_dim))
        for k, cell in enumerate(self.cells):
            width = self.units if k else self.attention.units + self.embedding_dim
            cell.build((None, width))
        for connection in self.connections:
            connection.build((None, self.units))

    def precompute(self, annotations: Any, mask: Any) -> list[Any]:
        """See the base class: the attention's memory."""
        return self.attention.precompute(annotations, mask)

    @property
    def projection_size(self) -> int:
        """All layers read what depends on the state: nothing is projected beforehand."""
        return self.embedding_dim

    def project(self, inputs: Any) -> Any:
        """The embedding as it is."""
        return inputs

    def evaluate(self, projected: Any, masks: Any, states: Any) -> Step:
        """One decode step; K hypotheses of a sentence share its memory."""
        y, memory = projected, states[len(self.cells) :]
        query = ops.concatenate([states[0], y], axis=-1)
        context, weights = attend(self.attention, query, memory)
        x, after, inner = ops.concatenate([context, y], axis=-1), [], []
        for k, (cell, mask) in enumerate(zip(self.cells, self.divide(masks), strict=True)):
            h, _, found = cell.evaluate(cell.project(x), mask, [states[k]])
            x = self.connections[k - 1](x, h) if k else h
            after.append(h)
            inner.append(found)
        values = {**self.joined(inner), "attention": weights}
        return Step(x, [*after, *memory], values)

    def modules(self) -> dict[str, list[Any]]:
        """See the base class."""
        return {"attention": [self.attention], "decoder": [*self.cells, *self.connections]}
