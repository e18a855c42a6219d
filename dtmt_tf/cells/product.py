"""Matrix products with weights, in the number type that training or search asks for."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from keras import ops


class _Factors(NamedTuple):
    dtype: str
    rounded: dict[int, Any]  # kernels by identity


_factors: contextvars.ContextVar[_Factors | None] = contextvars.ContextVar("factors", default=None)


@contextlib.contextmanager
def products_in(dtype: str, kernels: Iterable[Any] = ()) -> Iterator[None]:
    """Within this block `product` rounds its factors to `dtype`.

    A matter of training and of search, not of the model.

    Args:
        dtype: "float32", or "bfloat16" where the processor multiplies it faster.
        kernels: Those that are rounded once, here, and not at each use, such as at each step of a
            loop. Their gradients would be added up in `dtype`: not for training.
    """
    factors = None
    if dtype != "float32":
        factors = _Factors(dtype, {id(kernel): ops.cast(kernel, dtype) for kernel in kernels})
    token = _factors.set(factors)
    try:
        yield
    finally:
        _factors.reset(token)


def product(inputs: Any, kernel: Any, transposed: bool = False) -> Any:
    """Returns `inputs @ kernel`, `[..., O]`, in the kernel's own type.

    Only the product and those of its gradient are in the type of `products_in`. The cast of the
    kernel belongs to the product, so gradients of the uses of one kernel, such as the steps of a
    recurrence, are added up in the kernel's type.

    Args:
        inputs: Shape `[..., I]`.
        kernel: Shape `[I, O]`.
        transposed: Whether the kernel is `[O, I]`.
    """
    factors = _factors.get()
    if factors is None:
        return ops.matmul(inputs, ops.transpose(kernel) if transposed else kernel)
    rounded = factors.rounded.get(id(kernel))
    if rounded is None:
        rounded = ops.cast(kernel, factors.dtype)
    if transposed:
        rounded = ops.transpose(rounded)
    return ops.cast(ops.matmul(ops.cast(inputs, factors.dtype), rounded), kernel.dtype)
