"""Accuracies by distance or position, drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dtmt_tf.evaluation.contrast import OfKind
from dtmt_tf.evaluation.picture import as_label, error_bars

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = 3  # panels in a row


def figure_of(systems: Mapping[str, Mapping[str, OfKind]]) -> Figure:
    """Draws a panel for each type of error, with a line for each model and its 95 % intervals.

    Compared are log probabilities, not divided by length.

    Args:
        systems: Accuracies by model and type of error.
    """
    from matplotlib.figure import Figure

    kinds = list(next(iter(systems.values())))
    columns = min(COLUMNS, len(kinds))
    rows = -(-len(kinds) // columns)
    figure = Figure(figsize=(0.6 + 3.2 * columns, 0.6 + 2.6 * rows), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    for kind, axes in zip(kinds, grid.flat, strict=False):
        for name, found in systems.items():
            bins = [both.summed for both in found[kind].bins.values()]
            values = [accuracy.percent for accuracy in bins]
            bars = error_bars(values, [accuracy.interval for accuracy in bins])
            axes.errorbar(range(len(bins)), values, bars, label=as_label(name), marker="o",
                          ms=3, lw=1.4, elinewidth=0.8, capsize=2)  # fmt: skip
        of = next(iter(systems.values()))[kind]
        axes.set_xticks(range(len(of.bins)), list(of.bins))
        axes.set_title(kind, fontsize="medium", parse_math=False)
        axes.set_xlabel(f"{of.measure}, words")
        axes.grid(lw=0.4)
    for axes in grid.flat[len(kinds) :]:
        axes.set_axis_off()
    for row in grid:
        row[0].set_ylabel("accuracy, %")
    lines, labels = grid.flat[0].get_legend_handles_labels()
    figure.legend(lines, labels, loc="outside lower center", ncols=1, frameon=False)
    return figure
