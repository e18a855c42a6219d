"""The figures of papers as tables: accuracy on contrasts, BLEU beside settings and by length."""

from __future__ import annotations

import functools
import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np

from dtmt_tf.evaluation.accuracy import Accuracy
from dtmt_tf.evaluation.sentences import bleu_interval, bleu_of
from pipelines.benchmark.speed import markdown
from pipelines.papers import records
from pipelines.papers.paper import Table
from pipelines.papers.records import Record
from pipelines.papers.tables import NOTHING, by_series, labelled, rows_table

STEP = 10  # words, between the lengths of a figure
FEWEST = 20  # sentences that have a BLEU of their own there


def figure_table(table: Table, group: Sequence[Record]) -> str:
    """Returns what a figure shows: BLEU of the rows, accuracy by distance, or BLEU by length."""
    if table.axis:
        return rows_table(table, group)
    return (contrast_table if table.contrast else lengths_table)(table, group)


def contrast_table(table: Table, group: Sequence[Record]) -> str:
    """Returns BLEU, and the accuracy on contrastive translations by words and by type of error."""
    names, curves = contrast_curves(table, group)
    rows = []
    for label, found in curves.items():
        cells = (found.get(name) for name in names)
        rows.append(
            (label, *(f"{Accuracy(*c).percent:.1f} ({c[1]:,})" if c else "" for c in cells))
        )
    if not rows:
        return NOTHING
    words = markdown((words_of(table, group), *names), rows)
    return "\n\n".join((rows_table(table, group), words, errors_table(table, group)))


def errors_table(table: Table, group: Sequence[Record]) -> str:
    """Returns the accuracy on each type of error with its 95 % interval, the mean over seeds."""
    found: dict[str, dict[str, Accuracy]] = {}
    for label, _, runs in labelled(table, group):
        counts: dict[str, list[tuple[int, int]]] = {}
        for kind, bins in (item for run in runs for item in run.get("contrast", {}).items()):
            right, pairs = (sum(numbers) for numbers in zip(*bins.values(), strict=True))
            counts.setdefault(kind, []).append((right, pairs))
        for kind, of_seeds in counts.items():
            found.setdefault(kind, {})[label] = Accuracy(*_mean(of_seeds))
    labels = list(dict.fromkeys(label for of in found.values() for label in of))
    rows = []
    for kind, of in sorted(found.items()):
        cells = (of.get(label) for label in labels)
        pairs = max(accuracy.total for accuracy in of.values())
        rows.append((kind, f"{pairs:,}", *(accuracy_cell(cell) if cell else "" for cell in cells)))
    return markdown(("type of error", "pairs", *labels), rows)


def accuracy_cell(accuracy: Accuracy) -> str:
    """Returns an accuracy with its 95 % interval, in percent."""
    low, high = accuracy.interval
    return f"{accuracy.percent:.1f} ({low:.1f}-{high:.1f})"


def _mean(of_seeds: Sequence[tuple[int, int]]) -> tuple[float, int]:
    """Returns those right, the mean over seeds, and all: more seeds make no more pairs."""
    right, pairs = zip(*of_seeds, strict=True)
    return statistics.fmean(right), max(pairs)


def words_of(table: Table, group: Sequence[Record]) -> str:
    """Returns what the words of a figure's bins are: the distance, or the verb's position."""
    measure = _measure(table, group)
    return f"{measure}, words" if measure else "words"


def _measure(table: Table, group: Sequence[Record]) -> str:
    """Returns the first result's."""
    rows = (run for _, _, runs in labelled(table, group) for run in runs)
    return next((str(run["contrast_measure"]) for run in rows if "contrast_measure" in run), "")


