"""What the pictures of the documents show: panels with lines, made of results."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dtmt_tf.config import DecodingConfig
from pipelines.papers import PAPERS, figures, records, signals, tables
from pipelines.papers.paper import Table
from pipelines.papers.records import Record
from pipelines.papers.shown import CURVES, EXPLAINED, PEERS, SCORES, SEARCHED, SIZES, Curve, Scores

VALUES = {  # of a result, by updates: name of the axis, corner of the legend
    "curve": ("validation BLEU", "lower right"),
    "cross_entropy": ("validation cross entropy, nats", "upper right"),
}
UPDATES = 1650  # of rows that are drawn as curves
FAST = "bfloat16, prune 2.5, ends early"  # the search of several sizes


@dataclass(frozen=True)
class Line:
    """A line of a panel.

    Args:
        label: What the legend says.
        points: `(x, y)`, from left to right.
        dashed: Whether it is drawn dashed.
        band: Lowest and highest y at each point, if there is a band.
    """

    label: str
    points: Sequence[tuple[float, float]]
    dashed: bool = False
    band: Sequence[tuple[float, float]] = ()


@dataclass(frozen=True)
class Panel:
    """One pair of axes.

    Args:
        title: What it shows.
        x: Name of the x axis.
        y: Name of the y axis.
        lines: What is drawn.
        ticks: Labels of the x axis by place, if not its numbers.
        legend: The corner of the legend.
    """

    title: str
    x: str
    y: str
    lines: Sequence[Line]
    ticks: Mapping[int, str] = field(default_factory=dict)
    legend: str = "lower right"


def all_panels(found: Sequence[Record], speeds: Sequence[Record] = ()) -> dict[str, list[Panel]]:
    """Returns the panels of each picture that results of runs and of speed fill."""
    pictures = {
        name: [panel for value in VALUES for title, curves in panels.items()
               if (panel := curves_panel(title, curves, found, value)).lines]
        for name, panels in CURVES.items()
    }  # fmt: skip
    pictures["speed"] = speed_panels(speeds)
    for name, shown in SCORES.items():
        pictures[name] = [panel] if (panel := scores_panel(*shown, found)).lines else []
    pictures["gates"] = signals_panels(found)
    for paper in PAPERS.values():
        of = [record for record in found if records.is_of(record, paper)]
        for name, table in paper.figures.items():
            pictures[f"{paper.name}-figure{name}"] = [
                panel
                for (task, _), group in tables.budgets(of, table).items()
                if compares(panel := figure_panel(task + _budget(group[0]), table, group), table)
            ]
    return {name: panels for name, panels in pictures.items() if panels}


def _budget(record: Record) -> str:
    """Returns what tells a panel from others of one task."""
    series = record["series"]
    recipe, begun = series.get("recipe"), series.get("begin_with")
    return f", recipe {recipe}" * bool(recipe) + f", on top of {begun}" * bool(begun)


def curves_panel(
    title: str, curves: Sequence[Curve], found: Sequence[Record], value: str = "curve"
) -> Panel:
    """Returns BLEU or cross entropy by updates, of those curves whose results have it."""
    lines = []
    for curve in curves:
        if points := mean_curve([run for run in found if _belongs(run, curve)], value):
            lines.append(Line(curve.label, points, bool(curve.change)))
    return Panel(title, "updates", VALUES[value][0], lines, legend=VALUES[value][1])


def scores_panel(title: str, axis: str, shown: Sequence[Scores], found: Sequence[Record]) -> Panel:
    """Returns validation and test BLEU, the latter dashed, at those places that have results."""
    lines = []
    for part in ("validation", "test"):
        for each in shown:
            at: dict[int, list[float]] = {}
            for place, names in each.runs.items():
                runs = [run for run in found if run["task"] == each.task and run["name"] in names]
                if runs:
                    at[place] = [run["scores"][part]["bleu"] for run in runs]
            points = [(place, statistics.fmean(bleu)) for place, bleu in at.items()]
            band = [(min(bleu), max(bleu)) for bleu in at.values()]
            if points:
                lines.append(Line(f"{part}, {each.label}", points, part == "test", band))
    places = sorted({int(place) for line in lines for place, _ in line.points})
    return Panel(title, axis, "BLEU", lines, {place: str(place) for place in places})


def signals_panels(found: Sequence[Record]) -> list[Panel]:
    """Returns what the transitions hand on by updates, and the gradients of their cells."""
    shares, norms = [], []
    for label, task, names in EXPLAINED:
        runs = [run for run in found if run["task"] == task and run["name"] in names]
        runs = [run for run in runs if {"gates", "gradient norms"} <= set(run.get("signals", ()))]
        if not runs:
            continue
        by_run = [signals.kept(run["signals"]["gates"]) for run in runs]
        shared = sorted(set.intersection(*map(set, by_run)))
        shares.append(
            Line(label, [(at, statistics.fmean(each[at] for each in by_run)) for at in shared])
        )
        by_cell = zip(
            *(signals.norms_by_cell(run["signals"]["gradient norms"]) for run in runs), strict=True
        )
        norms.append(Line(label, [(k, statistics.fmean(each)) for k, each in enumerate(by_cell)]))
    if not shares:
        return []
    longest = max(len(line.points) for line in norms)
    ticks = {k: str(k) if k else "L-GRU" for k in range(longest)}
    title = f"{EXPLAINED[0][1]}: product of the T-GRUs' mean 1 - z"
    return [
        Panel(title, "updates", "share of the state", shares, legend="best"),
        Panel(
            "gradients of the transitions' cells", "T-GRU", "gradient norm", norms, ticks, "best"
        ),
    ]


def speed_panels(speeds: Sequence[Record]) -> list[Panel]:
    """Returns BLEU by sentences a second: of one run by search, of several by their size.

    A panel has those beam sizes that all its lines have.
    """
    found: dict[str, dict[str, dict[int, tuple[float, float]]]] = {}  # by run, search, beam
    for record in speeds:
        for one in record["configurations"] if record["benchmark"] == "decode" else ():
            if "validation" in (one.get("bleu") or {}):
                point = one["rate"]["median"], one["bleu"]["validation"]
                by_search = found.setdefault(one["name"].partition(", ")[0], {})
                by_beam = by_search.setdefault(search_label(one["search"]), {})
                by_beam[one["search"]["beam_size"]] = point
    searches = dict(sorted(found.get(SEARCHED, {}).items()))
    sizes = {label: found[run][FAST] for label, run in SIZES.items() if FAST in found.get(run, {})}
    drawn = _speed_panel(SEARCHED.rpartition("/")[2], searches, "lower left")
    return drawn + _speed_panel("several sizes", sizes | PEERS, "upper right") * (len(sizes) > 1)


def search_label(search: Mapping[str, Any]) -> str:
    """Returns what a search does that another may not."""
    names = [f"{name} {search[name]:g}" for name in ("shortlist", "prune") if search[name]]
    early = ["ends early"] * (search["lookahead"] < DecodingConfig.lookahead)
    return ", ".join([search["precision"], *names, *early])


def _speed_panel(
    title: str, lines: Mapping[str, Mapping[int, tuple[float, float]]], legend: str
) -> list[Panel]:
    shared = set.intersection(*map(set, lines.values())) if lines else set()
    if not shared:
        return []
    sizes = sorted(shared, reverse=True)
    title = f"{title}, beam {', '.join(map(str, sizes))} from left to right"
    drawn = [
        Line(label, [at[size] for size in sizes], label in PEERS) for label, at in lines.items()
    ]
    return [Panel(title, "captions a second", "validation BLEU", drawn, legend=legend)]


def _belongs(run: Record, curve: Curve) -> bool:
    if run["task"] != curve.task:
        return False
    if isinstance(curve.runs, str):
        series = run["series"]
        budget = series.get("max_steps"), tuple(series.get("set", ())), series.get("begin_with", "")
        usual = series.get("preset", "small") == "small" and not series.get("recipe")
        usual = usual and run.get("batches_an_update", 1) == 1
        return run["row"] == curve.runs and usual and budget == (UPDATES, curve.change, "")
    return run["name"] in curve.runs


def mean_curve(results: Sequence[Record], value: str = "curve") -> list[tuple[float, float]]:
    """Returns the mean over runs after each validation that all of them made."""
    steps = [set(map(int, result.get(value, ()))) for result in results]
    return [
        (step, statistics.fmean(result[value][str(step)] for result in results))
        for step in sorted(set.intersection(*steps) if steps else ())
    ]


def figure_panel(title: str, table: Table, group: Sequence[Record]) -> Panel:
    """Returns what a paper's figure shows of results of one budget."""
    if table.axis:
        return axis_panel(title, table, group)
    return (contrast_panel if table.contrast else lengths_panel)(title, table, group)


