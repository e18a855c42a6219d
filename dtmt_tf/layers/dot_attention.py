"""Multi-head scaled dot-product attention."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from dtmt_tf.layers.affine import Affine


class MultiHeadDotAttention(keras.layers.Layer):
    """Scaled dot-product attention with several heads (Vaswani et al., 2017, Section 3.2).

        head_k = softmax(Q_k K_k^T / sqrt(d/N)) V_k,   context = [head_1 ; .. ; head_N] W_o + b_o

    Queries, keys and values are affine maps of what attends and of what is attended to, each cut
    into N slices. Keys and values come from one kernel, keys first.

    With relative positions (Shaw et al., 2018, "Self-Attention with Relative Position
    Representations", Eqs. (3) and (4)) a vector of the distance is added to each key and value:

        K_kj + a_k(j - i),   V_kj + b_k(j - i)

    where i attends to j, each head k has vectors of its own, and distances beyond D count as D.

    Args:
        num_heads: Number of heads, N. Divides `units`.
        units: Width of queries, keys, values and context, d.
        initializer: Initialiser of every weight.
        relative_distance: D; 0 for no relative positions.

    Call arguments:
        inputs: What attends, `[..., Q, I]`; with relative positions the last Q of what is attended
            to.
        memory: What `precompute` returned, with the same leading axes.
        bias: Added to the scores, broadcastable to `[..., N, Q, S]`; nothing by default.

    Returns:
        `(context, weights)`: `[..., Q, d]` and `[..., N, Q, S]`.

    Raises:
        ValueError: If `num_heads` does not divide `units`.
    """

    def __init__(
        self,
        num_heads: int,
        units: int,
        *,
        initializer: Any,
        relative_distance: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if units % num_heads:
            raise ValueError(
                f"`units` should be divisible by `num_heads`. Received: {units} and {num_heads}."
            )
        self.num_heads = num_heads
        self.units = units
        self.initializer = initializer
        self.relative_distance = relative_distance
        self.query = Affine(units, initializer=initializer, name="query")
        self.key_value = Affine(2 * units, initializer=initializer, name="key_value")
        self.output_map = Affine(units, initializer=initializer, name="output")

    def build(self, inputs_shape: Any, memory_shape: Any = None) -> None:
        """Builds the three affine maps; by default both sides of the attention are as wide.

        Relative positions have vectors `[2D + 1, d]` for keys and for values, that of -D first.
        """
        self.query.build(inputs_shape)
        self.key_value.build(memory_shape or inputs_shape)
        self.output_map.build((None, self.units))
        if self.relative_distance:
            shape = (2 * self.relative_distance + 1, self.units)
            self.relative_keys, self.relative_values = (
                self.add_weight(name=name, shape=shape, initializer=self.initializer)
                for name in ("relative_keys", "relative_values")
            )

    def relative(self, table: Any, queries: int, length: int) -> Any:
        """Returns the vectors between the last queries and all tokens, `[N, Q, S, d/N]`."""
        tokens = ops.arange(length)
        distances = tokens - tokens[length - queries :, None]  # [Q, S]
        limit = self.relative_distance
        rows = ops.take(table, ops.clip(distances, -limit, limit) + limit, axis=0)
        return ops.swapaxes(self.divide(rows), 0, 1)

    def divide(self, tensor: Any) -> Any:
        """Gives each head its slice, `[..., S, d]` -> `[..., N, S, d/N]`."""
        shape = (*ops.shape(tensor)[:-1], self.num_heads, self.units // self.num_heads)
        return ops.swapaxes(ops.reshape(tensor, shape), -2, -3)

    def precompute(self, inputs: Any) -> list[Any]:
        """Returns keys and values of inputs `[..., S, I]`, each `[..., N, S, d/N]`."""
        return [self.divide(part) for part in ops.split(self.key_value(inputs), 2, axis=-1)]

    def call(self, inputs: Any, memory: list[Any], bias: Any = None) -> tuple[Any, Any]:
        """Scores, normalises, averages the values of each head."""
        keys, values = memory
        queries = self.divide(self.query(inputs)) * (self.units // self.num_heads) ** -0.5
        scores = ops.matmul(queries, ops.swapaxes(keys, -1, -2))
        ends = ops.shape(inputs)[-2], ops.shape(keys)[-2]
        if self.relative_distance:
            vectors = ops.swapaxes(self.relative(self.relative_keys, *ends), -1, -2)
            scores = scores + _by_position(queries, vectors)
        weights = ops.softmax(scores if bias is None else scores + bias, axis=-1)
        heads = ops.matmul(weights, values)
        if self.relative_distance:
            vectors = self.relative(self.relative_values, *ends)
            heads = heads + _by_position(weights, vectors)
        heads = ops.swapaxes(heads, -2, -3)  # [..., Q, N, d/N]
        context = ops.reshape(heads, (*ops.shape(inputs)[:-1], self.units))
        return self.output_map(context), weights


def _by_position(rows: Any, matrices: Any) -> Any:
    """Multiplies each head's row at each position by a matrix of its own.

    Sentences are rows of one product: their gradients of the matrices are never there one by one.

    Args:
        rows: `[..., N, Q, x]`.
        matrices: `[N, Q, x, y]`.

    Returns:
        `[..., N, Q, y]`.
    """
    shape = ops.shape(rows)
    flat = ops.transpose(ops.reshape(rows, (-1, *shape[-3:])), (1, 2, 0, 3))
    products = ops.transpose(ops.matmul(flat, matrices), (2, 0, 1, 3))
    return ops.reshape(products, (*shape[:-1], ops.shape(matrices)[-1]))
