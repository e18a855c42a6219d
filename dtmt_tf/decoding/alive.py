"""The hypotheses of a search that are alive, packed: no step is made for the others."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


class Alive:
    """R hypotheses of b sentences with K places each.

    Packed, each is as a sentence with one hypothesis, `[R, 1, ...]`, and its sentence's memory.

    Args:
        alive: Which places are taken, bool `[b, K]`.
    """

    def __init__(self, alive: tf.Tensor) -> None:
        self.alive = alive
        self.beams: int = alive.shape[1]
        flat = tf.reshape(alive, [-1])
        self._rows = tf.where(flat)[:, 0]  # [R] of b * K
        last = tf.maximum(tf.size(self._rows) - 1, 0)
        before = tf.cumsum(tf.cast(flat, tf.int32), exclusive=True)
        self._places = tf.reshape(tf.minimum(before, last), [-1, self.beams])  # [b, K] of R

    def pack(self, tensors: Any) -> Any:
        """Returns what is the hypotheses' own, `[R, 1, ...]`, of tensors `[b, K, ...]`."""

        def pack(tensor: tf.Tensor) -> tf.Tensor:
            rest = tf.shape(tensor)[2:]
            rows = tf.gather(tf.reshape(tensor, tf.concat([[-1, 1], rest], axis=0)), self._rows)
            return tf.ensure_shape(rows, [None, 1, *tensor.shape[2:]])

        return tf.nest.map_structure(pack, tensors)

    def share(self, tensors: Any) -> Any:
        """Gives each hypothesis what is its sentence's, `[R, ...]`, of tensors `[b, ...]`."""
        owners = self._rows // self.beams
        return tf.nest.map_structure(lambda tensor: tf.gather(tensor, owners), tensors)

    def unpack(self, tensors: Any, origins: tf.Tensor | None = None) -> Any:
        """Puts tensors `[R, 1, ...]` back to `[b, K, ...]`; dead places hold anything.

        Args:
            tensors: What is unpacked.
            origins: Which place of its sentence each new place takes over, `[b, K]`; its own by
                default.
        """
        places = self._places
        if origins is not None:
            places = tf.gather(places, origins, batch_dims=1)
        return tf.nest.map_structure(lambda tensor: tf.gather(tensor[:, 0], places), tensors)
