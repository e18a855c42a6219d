"""The second encoder of a Transformer: layers of a recurrence and a feed-forward part."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from dtmt_tf.layers.feed_forward import FeedForwardLayer
from dtmt_tf.layers.masked_mean import masked_mean
from dtmt_tf.layers.recurrences import AttentiveRecurrence, WordRecurrence
from dtmt_tf.layers.residual_norm import ResidualNorm


class RecurrenceLayer(FeedForwardLayer):
    """One layer (Hao et al., 2019, "Modeling Recurrence for Transformer", Eqs. (7) and (8)).

        C = LN(recurrence(H) + H),   H' = LN(feed_forward(C) + C)

    The first layer does not add its input, which may have another length or width. Every recurrence
    starts from the mean of H; where H is as wide as the states of both directions together, each
    direction starts from its own part.

    Args:
        recurrence: The recurrence; its width O is the layer's.
        filter_dim: Width inside the feed-forward part.
        is_first: Whether this is the first layer.
        dropout_rate: Fraction of each part's result dropped in training, in [0, 1).
        initializer: Initialiser of the feed-forward part.

    Call arguments:
        x: H, `[B, S, I]`; I = O but for the first layer.
        mask: Bool `[B, S]`, True where `x` counts.
        training: Whether dropout is active.
        seeds: A `keras.random.SeedGenerator` for the dropout masks.

    Returns:
        `(H', mask)`: `[B, R, O]` and bool `[B, R]`.
    """

    def __init__(
        self,
        recurrence: WordRecurrence | AttentiveRecurrence,
        filter_dim: int,
        *,
        is_first: bool,
        dropout_rate: float,
        initializer: Any,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        norm: dict[str, Any] = {"pre_norm": False, "dropout_rate": dropout_rate}
        self.recurrence = recurrence
        self.is_first = is_first
        self.recurrence_norm = ResidualNorm(name="recurrence_norm", **norm)
        self.make_feed_forward(recurrence.output_size, filter_dim, initializer, norm)

    def build(self, x_shape: Any) -> None:
        """Builds all parts."""
        self.recurrence.build(x_shape)
        states_shape = (None, None, self.recurrence.output_size)
        self.recurrence_norm.build(states_shape)
        self.build_feed_forward(states_shape)

    def call(self, x: Any, mask: Any, training: bool = False, seeds: Any = None) -> tuple[Any, Any]:
        """Runs the parts one after the other."""
        mean = masked_mean(x, mask)
        directions = len(self.recurrence.chains)
        first = [mean] * directions if self.is_first else ops.split(mean, directions, axis=-1)
        states, mask = self.recurrence(x, mask, first, training=training, seeds=seeds)
        carried = 0.0 if self.is_first else x
        c = self.recurrence_norm.after(carried, states, training, seeds)
        return self.feed_forward(c, training, seeds), mask


class RecurrenceEncoder(keras.layers.Layer):
    """Several layers, one after the other.

    Args:
        layers: The layers, first to last.

    Call arguments:
        x: Source embeddings without a positional signal, `[B, S, d]`.
        mask: Bool `[B, S]`, True where the token is real; real tokens come first.
        training: Whether dropout is active.
        seeds: A `keras.random.SeedGenerator` for the dropout masks.

    Returns:
        `(H_r, mask)`: the last layer's states `[B, R, O]`, and bool `[B, R]`.
    """

    def __init__(self, layers: list[RecurrenceLayer], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.layers = layers

    @property
    def output_size(self) -> int:
        """Width of the states."""
        return self.layers[-1].recurrence.output_size

    def build(self, x_shape: Any) -> None:
        """Builds all layers."""
        for layer in self.layers:
            layer.build(x_shape)
            x_shape = (*x_shape[:-1], self.output_size)

    def call(self, x: Any, mask: Any, training: bool = False, seeds: Any = None) -> tuple[Any, Any]:
        """Runs the layers."""
        for layer in self.layers:
            x, mask = layer(x, mask, training=training, seeds=seeds)
        return x, mask
