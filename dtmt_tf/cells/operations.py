"""Functions for which Keras builds many TensorFlow operations, and TensorFlow needs one or a few.

Each stands in a loop over time, where small operations cost more than what they compute: of the
operations of a decode step they made a third.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops


def cut(values: Any, sizes: Sequence[int]) -> list[Any]:
    """Cuts the last axis into parts; `keras.ops.split` would work out their sizes in the graph.

    Args:
        values: Shape `[..., F]`.
        sizes: Of the parts; their sum is F.
    """
    if keras.config.backend() == "tensorflow":
        import tensorflow as tf

        return list(tf.split(values, list(sizes), axis=-1))
    return list(ops.split(values, list(itertools.accumulate(sizes))[:-1], axis=-1))


def matmul(inputs: Any, kernel: Any, transposed: bool = False) -> Any:
    """Multiplies by a matrix as one product of rows, or by its transpose without a copy of that.

    Args:
        inputs: Shape `[..., I]`.
        kernel: Shape `[I, O]`.
        transposed: Whether the kernel is `[O, I]`.

    Returns:
        Shape `[..., O]`.
    """
    if keras.config.backend() != "tensorflow":
        return ops.matmul(inputs, ops.transpose(kernel) if transposed else kernel)
    import tensorflow as tf

    inputs, kernel = ops.convert_to_tensor(inputs), ops.convert_to_tensor(kernel)
    if len(inputs.shape) == 2:
        return tf.matmul(inputs, kernel, transpose_b=transposed)
    rows = tf.reshape(inputs, [-1, inputs.shape[-1]])
    result = tf.matmul(rows, kernel, transpose_b=transposed)
    sizes = [*inputs.shape[:-1], result.shape[-1]]
    if sizes.count(None) < 2:
        return tf.reshape(result, [-1 if size is None else size for size in sizes])
    width = tf.shape(result)[1:] if sizes[-1] is None else sizes[-1:]
    return tf.reshape(result, tf.concat([tf.shape(inputs)[:-1], width], axis=0))
