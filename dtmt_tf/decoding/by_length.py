"""Rows of any number and length, a few at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf


def by_length(
    function: Callable[[tf.Tensor], Any],
    lengths: tf.Tensor,
    size: int,
    specs: Any,
    area: int | None = None,
) -> Any:
    """Runs a function on `size` rows at a time, like lengths together, in the graph.

    Memory is bounded by the rows of one call, and short rows do not wait for long ones.

    Args:
        function: Row numbers `[b]` to tensors `[b, ...]`, whose other axes do not depend on the
            rows. Called at least once.
        lengths: What the rows are sorted by, `[B]`.
        size: Most rows of a call.
        specs: `tf.TensorSpec`s of the function's tensors, nested as they are.
        area: Most rows of a call times the largest of their lengths; a row that is longer by
            itself is alone. No bound by default.

    Returns:
        The function's tensors for all rows in their order, `[B, ...]`.
    """
    order = tf.argsort(lengths, stable=True)
    number = tf.size(order)

    def more(start: tf.Tensor, arrays: Any) -> tf.Tensor:
        return (start < number) | tf.equal(start, 0)

    def run(start: tf.Tensor, arrays: Any) -> tuple[tf.Tensor, Any]:
        rows = order[start : start + size]
        if area is not None:
            count = tf.range(1, tf.size(rows, tf.int64) + 1)
            areas = count * tf.cast(tf.gather(lengths, rows), tf.int64)  # ascending
            rows = rows[: tf.maximum(tf.math.count_nonzero(areas <= area, dtype=tf.int32), 1)]
        tensors = function(rows)
        arrays = tf.nest.map_structure(lambda a, t: a.write(a.size(), t), arrays, tensors)
        return start + tf.maximum(tf.size(rows), 1), arrays

    arrays = tf.nest.map_structure(
        lambda spec: tf.TensorArray(spec.dtype, 0, dynamic_size=True, infer_shape=False), specs
    )
    _, arrays = tf.while_loop(more, run, (tf.constant(0), arrays), parallel_iterations=1)
    back = tf.argsort(order)
    return tf.nest.map_structure(
        lambda array, spec: tf.gather(tf.ensure_shape(array.concat(), spec.shape), back),
        arrays,
        specs,
    )


def lengths_of(ids: tf.Tensor) -> tf.Tensor:
    """Returns how many of ids `[B, T]` are no padding, `[B]`."""
    return tf.math.count_nonzero(ids, axis=1, dtype=tf.int32)


def longest_of(lengths: tf.Tensor) -> tf.Tensor:
    """Returns the largest of lengths `[B]`, at least 1."""
    return tf.reduce_max(tf.concat([lengths, [1]], axis=0))
