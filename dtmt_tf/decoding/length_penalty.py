"""Length penalty of the beam search."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from dtmt_tf.config import DecodingConfig


def length_penalty(
    length: Any, alpha: float, offset: float = DecodingConfig.length_offset
) -> tf.Tensor:
    """`((c + L) / (c + 1))^alpha`; L counts <eos>.

    With c = 5 it is that of Wu et al. (2016), Eq. (14); with c = 0 and alpha = 1 the length.

    Args:
        length: Generated sub-words, L, positive integers of any shape.
        alpha: 0 leaves log probabilities as they are.
        offset: c, at least 0.

    Returns:
        float32, the shape of `length`.
    """
    return ((offset + tf.cast(length, tf.float32)) / (offset + 1.0)) ** alpha