def contrast_curves(
    table: Table, group: Sequence[Record]
) -> tuple[list[str], dict[str, dict[str, tuple[float, int]]]]:
    """Returns the bins, and by row and bin the right pairs (mean over seeds) and all pairs.

    Words of distance and words of position are not added up: results of another measure than the
    first one's are left out.
    """
    curves: dict[str, dict[str, tuple[float, int]]] = {}
    measure = _measure(table, group)
    for label, _, runs in labelled(table, group):
        of_seeds: dict[str, list[tuple[int, int]]] = {}
        for run in (run for run in runs if run.get("contrast_measure", "") == measure):
            sums: dict[str, tuple[int, int]] = {}
            for kind, bins in run.get("contrast", {}).items():
                for name, (right, pairs) in bins.items() if kind.startswith(table.contrast) else ():
                    before = sums.get(name, (0, 0))
                    sums[name] = before[0] + right, before[1] + pairs
            for name, both in sums.items():
                of_seeds.setdefault(name, []).append(both)
        if of_seeds:
            curves[label] = {name: _mean(counts) for name, counts in of_seeds.items()}
    names = dict.fromkeys(name for found in curves.values() for name in found)
    return sorted(names, key=lambda name: int(name.rstrip("+").split("-")[0])), curves


def axis_curves(
    table: Table, group: Sequence[Record]
) -> tuple[list[str], dict[str, list[tuple[int, float]]]]:
    """Returns the rows' labels, and BLEU (mean over seeds) and the paper's by place among them.

    Of rows that begin with a trained one the means are of beginnings that all have.
    """
    labels = [label for label, _ in table.rows.values()]
    ours, paper = [], []
    for series in by_series(group)[:1]:  # the first is the one that changes least
        by_row = records.by_row(series)
        begun = [{*map(records.trained_from, by_row[row])} for row in table.rows if row in by_row]
        shared = set.intersection(*begun) if begun else set()
        for place, (row, (_, printed)) in enumerate(table.rows.items()):
            runs = by_row.get(row, [])
            if series[0]["series"].get("begin_with") and shared:
                runs = [run for run in runs if records.trained_from(run) in shared]
            if runs:
                score = statistics.fmean(run["scores"][run["part"]]["bleu"] for run in runs)
                ours.append((place, score))
                if printed is not None:
                    paper.append((place, printed))
    return labels, {"here": ours, "the paper, on its corpus": paper} if ours else {}


def lengths_table(table: Table, group: Sequence[Record]) -> str:
    """Returns BLEU by source words, by row."""
    groups = length_groups(table, group)
    curves = length_curves(table, group)
    rows = [(label, *(f"{bleu:.2f}" for bleu, *_ in curve)) for label, curve in curves.items()]
    head = ("words" if table.bounds else "longer than", *groups)
    sizes = (f"{mask.sum():,}" for mask in groups.values())
    return markdown(head, [("sentences", *sizes), *rows])


def length_groups(table: Table, group: Sequence[Record]) -> dict[str, Any]:
    """Returns which sentences have the lengths of a figure, by the name of the lengths."""
    words = np.array(group[0]["sentences"]["source_words"].split(), np.int64)
    if table.bounds:
        starts = [0, *table.bounds]
        ends = [*table.bounds, int(words.max())]
        names = [*(f"{low + 1}-{high}" for low, high in zip(starts, ends[:-1], strict=False)),
                 f"{starts[-1] + 1}+"]  # fmt: skip
        masks = [(words > low) & (words <= high) for low, high in zip(starts, ends, strict=True)]
    else:
        bounds = range(0, int(words.max()), STEP)
        names, masks = [str(bound) for bound in bounds], [words > bound for bound in bounds]
    return {name: mask for name, mask in zip(names, masks, strict=True) if mask.sum() >= FEWEST}


def length_curves(
    table: Table, group: Sequence[Record]
) -> dict[str, list[tuple[float, float, float]]]:
    """Returns BLEU (mean over seeds) and its 95 % interval at each length, by row."""
    groups = length_groups(table, group)
    curves = {}
    for label, _, runs in labelled(table, group):
        counts = [records.counts_of(run) for run in runs]
        curves[label] = [
            (
                statistics.fmean(bleu_of(rows[mask]) for rows in counts),
                *_interval(*((rows[mask].shape, rows[mask].tobytes()) for rows in counts)),
            )
            for mask in groups.values()
        ]
    return curves


@functools.cache
def _interval(*counts: tuple[tuple[int, ...], bytes]) -> tuple[float, float]:
    """Returns the interval of some runs' counts, which a table and its pictures share."""
    return bleu_interval([np.frombuffer(each, np.int64).reshape(shape) for shape, each in counts])
