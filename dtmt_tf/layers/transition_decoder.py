"""Deep-transition decoder: query transition, attention, decoder transition."""

from __future__ import annotations

from typing import Any

from keras import ops

from dtmt_tf.cells import DeepTransitionCell, Step
from dtmt_tf.layers.abstract_decoder_cell import AbstractDecoderCell
from dtmt_tf.layers.attention import MultiHeadAdditiveAttention, attend


class TransitionDecoderCell(AbstractDecoderCell):
    """One target token: query transition, attention, decoder transition.

        q_t = query transition(y_{t-1}, s_{t-1})
        c_t = attention(q_t, annotations)
        s_t = decoder transition(c_t, q_t)

    (Meng and Zhang, 2019, *DTMT*, Decoder.)

    Args:
        query: The query transition, reading embeddings.
        attention: Attention over the memory.
        transition: The decoder transition, reading the context alone.

    Call arguments:
        inputs: Embedding of the previous token, `[B * K, E]`.
        states: `s`, shape `[B * K, H]`, then what `precompute` returned.
        training: Whether dropout is active.

    Returns:
        `([s_t ; c_t], states)`, the first `[B * K, H + C]`.
    """

    def __init__(
        self,
        query: DeepTransitionCell,
        attention: MultiHeadAdditiveAttention,
        transition: DeepTransitionCell,
        **kwargs: Any,
    ) -> None:
        super().__init__(query.units, **kwargs)
        self.query = query
        self.attention = attention
        self.transition = transition

    @property
    def attentions(self) -> list[MultiHeadAdditiveAttention]:
        """See the base class."""
        return [self.attention]

    @property
    def parts(self) -> tuple[DeepTransitionCell, DeepTransitionCell]:
        """Query and decoder transition."""
        return self.query, self.transition

    @property
    def output_size(self) -> int:
        """State and context side by side."""
        return self.units + self.attention.output_dim

    def build(self, inputs_shape: Any) -> None:
        """Builds the three modules."""
        self.query.build(inputs_shape)
        self.attention.build((None, None, self.units))
        self.transition.build((None, self.attention.output_dim))

    def precompute(self, annotations: Any, mask: Any) -> list[Any]:
        """See the base class: the attention's memory."""
        return self.attention.precompute(annotations, mask)

    @property
    def projection_size(self) -> int:
        """Features of the query transition's projection."""
        return self.query.projection_size

    def project(self, inputs: Any) -> Any:
        """The query transition's projection; the decoder transition reads no token."""
        return self.query.project(inputs)

    def evaluate(self, projected: Any, masks: Any, states: Any) -> Step:
        """One decode step; K hypotheses of a sentence share its memory."""
        s, *memory = states
        query_masks, transition_masks = self.divide(masks)
        q, _, queried = self.query.evaluate(projected, query_masks, [s])
        context, weights = attend(self.attention, q, memory)
        context_projected = self.transition.project(context)
        s, _, moved = self.transition.evaluate(context_projected, transition_masks, [q])
        inner = {**self.joined([queried, moved]), "attention": weights}
        return Step(ops.concatenate([s, context], axis=-1), [s, *memory], inner)

    def modules(self) -> dict[str, list[Any]]:
        """See the base class."""
        return {
            "query transition": [self.query],
            "attention": [self.attention],
            "decoder transition": [self.transition],
        }
