"""What the layers of a Transformer end with."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from dtmt_tf.layers.affine import Affine
from dtmt_tf.layers.residual_norm import ResidualNorm


class FeedForwardLayer(keras.layers.Layer):
    """Base of layers that end with `relu(x W_1 + b_1) W_2 + b_2`, added to the state.

    (Vaswani et al., 2017, Eq. (2).)
    """

    def make_feed_forward(
        self, dim: int, filter_dim: int, initializer: Any, norm: dict[str, Any]
    ) -> None:
        """Makes the parts, after all others.

        Args:
            dim: Width of the state.
            filter_dim: Width inside.
            initializer: Initialiser of every weight but the norm's.
            norm: Arguments of `ResidualNorm`.
        """
        self.inner = Affine(filter_dim, initializer=initializer, name="inner")
        self.outer = Affine(dim, initializer=initializer, name="outer")
        self.outer_norm = ResidualNorm(name="outer_norm", **norm)

    def build_feed_forward(self, x_shape: Any) -> None:
        """Builds the parts."""
        self.inner.build(x_shape)
        self.outer.build((None, self.inner.units))
        self.outer_norm.build(x_shape)

    def feed_forward(self, x: Any, training: bool, seeds: Any) -> Any:
        """Returns the new state from the old one, `[..., d]` both."""
        result = self.outer(ops.relu(self.inner(self.outer_norm.before(x))))
        return self.outer_norm.after(x, result, training, seeds)
