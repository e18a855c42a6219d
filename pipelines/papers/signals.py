"""What TensorBoard's files of a run tell of its gates and gradients."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dtmt_tf.runs import Run

Signals = dict[str, dict[str, dict[str, float]]]  # numbers by heading, name, and update


def read(run: Run, steps: Sequence[int]) -> Signals:
    """Returns gates after each validation, and logged gradient norms as means since the one before.

    Args:
        run: The run; without TensorBoard's files there is nothing.
        steps: The updates after which it was validated; none of an ensemble.
    """
    if not steps:
        return {}
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util.tensor_util import make_ndarray

    from dtmt_tf.training.summaries import GATES, NORMS

    events = EventAccumulator(str(run.events), size_guidance={"tensors": 0})
    events.Reload()
    found: Signals = {}
    for tag in events.Tags()["tensors"]:
        heading, _, name = tag.partition("/")
        if heading not in (GATES, NORMS):
            continue
        values = {each.step: float(make_ndarray(each.tensor_proto)) for each in events.Tensors(tag)}
        values = {step: value for step, value in values.items() if math.isfinite(value)}
        since = 0
        for step in sorted(steps):
            here = [value for at, value in values.items() if since < at <= step]
            if here:
                mean = here[-1] if heading == GATES else statistics.fmean(here)
                by_name = found.setdefault(heading.partition(" ")[2], {})
                by_name.setdefault(name, {})[str(step)] = round(mean, 5)
            since = step
    return found


def kept(gates: Mapping[str, Mapping[str, float]]) -> dict[int, float]:
    """Returns about which share of a state the T-GRUs of a transition hand on, by update.

    The product of their mean `1 - z` (Meng and Zhang, 2019, (10)), as a mean over transitions.
    """
    modules: dict[str, list[Mapping[str, float]]] = {}
    for name, values in gates.items():
        module, cell, gate = name.split("/")
        if cell.startswith("tgru") and gate == "z":
            modules.setdefault(module, []).append(values)
    steps = {step for cells in modules.values() for step in cells[0]}
    return {
        int(step): statistics.fmean(
            math.prod(1.0 - values[step] for values in cells) for cells in modules.values()
        )
        for step in sorted(steps, key=int)
    }


def norms_by_cell(norms: Mapping[str, Mapping[str, float]]) -> list[float]:
    """Returns the gradient norm of each cell of a transition, first to last.

    Means over the training and over transitions.
    """
    cells: dict[str, list[float]] = {}
    for name, values in norms.items():
        cells.setdefault(name.split("/")[1], []).append(statistics.fmean(values.values()))
    return [statistics.fmean(values) for values in cells.values()]
