"""An affine map, with a kernel of its own or an embedding table's transpose."""

from __future__ import annotations

from typing import Any

import keras

from dtmt_tf.cells import product
from dtmt_tf.layers.embedding import TokenEmbedding


class Affine(keras.layers.Layer):
    """`x W + b`.

    Args:
        units: Width of the result, O.
        initializer: Initialiser of both weights.
        use_bias: Whether there is a `b`.
        tied_to: An embedding of O words whose table serves as `W^T`; a kernel of its own by
            default.

    Call arguments:
        inputs: Shape `[..., I]`.

    Returns:
        Shape `[..., O]`.
    """

    def __init__(
        self,
        units: int,
        *,
        initializer: Any,
        use_bias: bool = True,
        tied_to: TokenEmbedding | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.units = units
        self.initializer = initializer
        self.use_bias = use_bias
        self.tied_to = tied_to

    def build(self, inputs_shape: Any) -> None:
        """Creates the kernel `[I, O]`, unless tied, and the bias `[O]`, if any."""
        if self.tied_to is None:
            self.kernel = self.add_weight(
                name="kernel", shape=(inputs_shape[-1], self.units), initializer=self.initializer
            )
        elif self.tied_to.dim != inputs_shape[-1]:
            raise ValueError(
                f"A table of width {self.tied_to.dim} can not read inputs of {inputs_shape[-1]}."
            )
        self.bias: Any = 0.0
        if self.use_bias:
            self.bias = self.add_weight(
                name="bias", shape=(self.units,), initializer=self.initializer
            )

    def call(self, inputs: Any) -> Any:
        """Multiplies and adds."""
        if self.tied_to is None:
            return product(inputs, self.kernel) + self.bias
        return product(inputs, self.tied_to.table, transposed=True) + self.bias
