"""Word embeddings with a bias and the positional signal."""

from __future__ import annotations

import math
from typing import Any

import keras
from keras import ops


def positional_signal(positions: Any, dim: int, dtype: Any = "float32") -> Any:
    """Sines and cosines of the position, scaled by 1/sqrt(dim).

    `dim^(-1/2) [sin(p f_0) .. sin(p f_{E/2-1}), cos(p f_0) .. cos(p f_{E/2-1})]` with
    `f_i = exp(-i ln(10000) / (E/2 - 1))`; sines in the first half, cosines in the second, an odd
    `dim` padded with one zero. (Meng and Zhang, 2019, *Positional Encoding*.)

    Args:
        positions: Integers of any shape `[...]`, the first token being 0.
        dim: Embedding size, E.
        dtype: Type of the result.

    Returns:
        Shape `[..., E]`.
    """
    half = dim // 2
    # in float32 whatever the result's type: bfloat16 can not tell positions above 256 apart
    rates = [math.exp(-k * math.log(10000.0) / max(half - 1, 1)) for k in range(half)]
    positions = ops.expand_dims(ops.cast(positions, "float32"), -1)
    angles = positions * ops.convert_to_tensor(rates, "float32")
    waves = [ops.sin(angles), ops.cos(angles)]
    if dim % 2:
        waves.append(ops.zeros_like(positions))
    return ops.cast(ops.concatenate(waves, axis=-1) * (dim**-0.5), dtype)


class TokenEmbedding(keras.layers.Layer):
    """Scale * (table row + positional signal) + bias vector, then dropout.

    Args:
        vocab_size: Rows of the table, V.
        dim: Embedding size, E.
        dropout_rate: Fraction of elements dropped in training, in [0, 1).
        word_dropout_rate: Fraction of tokens whose row is dropped in training, in [0, 1); signal
            and bias stay (Sennrich et al., 2016, *Edinburgh Neural Machine Translation Systems for
            WMT 16*).
        use_positional_signal: Whether positions are marked.
        use_bias: Whether the bias vector exists.
        scale: Factor of row and signal; with `sqrt(E)` the signal is as large as that of Vaswani et
            al. (2017), whose frequencies are `exp(-2 i ln(10000) / E)`.
        initializer: Initialiser of table and bias.
        tied_to: An embedding whose table this one uses; a table of its own by default.

    Call arguments:
        ids: Token ids, `[...]`.
        positions: Position of each token, broadcastable to `[...]`; `None`: no signal.
        training: Whether dropout is active.
        seeds: A `keras.random.SeedGenerator` for the dropout mask.

    Returns:
        Shape `[..., E]`.

    Raises:
        ValueError: If the table it is tied to has another shape.
    """

    def __init__(
        self,
        vocab_size: int,
        dim: int,
        *,
        dropout_rate: float = 0.0,
        word_dropout_rate: float = 0.0,
        use_positional_signal: bool = True,
        use_bias: bool = True,
        scale: float = 1.0,
        initializer: Any = "uniform",
        tied_to: TokenEmbedding | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.vocab_size: int = vocab_size
        self.dim: int = dim
        self.dropout_rate = dropout_rate
        self.word_dropout_rate = word_dropout_rate
        self.use_positional_signal = use_positional_signal
        self.use_bias = use_bias
        self.scale = scale
        self.initializer = initializer
        self.tied_to = tied_to
        if tied_to is not None and (tied_to.vocab_size, tied_to.dim) != (vocab_size, dim):
            raise ValueError(
                f"A table of shape {(vocab_size, dim)} can not be tied to one of shape "
                f"{(tied_to.vocab_size, tied_to.dim)}."
            )

    def build(self, *_: Any) -> None:
        """Creates the table `[V, E]`, unless tied, and the bias `[E]`, if any."""
        if self.tied_to is None:
            self.table = self.add_weight(
                name="table", shape=(self.vocab_size, self.dim), initializer=self.initializer
            )
        else:
            self.table = self.tied_to.table
        self.bias: Any = 0.0
        if self.use_bias:
            self.bias = self.add_weight(
                name="bias", shape=(self.dim,), initializer=self.initializer
            )

    def call(self, ids: Any, positions: Any, training: bool = False, seeds: Any = None) -> Any:
        """Looks up, adds, drops."""
        embedded = ops.take(self.table, ids, axis=0)
        if training and self.word_dropout_rate:
            ones = ops.ones_like(embedded[..., :1])
            embedded = embedded * keras.random.dropout(ones, self.word_dropout_rate, seed=seeds)
        if self.use_positional_signal and positions is not None:
            embedded = embedded + positional_signal(positions, self.dim, self.compute_dtype)
        if self.scale != 1.0:
            embedded = embedded * self.scale
        embedded = embedded + self.bias
        if training and self.dropout_rate:
            embedded = keras.random.dropout(embedded, self.dropout_rate, seed=seeds)
        return embedded
