"""The layers of a Transformer, one alone and several in a row."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from dtmt_tf.cells.gates import LAYER_NORM_EPSILON
from dtmt_tf.layers.dot_attention import MultiHeadDotAttention
from dtmt_tf.layers.feed_forward import FeedForwardLayer
from dtmt_tf.layers.fusion import Fusion
from dtmt_tf.layers.residual_norm import ResidualNorm


class TransformerLayer(FeedForwardLayer):
    """Self-attention, attention to the sources in a decoder, feed-forward (Vaswani et al., 2017).

    Each is added to the state, see `ResidualNorm`.

    Args:
        dim: Width of the state, d.
        filter_dim: Width inside the feed-forward part, `relu(x W_1 + b_1) W_2 + b_2`.
        num_heads: Heads of each attention.
        reads_sources: Whether this is a decoder's layer.
        norm: Arguments of `ResidualNorm`: where the norms stand, and dropout.
        initializer: Initialiser of every weight but the norms'.
        relative_distance: Of self-attention, see `MultiHeadDotAttention`; by default there is none.
        fusion: What reads another encoder after the attention to the sources; nothing by default.

    Call arguments:
        x: `[B, T, d]`; with `past`, one token of each of K hypotheses, `[B, K, d]`.
        bias: Added to the scores of self-attention, `[.., T, T]`.
        memory: What `precompute` returned, and the bias of its scores.
        past: Keys and values of the tokens so far, `[B, K, N, t, d/N]` each. Every hypothesis
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
        norm: dict[str, Any],
        initializer: Any,
        relative_distance: int = 0,
        fusion: Fusion | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)

        def attention(name: str, distance: int = 0) -> MultiHeadDotAttention:
            return MultiHeadDotAttention(
                num_heads, dim, initializer=initializer, relative_distance=distance, name=name
            )

        self.self_attention = attention("self_attention", relative_distance)
        self.self_norm = ResidualNorm(name="self_norm", **norm)
        self.source_attention: Any = attention("source_attention") if reads_sources else None
        self.source_norm: Any = ResidualNorm(name="source_norm", **norm) if reads_sources else None
        self.fusion = fusion
        self.make_feed_forward(dim, filter_dim, initializer, norm)

    def build(self, x_shape: Any, memory_shape: Any = None) -> None:
        """Builds all parts; by default the sources' states are as wide as the layer's."""
        self.self_attention.build(x_shape)
        self.self_norm.build(x_shape)
        if self.source_attention is not None:
            self.source_attention.build(x_shape, memory_shape)
            self.source_norm.build(x_shape)
        if self.fusion is not None:
            self.fusion.build(x_shape)
        self.build_feed_forward(x_shape)

    def precompute(self, annotations: Any, recurrent: Any = None) -> list[Any]:
        """Returns keys and values of the annotations; with a fusion, its memory, too.

        Args:
            annotations: `[B, S, A]`.
            recurrent: What a fusion reads: states `[B, R, M]` and their mask `[B, R]`.
        """
        memory = self.source_attention.precompute(annotations)
        return memory if self.fusion is None else [*memory, self.fusion.precompute(*recurrent)]

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
        own = self.self_norm.before(x)
        if past is None:
            past = self.self_attention.precompute(own)
            result, _ = self.self_attention(own, past, bias)
        else:
            own = own[:, :, None]  # [B, K, 1, d]
            new = self.self_attention.precompute(own)
            past = [ops.concatenate(pair, axis=3) for pair in zip(past, new, strict=True)]
            result = self.self_attention(own, past)[0][:, :, 0]
        x = self.self_norm.after(x, result, training, seeds)
        weights = None
        if self.source_attention is not None:
            (keys, values, *recurrent), source_bias = memory
            own, query = x, self.source_norm.before(x)
            result, weights = self.source_attention(query, [keys, values], source_bias)
            x = self.source_norm.after(x, result, training, seeds)
            if self.fusion is not None:
                x = self.fusion(own, x, *recurrent, training=training, seeds=seeds)
        return self.feed_forward(x, training, seeds), weights, past


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
        if layers[-1].outer_norm.pre_norm:
            self.norm = keras.layers.LayerNormalization(epsilon=LAYER_NORM_EPSILON, name="norm")

    def build(self, x_shape: Any, memory_shape: Any = None) -> None:
        """Builds all layers, see `TransformerLayer`."""
        for layer in self.layers:
            layer.build(x_shape, memory_shape)
        if self.norm is not None:
            self.norm.build(x_shape)

    def precompute(self, annotations: Any, bias: Any, recurrent: Any = None) -> list[Any]:
        """Returns the memory of sentences: all that a decoder needs of them.

        Args:
            annotations: The encoder's last states, `[B, S, A]`.
            bias: `[B, S]`, takes padding out of the softmax.
            recurrent: States and mask of another encoder, for layers that have a fusion.

        Returns:
            What each layer attends to, then the bias.
        """
        return [*(layer.precompute(annotations, recurrent) for layer in self.layers), bias]

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
