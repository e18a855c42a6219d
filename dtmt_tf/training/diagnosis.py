"""Finds out why an update was not finite."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import tensorflow as tf

from dtmt_tf.training.step import TrainingStep


def first_non_finite(step: TrainingStep, source_ids: Any, target_ids: Any, at: int) -> str:
    """Finds the first tensor of an update that is not finite.

    The weights are looked at first; then forward pass and gradient are computed anew with
    TensorFlow's numerics check after every operation.

    Args:
        step: What made the update; its weights are those from before.
        source_ids: This worker's share of the batch, `[B, S]`.
        target_ids: `[B, T]` likewise.
        at: Updates made before that one.

    Returns:
        What it is and its name, for a message.
    """
    for variable in step.model.trainable_variables:
        if not np.isfinite(variable.numpy()).all():
            return f"the weight {variable.path}"
    tf.debugging.enable_check_numerics()
    try:
        sums = tf.function(step.slice_sums)
        for k in range(step.own_slices):
            slice_number, before = tf.constant(step.first_slice + k), tf.constant(at, tf.int64)
            sums(source_ids, target_ids, slice_number, before, step.weights)
    except tf.errors.InvalidArgumentError as error:
        return _what(error.message)
    finally:
        tf.debugging.disable_check_numerics()
    return "the gradient's norm, or a sum over slices or devices,"


def _what(message: str) -> str:
    """Returns operation and place of what the numerics check says."""
    found = re.search(r"!!! Detected (.*?) \(#.*?\) !!!", message)
    places = re.findall(r"\+ (\S*dtmt_tf/\S+ \(L\d+\) \w+)", message)
    what = found[1] if found else message.partition("\n")[0]
    return f"{what}, made at {places[-1]}" if places else what
