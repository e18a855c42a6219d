"""Matrix products with weights, in the number type that the training step asks for."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Any

from keras import ops

_factor_type: contextvars.ContextVar[str | None] = contextvars.ContextVar("factor_type")


@contextlib.contextmanager
def products_in(dtype: str) -> Iterator[None]:
    """Within this block `product` rounds its factors to `dtype`.

    A matter of the training step, not of the model: a model decodes and exports in float32
    whatever it was trained in.

    Args:
        dtype: "float32", or "bfloat16" where the processor multiplies it faster.
    """
    token = _factor_type.set(None if dtype == "float32" else dtype)
    try:
        yield
    finally:
        _factor_type.reset(token)


def product(inputs: Any, kernel: Any) -> Any:
    """Returns `inputs @ kernel`, `[..., O]`, in the kernel's own type.

    Only the product and those of its gradient are in the type of `products_in`. The cast of the
    kernel belongs to the product, so gradients of the uses of one kernel, such as the steps of a
    recurrence, are added up in the kernel's type.

    Args:
        inputs: Shape `[..., I]`.
        kernel: Shape `[I, O]`.
    """
    dtype = _factor_type.get(None)
    if dtype is None:
        return ops.matmul(inputs, kernel)
    result = ops.matmul(ops.cast(inputs, dtype), ops.cast(kernel, dtype))
    return ops.cast(result, kernel.dtype)
