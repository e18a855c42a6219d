"""Matrix products with weights, in the number type that training or search asks for."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from keras import ops


class _Kernel(NamedTuple):
    rounded: Any  # [I, O]
    turned: Any  # its transpose; None where gradients are not prepared


class _Factors(NamedTuple):
    dtype: str
    kernels: dict[int, _Kernel]  # by identity


_factors: contextvars.ContextVar[_Factors | None] = contextvars.ContextVar("factors", default=None)


@contextlib.contextmanager
def products_in(dtype: str, kernels: Iterable[Any] = (), gradients: bool = False) -> Iterator[None]:
    """Within this block `product` rounds its factors to `dtype`.

    A matter of training and of search, not of the model.

    Args:
        dtype: "float32" to leave them as they are, or "bfloat16" where the processor multiplies it
            faster.
        kernels: Matrices that are rounded once, here, and not at each use, such as at each step of
            a loop. Without `gradients` theirs would be added up in `dtype`.
        gradients: Whether these are trained. Then they are turned here, too, so that gradients
            multiply by a transpose that lies ready in memory: up to 1.5 times as fast on a CPU.
    """

    def prepared(kernel: Any) -> _Kernel:
        rounded = kernel if dtype == "float32" else ops.cast(kernel, dtype)
        if not gradients:
            return _Kernel(rounded, None)
        rounded = ops.stop_gradient(rounded)  # `product` tells the kernel's gradient
        return _Kernel(rounded, ops.transpose(rounded))

    factors = None
    if dtype != "float32" or gradients:
        factors = _Factors(dtype, {id(kernel): prepared(kernel) for kernel in kernels})
    token = _factors.set(factors)
    try:
        yield
    finally:
        _factors.reset(token)


def product(inputs: Any, kernel: Any, transposed: bool = False) -> Any:
    """Returns `inputs @ kernel`, `[..., O]`, in the kernel's own type.

    Only the product and those of its gradient are in the type of `products_in`; gradients of the
    uses of one kernel, such as the steps of a recurrence, are added up in the kernel's type.

    Args:
        inputs: Shape `[..., I]`.
        kernel: Shape `[I, O]`.
        transposed: Whether the kernel is `[O, I]`.
    """
    factors = _factors.get()
    if factors is None:
        return ops.matmul(inputs, ops.transpose(kernel) if transposed else kernel)
    known = factors.kernels.get(id(kernel))
    if known and known.turned is not None:
        return _prepared_product(inputs, kernel, known, transposed)
    rounded = known.rounded if known else kernel
    if transposed:
        rounded = ops.transpose(rounded)
    if factors.dtype == "float32":
        return ops.matmul(inputs, rounded)
    factor = ops.cast(inputs, factors.dtype)
    return ops.cast(ops.matmul(factor, ops.cast(rounded, factors.dtype)), kernel.dtype)


def _prepared_product(inputs: Any, kernel: Any, known: _Kernel, transposed: bool) -> Any:
    """The product and its gradients by matrices that lie ready."""
    ahead, back = known if not transposed else reversed(known)

    @ops.custom_gradient
    def multiply(inputs: Any, kernel: Any) -> Any:
        factor = ops.cast(inputs, ahead.dtype)

        def gradient(*arguments: Any, upstream: Any = None) -> Any:
            (upstream,) = arguments or (upstream,)
            upstream = ops.cast(upstream, back.dtype)
            left, right = (ops.reshape(x, (-1, x.shape[-1])) for x in (factor, upstream))
            if transposed:
                left, right = right, left
            by_kernel = ops.matmul(ops.transpose(left), right)
            by_inputs = ops.matmul(upstream, back)
            return ops.cast(by_inputs, inputs.dtype), ops.cast(by_kernel, kernel.dtype)

        return ops.cast(ops.matmul(factor, ahead), kernel.dtype), gradient

    return multiply(inputs, ops.convert_to_tensor(kernel))
