"""What EXPERIMENTS.md shows of transitions that start shallow, made from results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipelines.benchmark.speed import markdown
from pipelines.papers import tables
from pipelines.papers.jobs import PRECISION
from pipelines.papers.records import Record
from pipelines.papers.shown import AGAIN, CASED, COMPARED, SHALLOW_START, System

QUARTERS = 675, 1350, 2025, 2700  # of the updates that a run makes


def tables_of(found: Sequence[Record]) -> dict[str, str]:
    """Returns the generated parts of EXPERIMENTS.md by the name in their markers."""
    return {
        "transitions by run": runs_table(found),
        "transitions": means_table(found),
        "transitions compared": differences_table(found),
    }


def runs_table(found: Sequence[Record]) -> str:
    """Returns BLEU of each run after each quarter; rows of papers are validated at other times."""
    head = ("system", "run", *(f"after {step:,}" for step in QUARTERS),
            "least cross entropy", "test BLEU")  # fmt: skip
    lines = [
        (label, f"`{run['name']}`", *(f"{run['curve'][str(step)]:.2f}" for step in QUARTERS),
         tables.least_entropy([run]), tables.mean_bleu([run], run["part"]))
        for label, runs in _systems(found, AGAIN + SHALLOW_START) for run in runs
        if {str(step) for step in QUARTERS} <= set(run["curve"])
    ]  # fmt: skip
    return markdown(head, lines) or tables.NOTHING


def means_table(found: Sequence[Record]) -> str:
    """Returns validation and test BLEU of each system, means over its seeds with their spread."""
    head = "system", "seeds", "validation BLEU", "least cross entropy", "test BLEU"
    lines = [
        (label, len(runs), tables.mean_bleu(runs, "validation"),
         tables.least_entropy(runs), tables.mean_bleu(runs, runs[0]["part"]))
        for label, runs in _systems(found, SHALLOW_START)
    ]  # fmt: skip
    return markdown(head, lines) or tables.NOTHING


def _systems(
    found: Sequence[Record], systems: Sequence[System]
) -> Iterator[tuple[str, list[Record]]]:
    """Yields what each system with results is called, and these by seed."""
    of = {run["name"]: run for run in found if run["task"] == CASED}
    for label, names in systems:
        if runs := [of[name] for name in names if name in of]:
            yield label, runs


def differences_table(found: Sequence[Record]) -> str:
    """Returns the table of differences between runs that are not of one table of a paper."""
    first = sorted(found, key=lambda run: "begins_with" not in run)  # of one name the last counts
    runs = {(run["task"], run["name"]): run for run in first}
    lines, parts, used = [], set(), list[Record]()
    for pair in COMPARED:
        baseline, system = (
            [runs[pair.task, name] for name in names if (pair.task, name) in runs]
            for names in (pair.baseline[1], pair.system[1])
        )
        if line := tables.comparison(baseline, system, pair.paper):
            lines.append((pair.baseline[0], pair.system[0], *line))
            parts.add(baseline[0]["part"])
            used += [*baseline, *system]
    if not lines:
        return tables.NOTHING
    kinds: dict[str, dict[str, None]] = {}
    for run in used:
        if kind := run["changed_settings"].get(PRECISION):
            kinds.setdefault(kind, {})[f"`{run['name']}`"] = None
    return "\n\n".join(
        [markdown(tables.comparison_head(parts), lines), *tables.trained_with(kinds)]
    )
