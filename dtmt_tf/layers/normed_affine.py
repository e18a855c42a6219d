"""An affine map and a layer norm behind it."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from dtmt_tf.cells.nematus_gru import NEMATUS_EPSILON
from dtmt_tf.layers.affine import Affine


class NormedAffine(keras.layers.Layer):
    """`act(LN(x W + b))` (Miceli Barone et al., 2017; layer norm as in Nematus).

    Args:
        units: Width of the result, O.
        use_tanh: Whether `act` is tanh; else there is none.
        use_layer_norm: Whether there is a norm.
        initializer: Initialiser of kernel and bias.

    Call arguments:
        inputs: Shape `[..., I]`.

    Returns:
        Shape `[..., O]`.
    """

    def __init__(
        self,
        units: int,
        *,
        use_tanh: bool,
        use_layer_norm: bool,
        initializer: Any,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.use_tanh = use_tanh
        self.affine = Affine(units, initializer=initializer, name="affine")
        self.norm = (
            keras.layers.LayerNormalization(epsilon=NEMATUS_EPSILON, name="norm")
            if use_layer_norm
            else None
        )

    def build(self, inputs_shape: Any) -> None:
        """Builds both."""
        self.affine.build(inputs_shape)
        if self.norm is not None:
            self.norm.build((None, self.affine.units))

    def call(self, inputs: Any) -> Any:
        """Maps, normalises, bends."""
        values = self.affine(inputs)
        if self.norm is not None:
            values = self.norm(values)
        return ops.tanh(values) if self.use_tanh else values
