"""Stacked decoders with an attention in the base level, and perhaps in those above."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from dtmt_tf.cells import DeepTransitionCell, Step
from dtmt_tf.layers.abstract_decoder_cell import AbstractDecoderCell
from dtmt_tf.layers.additive_attention import AdditiveAttention
from dtmt_tf.layers.attention import attend


class DecoderLevel(keras.layers.Layer):
    """What one level of a stacked decoder consists of.

    Args:
        first: The GRU blocks that read from below.
        attention: Attends with their state; none if the level uses the base level's context, or
            none at all.
        second: The GRU blocks that read the context; none in a level that reads none.
    """

    def __init__(
        self,
        first: DeepTransitionCell,
        attention: AdditiveAttention | None = None,
        second: DeepTransitionCell | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.first = first
        self.attention = attention
        self.second = second

    @property
    def transitions(self) -> list[DeepTransitionCell]:
        """One or two."""
        return [self.first] if self.second is None else [self.first, self.second]

    def build(self, inputs_shape: Any, context_dim: int) -> None:
        """Builds the parts."""
        self.first.build(inputs_shape)
        if self.attention is not None:
            self.attention.build((None, None, self.first.units))
        if self.second is not None:
            self.second.build((None, context_dim))


class StackedDecoderCell(AbstractDecoderCell):
    """One decode step through all levels (Miceli Barone et al., 2017, Section 2.3.2).

    The base level is a conditional GRU; r_1 is its state s_1, c its context:

        s' = first(y_{t-1}, s_1),   c = attention(s'),   s_1 = second(c, s')

    A level above reads r_{k-1}, or [r_{k-1} ; c], with a state s_k of its own, and a residual
    connection passes it, r_k = s_k + r_{k-1}:

        GRU    s_k = first(r_{k-1}, s_k)
        rGRU   s_k = first([r_{k-1} ; c], s_k)
        cGRU   s' = first(r_{k-1}, s_k),   s_k = second(attention_k(s'), s')
        crGRU  s' = first(r_{k-1}, s_k),   s_k = second(c, s')

    Where the paper prints the previous state of another transition of the level (cGRU, crGRU), and
    of the base's first (`s_{j,1,1}`), it is read as above, as in Nematus.

    Args:
        levels: The levels, base first, all of the same units.
        context_dim: Width of the annotations, A.
        reads_context: Whether levels above read `[r ; c]`.

    Call arguments:
        inputs: Embedding of the previous token, `[B * K, E]`.
        states: A state of each level, `[B * K, H]`, then what `precompute` returned.
        training: Whether dropout is active.

    Returns:
        `([r ; c], states)`, r of the top level, the first `[B * K, H + A]`.
    """

    def __init__(
        self,
        levels: Sequence[DecoderLevel],
        context_dim: int,
        *,
        reads_context: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(levels[0].first.units, **kwargs)
        self.levels = list(levels)
        self.context_dim = context_dim
        self.reads_context = reads_context

    @property
    def parts(self) -> list[DeepTransitionCell]:
        """The transitions of all levels."""
        return [transition for level in self.levels for transition in level.transitions]

    @property
    def attentions(self) -> list[AdditiveAttention]:
        """See the base class."""
        return [level.attention for level in self.levels if level.attention is not None]

    @property
    def hidden_sizes(self) -> list[int]:
        """A state for each level."""
        return [self.units] * len(self.levels)

    @property
    def output_size(self) -> int:
        """State and context side by side."""
        return self.units + self.context_dim

    def build(self, inputs_shape: Any) -> None:
        """Builds all levels."""
        above = self.units + (self.context_dim if self.reads_context else 0)
        for k, level in enumerate(self.levels):
            level.build(inputs_shape if k == 0 else (None, above), self.context_dim)

    def precompute(self, annotations: Any, mask: Any) -> list[Any]:
        """See the base class: annotations and bias once, then each attention's keys."""
        memories = [attention.precompute(annotations, mask) for attention in self.attentions]
        _, _, bias = memories[0]
        return [annotations, bias, *(keys for _, keys, _ in memories)]

    @property
    def projection_size(self) -> int:
        """Features of the base level's projection."""
        return self.levels[0].first.projection_size

    def project(self, inputs: Any) -> Any:
        """The base level's projection; the others read no token."""
        return self.levels[0].first.project(inputs)

    def evaluate(self, projected: Any, masks: Any, states: Any) -> Step:
        """One decode step; K hypotheses of a sentence share its memory."""
        hidden, memory = states[: len(self.levels)], states[len(self.levels) :]
        annotations, bias, *all_keys = memory
        keys = iter(all_keys)
        own_masks = iter(self.divide(masks))
        after, inner = [], []
        attended: dict[str, Any] = {}

        def move(transition: DeepTransitionCell, projected: Any, state: Any) -> Any:
            state, _, found = transition.evaluate(projected, next(own_masks), [state])
            inner.append(found)
            return state

        r = base_context = None
        for level, state in zip(self.levels, hidden, strict=True):
            if r is not None:
                below = ops.concatenate([r, base_context], -1) if self.reads_context else r
                projected = level.first.project(below)
            state = move(level.first, projected, state)
            if level.second is not None:
                context = base_context
                if level.attention is not None:
                    own = [annotations, next(keys), bias]
                    context, weights = attend(level.attention, state, own)
                    attended[f"{level.name}/attention"] = weights
                state = move(level.second, level.second.project(context), state)
                base_context = context if base_context is None else base_context
            r = state if r is None else r + state
            after.append(state)
        values = {**self.joined(inner), **attended}
        return Step(ops.concatenate([r, base_context], axis=-1), [*after, *memory], values)

    def modules(self) -> dict[str, list[Any]]:
        """See the base class."""
        base, *above = self.levels
        higher = [transition for level in above for transition in level.transitions]
        return {
            "decoder base": list(base.transitions),
            "attention": self.attentions,
            **({"decoder above": higher} if higher else {}),
        }
