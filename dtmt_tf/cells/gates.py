"""Sigmoid gates, each with a layer norm of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

LAYER_NORM_EPSILON = 1e-6


class Gates(keras.layers.Layer):
    """Several gates of one cell: `sigmoid(LN(v))`, one gain and offset for each gate.

    The norm is over the sum of input and state projection, separately for every gate ("per-gate
    layer normalization", Meng and Zhang (2019), *Advanced Techniques*), with biased variance and
    epsilon inside the root. Without the norm each gate has a plain bias in the offset's place, or,
    without biases, a constant.

    Args:
        units: Size of one gate, H.
        count: Number of gates, G.
        use_layer_norm: Whether to normalise.
        use_bias: Whether gates without norm have a bias.
        initializer: Initialiser of the plain biases.
        first_offsets: What each gate's offset starts from; or what is added to the first value of
            its bias; or its constant.

    Call arguments:
        values: Summed projections of all gates side by side, `[B, G * H]`.

    Returns:
        A list of G gates, each `[B, H]`, in (0, 1).
    """

    def __init__(
        self,
        units: int,
        count: int,
        *,
        use_layer_norm: bool,
        use_bias: bool,
        initializer: Any,
        first_offsets: Sequence[float],
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.units = units
        self.count = count
        self.use_layer_norm = use_layer_norm
        self.use_bias = use_bias
        self.initializer = keras.initializers.get(initializer)
        self.first_offsets = list(first_offsets)

    def build(self, values_shape: Any = None) -> None:
        """Creates gain and offset, or the biases, `[G, H]`, if any."""
        shape = (self.count, self.units)
        plain = keras.initializers.Zeros() if self.use_layer_norm else self.initializer

        def initializer(shape: Any, dtype: Any) -> Any:
            return plain(shape, dtype) + ops.cast(self.first_offsets, dtype)[:, None]

        if self.use_layer_norm:
            self.gain = self.add_weight(name="gain", shape=shape, initializer="ones")
            self.offset = self.add_weight(name="offset", shape=shape, initializer=initializer)
        elif self.use_bias:
            self.bias = self.add_weight(name="bias", shape=shape, initializer=initializer)

    def call(self, values: Any) -> list[Any]:
        """Applies norm and sigmoid to all gates at once."""
        values = ops.reshape(values, (-1, self.count, self.units))
        if self.use_layer_norm:
            centred = values - ops.mean(values, axis=-1, keepdims=True)
            variance = ops.mean(ops.square(centred), axis=-1, keepdims=True)
            values = centred * ops.rsqrt(variance + LAYER_NORM_EPSILON) * self.gain + self.offset
        elif self.use_bias:
            values = values + self.bias
        elif any(self.first_offsets):
            values = values + ops.cast(self.first_offsets, values.dtype)[:, None]
        return ops.unstack(ops.sigmoid(values), self.count, axis=1)
