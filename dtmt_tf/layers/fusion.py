"""How a Transformer's decoder reads a second encoder. A new way is a class in `FUSIONS`."""

from __future__ import annotations

import abc
from typing import Any

import keras
from keras import ops

from dtmt_tf.layers.affine import Affine
from dtmt_tf.layers.attention import MASKED_SCORE
from dtmt_tf.layers.dot_attention import MultiHeadDotAttention
from dtmt_tf.layers.residual_norm import ResidualNorm
from dtmt_tf.layers.watching import note

KEPT = 5.0  # offset of a gate that begins by keeping 99 % of what was there


class Fusion(keras.layers.Layer, abc.ABC):
    """The part of a decoder layer that attends to the states H_r of a recurrence encoder.

    It stands between the attention to the Transformer's own encoder and the feed-forward part (Hao
    et al., 2019, "Modeling Recurrence for Transformer", Section 3.2).

    Args:
        dim: Width of the decoder's state, E.
        memory_dim: Width of H_r, M.
        num_heads: Heads of the attention.
        norm: Arguments of `ResidualNorm`.
        initializer: Initialiser of every weight but the norm's.
        from_zero: Whether the attention's last map starts at zero, and a gated sum at 99.3 % of D.
            Beside trained layers its first results are noise, which training silences: H_r then
            becomes a constant. With norms after the sub-layers a new norm still changes D.

    Call arguments:
        c: The state after self-attention, C, `[B, T, E]`.
        d: The state after attention to the Transformer's encoder, D, `[B, T, E]`.
        memory: What `precompute` returned.
        training: Whether dropout is active.
        seeds: A `keras.random.SeedGenerator` for the dropout masks.

    Returns:
        What the feed-forward part reads, `[B, T, E]`.
    """

    def __init__(
        self,
        dim: int,
        memory_dim: int,
        num_heads: int,
        *,
        norm: dict[str, Any],
        initializer: Any,
        from_zero: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.dim = dim
        self.from_zero = from_zero
        self.memory_dim = memory_dim
        self.initializer = initializer
        self.attention = MultiHeadDotAttention(
            num_heads, dim, initializer=initializer, name="attention"
        )
        self.norm = ResidualNorm(name="norm", **norm)

    def build(self, x_shape: Any) -> None:
        """Builds attention and norm."""
        self.attention.build(x_shape, (None, None, self.memory_dim))
        self.norm.build(x_shape)
        if self.from_zero:
            kernel = self.attention.output_map.kernel
            kernel.assign(ops.zeros_like(kernel))

    def precompute(self, states: Any, mask: Any) -> list[Any]:
        """Returns the memory of sentences.

        Args:
            states: H_r, `[B, R, M]`.
            mask: Bool `[B, R]`, False where a state counts for nothing.
        """
        bias = ops.where(mask, 0.0, MASKED_SCORE)
        return [*self.attention.precompute(states), bias]

    def read(self, x: Any, memory: list[Any], training: bool, seeds: Any) -> Any:
        """Returns `LN(attention(x, H_r) + x)`, R of the paper, for x `[B, T, d]`; see `call`."""
        *keys_values, bias = memory
        result, _ = self.attention(self.norm.before(x), keys_values, bias[:, None, None])
        return self.norm.after(x, result, training, seeds)

    @abc.abstractmethod
    def call(
        self, c: Any, d: Any, memory: list[Any], training: bool = False, seeds: Any = None
    ) -> Any:
        """Reads H_r, joins the results."""


class StackFusion(Fusion):
    """One attention above the other: `R = LN(attention(D, H_r) + D)`, Eq. (18)."""

    def call(
        self, c: Any, d: Any, memory: list[Any], training: bool = False, seeds: Any = None
    ) -> Any:
        """Returns R."""
        return self.read(d, memory, training, seeds)


class GatedSumFusion(Fusion):
    """Both attentions side by side, Eqs. (14), (15) and (17).

        R = LN(attention(C, H_r) + C),   λ = sigmoid(W [D ; R] + b),   λ * D + (1 - λ) * R

    The paper prints neither W nor b nor the width of λ; here it is a vector of E gates. TensorBoard
    calls it `l`.
    """

    def build(self, x_shape: Any) -> None:
        """Builds the gate, too."""
        super().build(x_shape)
        self.gate = Affine(self.dim, initializer=self.initializer, name="gate")
        self.gate.build((None, 2 * self.dim))
        if self.from_zero:
            self.gate.kernel.assign(ops.zeros_like(self.gate.kernel))
            self.gate.bias.assign(ops.full_like(self.gate.bias, KEPT))

    def call(
        self, c: Any, d: Any, memory: list[Any], training: bool = False, seeds: Any = None
    ) -> Any:
        """Returns the sum."""
        r = self.read(c, memory, training, seeds)
        gate = ops.sigmoid(self.gate(ops.concatenate([d, r], axis=-1)))
        note(self, {"l": gate})
        return gate * d + (1 - gate) * r


FUSIONS: dict[str, type[Fusion]] = {"gated_sum": GatedSumFusion, "stack": StackFusion}
