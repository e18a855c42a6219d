"""Length penalty of the beam search."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def length_penalty(length: Any, alpha: float) -> tf.Tensor:
    """`((5 + L) / 6)^alpha` (Wu et al., 2016, Eq. (14)); L counts <eos>.

    Args:
        length: Generated sub-words, L, integers of any shape.
        alpha: 0 leaves log probabilities as they are.

    Returns:
        float32, the shape of `length`.
    """
    return ((5.0 + tf.cast(length, tf.float32)) / 6.0) ** alpha
