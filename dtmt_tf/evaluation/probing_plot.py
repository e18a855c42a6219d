"""Accuracies on probing tasks, drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dtmt_tf.evaluation.picture import as_label, error_bars
from dtmt_tf.evaluation.probing import Probed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NARROWEST = 6.0  # inches, for the legend
SPREAD = 0.6  # of a task's width, for its systems


def figure_of(systems: Mapping[str, Mapping[str, Probed]]) -> Figure:
    """Draws each system's accuracies with 95 % intervals, and the control as a cross.

    Args:
        systems: What was found, by system and task; all have the same tasks.
    """
    from matplotlib.figure import Figure

    width = max(NARROWEST, 2 + 0.9 * len(next(iter(systems.values()))))
    figure = Figure(figsize=(width, 3.8), layout="constrained")
    draw_on(figure, systems)
    return figure


def draw_on(figure: Figure, systems: Mapping[str, Mapping[str, Probed]], columns: int = 1) -> None:
    """Draws on an empty figure, with a legend of so many columns."""
    tasks = next(iter(systems.values()))
    axes = figure.subplots()
    for k, (name, found) in enumerate(systems.items()):
        places = [t + SPREAD * ((k + 0.5) / len(systems) - 0.5) for t in range(len(tasks))]
        values = [found[task].accuracy.percent for task in tasks]
        ends = error_bars(values, [found[task].accuracy.interval for task in tasks])
        bars = axes.errorbar(places, values, ends, fmt="o", ms=4, elinewidth=1,
                             capsize=2, label=as_label(name))  # fmt: skip
        controls = [(place, found[task].control) for place, task in zip(places, tasks, strict=True)]
        known = [(place, control.percent) for place, control in controls if control is not None]
        if known:
            axes.plot(*zip(*known, strict=True), "x", ms=4, color=bars.lines[0].get_color())
    for t, found_task in enumerate(tasks.values()):
        axes.hlines(found_task.majority, t - 0.4, t + 0.4, color="0.6", lw=1, zorder=0)
    labels = [f"{name}\n{each.level}" for name, each in tasks.items()]
    axes.set_xticks(range(len(tasks)), labels, parse_math=False)
    axes.set_ylabel("accuracy, %")
    axes.grid(axis="y", lw=0.4)
    axes.set_title("dot: test; cross: random labels, seen; line: most frequent label", fontsize=8)
    figure.legend(loc="outside lower center", ncols=columns, frameon=False, fontsize="small")
