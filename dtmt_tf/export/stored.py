"""A model's weights as its export keeps them: as they are, or its matrices in fewer bits."""

from __future__ import annotations

import contextlib
from typing import Any

import keras
import tensorflow as tf

LARGEST = 127  # of the steps that int8 counts on either side of zero
UNROUNDED_NAMES = ("gain", "offset", "bias")  # no matrices, though gates have rows of them


class StoredWeights:
    """The weights of a model, and functions that compute with them.

    A matrix in bfloat16 is rounded to its upper 16 bits. In int8 each slice along the longest axis
    (the row of a word in a table of embeddings, the column of a wide kernel) is `q * s` with whole
    numbers q from -127 to 127 and one float32 `s = max |w| / 127`: symmetric, to the nearest.
    Biases, gains and offsets stay float32, as do other vectors. A graph that reads them computes in
    float32: each call widens the matrices that it needs, once, whatever the number of its steps.

    Args:
        model: The model.
        quantize: "none", "bfloat16" or "int8".

    Attributes:
        variables: What an export has to hold; "none" has the model's own, others are copies.
    """

    def __init__(self, model: keras.Model, quantize: str = "none") -> None:
        self.variables: list[Any] = []
        self._quantize = quantize
        self._kept: list[tuple[Any, list[tf.Variable]]] = []
        for variable in model.weights:  # not the states of seeds
            if quantize == "none" or len(variable.shape) < 2 or variable.name in UNROUNDED_NAMES:
                self.variables.append(variable.value)
                continue
            stored = _stored(tf.convert_to_tensor(variable.value), quantize)
            kept = [tf.Variable(tensor, trainable=False) for tensor in stored]
            self.variables += kept
            self._kept.append((variable, kept))

    def read(self) -> contextlib.AbstractContextManager[Any]:
        """Within this block, which should lie in one graph, the model has the stored weights."""
        if not self._kept:
            return contextlib.nullcontext()
        return keras.StatelessScope([(variable, _widened(*kept)) for variable, kept in self._kept])

    def described(self) -> dict[str, str]:
        """Returns what a user of the export should know, by name."""
        if not self._kept:
            return {}
        told = f"matrices are kept in {self._quantize}; the scores are those of float32"
        return {"rounded_weights": told}


def _stored(matrix: tf.Tensor, quantize: str) -> list[tf.Tensor]:
    """Returns what is kept of a matrix: in bfloat16 itself, in int8 steps and their sizes."""
    if quantize == "bfloat16":
        return [tf.cast(matrix, tf.bfloat16)]
    longest = max(range(matrix.shape.rank), key=lambda axis: (matrix.shape[axis], axis))
    others = [axis for axis in range(matrix.shape.rank) if axis != longest]
    sizes = tf.reduce_max(tf.abs(matrix), axis=others, keepdims=True) / LARGEST
    steps = tf.round(tf.math.divide_no_nan(matrix, sizes))
    return [tf.cast(steps, tf.int8), sizes]


def _widened(kept: tf.Variable, *sizes: tf.Variable) -> tf.Tensor:
    """Returns the matrix, float32, of which these are kept."""
    wide = tf.cast(kept, tf.float32)
    return wide * sizes[0] if sizes else wide
