"""An affine map, with a kernel of its own or an embedding table's transpose."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Any

import keras
from keras import ops

from dtmt_tf.cells import product, rounded_once
from dtmt_tf.layers.embedding import TokenEmbedding

# kernel and bias of some units alone, by the layer's identity
_few: contextvars.ContextVar[dict[int, tuple[Any, Any]] | None] = contextvars.ContextVar(
    "few", default=None
)


class Affine(keras.layers.Layer):
    """`x W + b`.

    Args:
        units: Width of the result, O.
        initializer: Initialiser of both weights.
        use_bias: Whether there is a `b`.
        tied_to: An embedding of O tokens whose table serves as `W^T`; a kernel of its own by
            default.

    Call arguments:
        inputs: Shape `[..., I]`.

    Returns:
        Shape `[..., O]`.

    Raises:
        ValueError: When it is built, if the table it is tied to has another width than the inputs.
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
        self.input_dim = inputs_shape[-1]
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

    @contextlib.contextmanager
    def among(self, units: Any = None) -> Iterator[None]:
        """Within this block results are those of some units alone, `[..., N]`.

        What the kernel needs is done once, here, and not at each use, such as at each step of a
        loop: a table's transpose takes a tenth of a search.

        Args:
            units: Their numbers, in the order of the results, `[N]`; all by default.
        """
        kernel = rounded_once(self.kernel if self.tied_to is None else self.tied_to.table)
        bias = self.bias
        if units is not None:
            kernel = ops.take(kernel, units, axis=1 if self.tied_to is None else 0)
            bias = ops.take(bias, units) if self.use_bias else bias
        if self.tied_to is not None:
            kernel = ops.transpose(kernel)
        token = _few.set({**(_few.get() or {}), id(self): (kernel, bias)})
        try:
            yield
        finally:
            _few.reset(token)

    def call(self, inputs: Any) -> Any:
        """Multiplies and adds."""
        if few := (_few.get() or {}).get(id(self)):
            kernel, bias = few
            return product(inputs, kernel) + bias
        if self.tied_to is None:
            return product(inputs, self.kernel) + self.bias
        return product(inputs, self.tied_to.table, transposed=True) + self.bias
