"""What every decoder cell shares: states that follow hypotheses, a memory that does not."""

from __future__ import annotations

import abc
from typing import Any

from dtmt_tf.cells import AbstractRNNCell


class AbstractDecoderCell(AbstractRNNCell):
    """A cell that attends to the annotations of a sentence.

    `keras.layers.RNN` has no argument for what stays the same over the steps, so the memory of the
    sentence travels in the state, unchanged: gradients reach it, no tensor hides on the cell, and
    TensorFlow sees that it is loop-invariant. The RNN must get no mask, which would select every
    state again at each step; outputs past a sentence's end are left out of the loss instead.

    States of `hidden_sizes` have B * K rows, K hypotheses (one in training) of each of B sentences;
    memory has B rows.
    """

    @property
    @abc.abstractmethod
    def attentions(self) -> list[Any]:
        """The layers that attend, each with `key_kernel` `[A, H]`."""

    @abc.abstractmethod
    def precompute(self, annotations: Any, mask: Any) -> list[Any]:
        """Returns the memory: all that the cell needs of the sources.

        Args:
            annotations: `[B, S, A]`, zero where padding is.
            mask: Bool `[B, S]`.
        """

    @abc.abstractmethod
    def modules(self) -> dict[str, list[Any]]:
        """Layers by the module they belong to, for parameter counts."""
