"""The cost of an update by depth and length, compared with a fit that is linear in each."""

from __future__ import annotations

import dataclasses
import statistics
from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dtmt_tf.commands import common
from dtmt_tf.planning.random_ids import RandomUpdate, vocabulary_sizes
from pipelines.benchmark import updates

DEPTHS = (0, 1, 2, 4)
LENGTHS = (16, 32, 64, 128)
SENTENCES = 32  # in every batch

Cell = tuple[int, int]  # depth, length


class Growth:
    """Updates of models of each depth, on batches of random ids of each length.

    Args:
        options: The command's.
        began: Not used.
    """

    def __init__(self, options: Namespace, began: float) -> None:
        experiment, _ = common.experiment(options)
        sizes = vocabulary_sizes(experiment)
        self.cells: dict[Cell, RandomUpdate] = {}
        for depth in DEPTHS:
            deep: Any = dataclasses.replace(
                experiment.model,
                **{f"{module}_depth": depth for module in ("encoder", "query", "decoder")},
            )
            here = dataclasses.replace(experiment, model=deep)
            step = updates.training_step(here, sizes, options.form, options.devices)
            for length in LENGTHS:
                sentences = SENTENCES * step.slices
                self.cells[depth, length] = RandomUpdate(step, sizes, sentences, length)
        self.window()

    def window(self) -> dict[Cell, float]:
        """Makes one update of each kind; returns seconds."""
        return {cell: update.seconds() for cell, update in self.cells.items()}


def table(windows: Sequence[Mapping[Cell, float]]) -> dict[str, Any]:
    """Returns medians and fit, a row for each depth, and the largest excess over the fit."""
    medians = {cell: statistics.median(window[cell] for window in windows) for cell in windows[0]}
    fitted = fit(medians)
    return {
        "sentences": SENTENCES,
        "depths": DEPTHS,
        "lengths": LENGTHS,
        "seconds": [[medians[depth, length] for length in LENGTHS] for depth in DEPTHS],
        "fit": [[fitted[depth, length] for length in LENGTHS] for depth in DEPTHS],
        "largest_excess": max(medians[cell] / fitted[cell] - 1 for cell in medians),
    }


def fit(seconds: Mapping[Cell, float]) -> dict[Cell, float]:
    """Fits `a + b depth + c length + d depth length` by least squares of relative errors."""
    cells = np.array(list(seconds), float)
    depth, length = cells.T
    terms = np.stack([np.ones(len(cells)), depth, length, depth * length], axis=1)
    values = np.array(list(seconds.values()))
    found, *_ = np.linalg.lstsq(terms / values[:, None], np.ones(len(cells)), rcond=None)
    return dict(zip(seconds, (terms @ found).tolist(), strict=True))
