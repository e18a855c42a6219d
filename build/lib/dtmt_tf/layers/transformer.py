"""The layers of a Transformer, one alone and several in a row."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from dtmt_tf.layers.affine import Affine
from dtmt_tf.layers.dot_attention import MultiHeadDotAttention

LAYER_NORM_EPSILON = 1e-6


class TransformerLayer(keras.layers.Layer):
    """Self-attention, attention to the sources in a decoder, feed-forward (Vaswani et al., 2017).

    Each is a function f of the state that is added to it:

        post-norm: x = LN(x + dropout(f(x)))
        pre-norm:  x = x + dropout(f(LN(x)))

    Args:
        dim: Width of the state, d.
        filter_dim: Width inside the feed-forward part, `relu(x W_1 + b_1) W_2 + b_2`.
        num_heads: Heads of each attention.
        reads_sources: Whether this is a decoder's layer.
        pre_norm: Which of the two.
        dropout_rate: Fraction of each f's result dropped in training, in [0, 1).
        initializer: Initialiser of every weight but the norms'.

    Call arguments:
        x: `[B, T, d]`; with `past`, one word of each of K hypotheses, `[B, K, d]`.
        bias: Added to the scores of self-attention, `[.., T, T]`.
        memory: What `source_attention.precompute` returned, and the bias of its scores.
        past: Keys and values of the words so far, `[B, K, N, t, d/N]` each. Every hypothesis
            attends to its own, and all of a sentence share its memory.
        training: Whether dropout is active.
        seeds: A `keras.random.SeedGenerator` for the dropout masks.

    Returns:
        `(x, weights, past)`: the new state; the weights of the attention to the sources,
        `[B, N, T, S]`, if there is one; keys and values with those of this call.
    """

    def __init__(
        self,
        dim: int,
        filter_dim: int,
        num_heads: int,
        *,
        reads_sources: bool,
        pre_norm: bool,
        dropout_rate: float,
        initializer: Any,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.pre_norm = pre_norm
        self.dropout_rate = dropout_rate

        def attention(name: str) -> MultiHeadDotAttention:
            return MultiHeadDotAttention(num_heads, dim, initializer=initializer, name=name)

        def norm(name: str) -> keras.layers.Layer:
            return keras.layers.LayerNormalization(epsilon=LAYER_NORM_EPSILON, name=name)

        self.self_attention = attention("self_attention")
        self.self_norm = norm("self_norm")
        self.source_attention: Any = attention("source_attention") if reads_sources else None
        self.source_norm: Any = norm("source_norm") if reads_sources else None
        self.inner = Affine(filter_dim, initializer=initializer, name="inner")
        self.outer = Affine(dim, initializer=initializer, name="outer")
        self.outer_norm = norm("outer_norm")

    def build(self, x_shape: Any) -> None:
        """Builds all parts."""
        self.self_attention.build(x_shape)
        self.self_norm.build(x_shape)
        if self.source_attention is not None:
            self.source_attention.build(x_shape)
            self.source_norm.build(x_shape)
        self.inner.build(x_shape)
        self.outer.build((None, self.inner.units))
        self.outer_norm.build(x_shape)

    def call(
        self,
        x: Any,
        bias: Any = None,
        memory: Any = None,
        past: Any = None,
        training: bool = False,
        seeds: Any = None,
    ) -> tuple[Any, Any, Any]:
        """Runs the parts one after the other."""

        def read(x: Any, norm: Any) -> Any:
            return norm(x) if self.pre_norm else x

        def add(x: Any, result: Any, norm: Any) -> Any:
            if training and self.dropout_rate:
                result = keras.random.dropout(result, self.dropout_rate, seed=seeds)
            return x + result if self.pre_norm else norm(x + result)

        own = read(x, self.self_norm)
        if past is None:
            past = self.self_attention.precompute(own)
            result, _ = self.self_attention(own, past, bias)
        else:
            own = own[:, :, None]  # [B, K, 1, d]
            new = self.self_attention.precompute(own)
            past = [ops.concatenate(pair, axis=3) for pair in zip(past, new, strict=True)]
            result = self.self_attention(own, past)[0][:, :, 0]
        x = add(x, result, self.self_norm)
        weights = None
        if self.source_attention is not None:
            result, weights = self.source_attention(read(x, self.source_norm), *memory)
            x = add(x, result, self.source_norm)
        result = self.outer(ops.relu(self.inner(read(x, self.outer_norm))))
        return add(x, result, self.outer_norm), weights, past


class TransformerStack(keras.layers.Layer):
    """Several layers, and with pre-norm a last layer norm.

    Args:
        layers: The layers, first to last.

    Call arguments:
        x: See `TransformerLayer`.
        bias: See `TransformerLayer`.
        memory: What `precompute` returned; nothing in an encoder.
        past: A pair of keys and values for each layer, see `TransformerLayer`.
        training: Whether dropout is active.
        seeds: A `keras.random.SeedGenerator` for the dropout masks.

    Returns:
        `(x, weights, past)`, the last two as lists with one entry for each layer.
    """

    def __init__(self, layers: list[TransformerLayer], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.layers = layers
        self.norm = None
        if layers[-1].pre_norm:
            self.norm = keras.layers.LayerNormalization(epsilon=LAYER_NORM_EPSILON, name="norm")

    def build(self, x_shape: Any) -> None:
        """Builds all layers."""
        for layer in self.layers:
            layer.build(x_shape)
        if self.norm is not None:
            self.norm.build(x_shape)

    def precompute(self, annotations: Any, bias: Any) -> list[Any]:
        """Returns the memory of sentences: all that a decoder needs of them.

        Args:
            annotations: The encoder's last states, `[B, S, d]`.
            bias: `[B, S]`, takes padding out of the softmax.

        Returns:
            Keys and values of each layer, then the bias.
        """
        return [*(layer.source_attention.precompute(annotations) for layer in self.layers), bias]

    def call(
        self,
        x: Any,
        bias: Any = None,
        memory: Any = None,
        past: Any = None,
        training: bool = False,
        seeds: Any = None,
    ) -> tuple[Any, list[Any], list[Any]]:
        """Runs the layers one after the other."""
        all_weights, all_past = [], []
        for k, layer in enumerate(self.layers):
            x, weights, now = layer(
                x,
                bias,
                None if memory is None else (memory[k], memory[-1][:, None, None]),
                None if past is None else past[k],
                training=training,
                seeds=seeds,
            )
            all_weights.append(weights)
            all_past.append(now)
        return x if self.norm is None else self.norm(x), all_weights, all_past
