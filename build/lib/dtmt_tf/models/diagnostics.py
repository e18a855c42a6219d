"""What happens inside the transitions: mean gate values, without a loop over time."""

from __future__ import annotations

from typing import Any

from keras import ops

from dtmt_tf.cells import DeepTransitionCell


def gate_means(
    module: DeepTransitionCell, inputs: Any, previous: Any, mask: Any
) -> tuple[dict[str, Any], Any]:
    """Runs one step of a module at every position at once, given the states before it.

    Args:
        module: The transition module.
        inputs: Its inputs, `[B, T, I]`.
        previous: The state before each step, `[B, T, H]`.
        mask: Bool `[B, T]`, True at positions that count.

    Returns:
        The mean of each gate of each cell ("lgru/r"), and the states after the step `[B, T, H]`.
    """
    batch, length = ops.shape(inputs)[:2]
    rows = ops.reshape(module.project(inputs), (-1, module.projection_size))
    h = ops.reshape(previous, (-1, module.units))
    weights = ops.cast(ops.reshape(mask, (-1, 1)), h.dtype)
    total = ops.sum(weights) * module.units
    means = {}
    for cell in module.cells:
        projected = rows[:, : cell.projection_size]
        values = cell.gate_values(projected, h)
        for name, value in values.items():
            if name != "c":
                means[f"{cell.name}/{name}"] = ops.sum(value * weights) / total
        h = cell.next_state(projected, h, values)
    return means, ops.reshape(h, (batch, length, module.units))
