"""Deep-transition decoder: query transition, attention, decoder transition."""

from __future__ import annotations

from typing import Any

from keras import ops

from dtmt_tf.cells import AbstractRNNCell, DeepTransitionCell
from dtmt_tf.layers.attention import MultiHeadAdditiveAttention


class DecoderCell(AbstractRNNCell):
    """One target word: query transition, attention, decoder transition.

        q_t = query transition(y_{t-1}, s_{t-1})
        c_t = attention(q_t, annotations)
        s_t = decoder transition(c_t, q_t)

    (Meng and Zhang, 2019, *DTMT*, Decoder.) `keras.layers.RNN` has no argument for what stays the
    same over the steps, so the attention's memory travels in the state, unchanged: gradients reach
    it, no tensor hides on the cell, and TensorFlow sees that it is loop-invariant. The RNN must
    get no mask, which would select every state again at each step; outputs past a sentence's end
    are left out of the loss instead.

    Args:
        query: The query transition, reading embeddings.
        attention: Attention over the memory.
        transition: The decoder transition, reading the context alone.
        annotations_dim: Width of the annotations, 2H.

    Call arguments:
        inputs: Embedding of the previous word, `[B * K, E]`.
        states: `s`, shape `[B * K, H]` (K = 1 in training), then the three tensors of
            `MultiHeadAdditiveAttention.precompute`.
        training: Whether dropout is active.

    Returns:
        `([s_t ; c_t], states)`, the first `[B * K, H + C]`.
    """

    def __init__(
        self,
        query: DeepTransitionCell,
        attention: MultiHeadAdditiveAttention,
        transition: DeepTransitionCell,
        annotations_dim: int,
        **kwargs: Any,
    ) -> None:
        super().__init__(query.units, **kwargs)
        self.query = query
        self.attention = attention
        self.transition = transition
        self.annotations_dim = annotations_dim

    @property
    def state_size(self) -> Any:
        """Sizes of the state and of the memory's tensors (per source position)."""
        return [self.units, self.annotations_dim, self.attention.units, 1]

    @property
    def output_size(self) -> int:
        """State and context side by side."""
        return self.units + self.attention.output_dim

    def build(self, inputs_shape: Any) -> None:
        """Builds the three parts."""
        self.query.build(inputs_shape)
        self.attention.build((None, None, self.units), self.annotations_dim)
        self.transition.build((None, self.attention.output_dim))
        for part in (self.query, self.attention, self.transition):
            part.built = True

    @property
    def projection_size(self) -> int:
        """Features of the query transition's projection."""
        return self.query.projection_size

    def project(self, inputs: Any) -> Any:
        """The query transition's projection; the decoder transition reads no word."""
        return self.query.project(inputs)

    @property
    def mask_size(self) -> int:
        """Masks of both transitions."""
        return self.query.mask_size + self.transition.mask_size

    def masks(self, inputs: Any, seeds: Any = None) -> Any:
        """The query transition's masks, then the decoder transition's."""
        return self.masks_of((self.query, self.transition), inputs, seeds)

    def update(self, projected: Any, masks: Any, states: Any) -> tuple[Any, list[Any]]:
        """One decoder step; K hypotheses of a sentence share its memory, B * K rows in all."""
        s, *memory = states
        query_masks, transition_masks = self.divide(masks, (self.query, self.transition))
        q, _ = self.query.update(projected, query_masks, [s])
        sentences = ops.shape(memory[0])[0]
        context, _ = self.attention(ops.reshape(q, (sentences, -1, self.units)), memory)
        context = ops.reshape(context, (-1, self.attention.output_dim))
        s, _ = self.transition.update(self.transition.project(context), transition_masks, [q])
        return ops.concatenate([s, context], axis=-1), [s, *memory]
