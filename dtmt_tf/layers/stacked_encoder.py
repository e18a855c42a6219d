"""Stacked encoders: alternating directions, and levels above their concatenation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from dtmt_tf.cells import AbstractRNNCell
from dtmt_tf.layers.transition_rnn import EncoderRNN


class StackedEncoder(keras.layers.Layer):
    """Two stacks of RNNs whose directions alternate, and RNNs over both.

        w_1 = RNN_1(x),   w_k = RNN_k(w_{k-1}) + w_{k-1}
        A = [w of the stack that ends left to right ; w of the other]
        A <- A + RNN(A)   for each level above

    (Miceli Barone et al., 2017, Section 2.3.1.) The first stack begins left to right, the second
    right to left; directions alternate from level to level. Annotations of padded positions are
    zero.

    Args:
        forward: Cells of the first stack, bottom to top.
        backward: Cells of the second, as many, with weights of their own.
        above: Cells of the levels above, as wide as both together, left to right.

    Call arguments:
        embedded: Source embeddings, `[B, S, E]`.
        mask: Bool `[B, S]`, True where the token is real; real tokens come first.
        training: Whether dropout is active.
        seeds: A `keras.random.SeedGenerator` for the dropout masks.

    Returns:
        Annotations, `[B, S, 2H]`.
    """

    def __init__(
        self,
        forward: Sequence[AbstractRNNCell],
        backward: Sequence[AbstractRNNCell],
        above: Sequence[AbstractRNNCell] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.forward = [EncoderRNN(cell, go_backwards=k % 2 == 1) for k, cell in enumerate(forward)]
        self.backward = [
            EncoderRNN(cell, go_backwards=k % 2 == 0) for k, cell in enumerate(backward)
        ]
        self.above = [EncoderRNN(cell) for cell in above]

    @property
    def levels(self) -> list[EncoderRNN]:
        """All RNNs."""
        return [*self.forward, *self.backward, *self.above]

    @property
    def output_size(self) -> int:
        """Width of the annotations."""
        return self.forward[-1].transition.output_size + self.backward[-1].transition.output_size

    def depths(self) -> dict[str, list[Any]]:
        """Weights of all levels by depth, see `AbstractRNNCell.depths`."""
        found = [depth for level in self.levels for depth in level.transition.depths().items()]
        return dict(found)

    def build(self, embedded_shape: Any) -> None:
        """Builds all levels."""
        for stack in (self.forward, self.backward):
            shape = embedded_shape
            for level in stack:
                level.build(shape)
                shape = (*shape[:-1], level.transition.output_size)
        for level in self.above:
            level.build((*embedded_shape[:-1], self.output_size))

    def call(self, embedded: Any, mask: Any, training: bool = False, seeds: Any = None) -> Any:
        """Runs both stacks, puts them side by side, runs the levels above."""
        options = {"mask": mask, "training": training, "seeds": seeds}
        tops = []
        for stack in (self.forward, self.backward):
            x = stack[0](embedded, **options)
            for level in stack[1:]:
                x = level(x, **options) + x
            tops.append(x)
        if self.forward[-1].go_backwards:  # in even depths; Nematus's order, not the paper's
            tops.reverse()
        annotations = ops.concatenate(tops, axis=-1)
        for level in self.above:
            annotations = level(annotations, **options) + annotations
        return annotations
