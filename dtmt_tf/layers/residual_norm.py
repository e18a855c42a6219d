"""The layer norm that surrounds each part of a Transformer's layers."""

from __future__ import annotations

from typing import Any

import keras

from dtmt_tf.cells.gates import LAYER_NORM_EPSILON


class ResidualNorm(keras.layers.LayerNormalization):
    """A layer norm that knows where it stands; each part is a function f added to the state.

        post-norm: x = LN(x + dropout(f(x)))
        pre-norm:  x = x + dropout(f(LN(x)))

    The first is that of Vaswani et al. (2017), Section 3.1, the second that of Xiong et al. (2020),
    "On Layer Normalization in the Transformer Architecture".

    Args:
        pre_norm: Which of the two.
        dropout_rate: Fraction of f's result dropped in training, in [0, 1).
    """

    def __init__(self, *, pre_norm: bool, dropout_rate: float, **kwargs: Any) -> None:
        super().__init__(epsilon=LAYER_NORM_EPSILON, **kwargs)
        self.pre_norm = pre_norm
        self.dropout_rate = dropout_rate

    def before(self, x: Any) -> Any:
        """Returns what f reads, `[..., d]` like the state x."""
        return self(x) if self.pre_norm else x

    def after(self, x: Any, result: Any, training: bool = False, seeds: Any = None) -> Any:
        """Returns the new state, `[..., d]`.

        Args:
            x: The old state, `[..., d]`, or 0.0 for none.
            result: What f made of it, `[..., d]`.
            training: Whether dropout is active.
            seeds: A `keras.random.SeedGenerator` for the dropout mask.
        """
        if training and self.dropout_rate:
            result = keras.random.dropout(result, self.dropout_rate, seed=seeds)
        return x + result if self.pre_norm else self(x + result)