def compares(panel: Panel, table: Table) -> bool:
    """Whether a figure's panel shows more than a row alone."""
    if table.axis:
        return any(len(line.points) > 1 for line in panel.lines)
    return len(panel.lines) > (0 if table.contrast else 1)


def axis_panel(title: str, table: Table, group: Sequence[Record]) -> Panel:
    """Returns the BLEU of rows beside each other, and the paper's."""
    labels, curves = figures.axis_curves(table, group)
    lines = [Line(label, points, k > 0) for k, (label, points) in enumerate(curves.items())]
    return Panel(title, table.axis, "BLEU", lines, dict(enumerate(labels)), "best")


def contrast_panel(title: str, table: Table, group: Sequence[Record]) -> Panel:
    """Returns the accuracy on contrastive translations by words."""
    names, curves = figures.contrast_curves(table, group)
    lines = [
        Line(label, [(k, 100.0 * found[name][0] / found[name][1])
                     for k, name in enumerate(names) if name in found])
        for label, found in curves.items()
    ]  # fmt: skip
    words = figures.words_of(table, group)
    return Panel(title, words, "accuracy, %", lines, dict(enumerate(names)), "best")


def lengths_panel(title: str, table: Table, group: Sequence[Record]) -> Panel:
    """Returns BLEU by source words, with bands of its 95 % intervals."""
    groups = figures.length_groups(table, group)
    lines = [
        Line(
            label.replace("`", ""),
            [(k, bleu) for k, (bleu, *_) in enumerate(curve)],
            "`" in label,
            [(low, high) for _, low, high in curve],
        )
        for label, curve in figures.length_curves(table, group).items()
        if curve  # none where too few sentences have each length
    ]
    ticks = {k: f"{name}\n{mask.sum():,}" for k, (name, mask) in enumerate(groups.items())}
    name = "source words" if table.bounds else "source longer than ... words"
    return Panel(title, f"{name},\nand number of sentences", "BLEU", lines, ticks, "lower left")
