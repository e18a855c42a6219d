"""The mean of a sequence over what is there."""

from __future__ import annotations

from typing import Any

from keras import ops


def masked_mean(states: Any, mask: Any) -> Any:
    """Returns the mean over time, `[B, H]`, 0 where nothing is there.

    Args:
        states: `[B, T, H]`.
        mask: Bool `[B, T]`, False where a state counts for nothing.
    """
    shares = ops.cast(mask, states.dtype)[..., None]
    return ops.sum(states * shares, axis=1) / ops.maximum(ops.sum(shares, axis=1), 1.0)
