"""The generated tables of the documents, made from results."""

from __future__ import annotations

import functools
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dtmt_tf.evaluation.sentences import Counts, paired_bootstrap
from pipelines.benchmark.speed import markdown
from pipelines.papers import records
from pipelines.papers.jobs import PRECISION
from pipelines.papers.paper import Paper, Table
from pipelines.papers.records import Record
from pipelines.papers.shown import HEADLINE

NOTHING = "Not run yet."
SIGNIFICANT = 0.05
CONFIRMED, CONTRADICTED, NEITHER = "confirmed", "contradicted", "neither"
ONE_SEED = "not judged by one seed"
VERDICTS = (CONFIRMED, CONTRADICTED, NEITHER, ONE_SEED)


# Runs that are no rows of the paper.


def headline_table(found: Sequence[Record]) -> str:
    """Returns the table at the top of README and RESULTS."""
    lines = []
    for entry in HEADLINE:
        runs = [run for name in entry.runs for run in found
                if (run["task"], run["name"], run["row"]) == (entry.task, name, "")]  # fmt: skip
        if len(runs) == len(entry.runs):
            chrf = statistics.fmean(run["scores"][run["part"]]["chrf"] for run in runs)
            minutes = _range((run["seconds_in_updates"] / 60 for run in runs), "{:,.0f}")
            lines.append((
                entry.corpus, entry.model, f"{runs[0]['parameters'] / 1e6:.1f} M",
                f"{minutes} min, {entry.cores}", mean_bleu(runs, runs[0]["part"]), f"{chrf:.2f}",
            ))  # fmt: skip
    head = ("text", "model", "parameters", "training on a CPU", "test BLEU", "chrF2")
    return markdown(head, lines) or NOTHING


def runs_table(found: Sequence[Record]) -> str:
    """Returns the table of runs that were added, those that differ in seed alone in one line."""
    groups = _groups(
        (record for record in found if not record["row"]),
        lambda record: (
            *(record["task"], record["direction"], record["model"], record["settings_hash"]),
            *(record["batches_an_update"], tuple(record["members"]), records.corpus(record)),
            record.get("init_from", ""),
        ),
    )
    splits = _splits(record for group in groups.values() for record in group)
    head = ("task", "languages", "runs", "model", "parameters", "seeds", "updates", "epochs",
            "M tokens", "minutes", "tok/s", "threads",
            *(f"{split} BLEU" for split in splits))  # fmt: skip
    lines = []
    for (task, direction, model, *_), group in groups.items():
        runs = sorted(group, key=lambda record: (record["seed"], record["name"]))
        members = runs[0]["members"]
        began = f", which began with {other}" if (other := runs[0].get("init_from")) else ""
        by_seed = {run["seed"]: run for run in runs}  # a seed that ran twice counts once
        lines.append((
            task, direction, ", ".join(run["name"] for run in runs) + began,
            " + ".join(members) or model,
            f"{runs[0]['parameters']:,}",
            "" if members else ", ".join(str(run["seed"]) for run in runs),
            _range((run["updates"] for run in runs), "{:,}"),
            _range((run["epochs"] for run in runs), "{:.1f}"),
            _range((run["target_words"] / 1e6 for run in runs), "{:.1f}"),
            _range((run["seconds_in_updates"] / 60 for run in runs), "{:.1f}"),
            _range((run["target_words_per_second"] for run in runs), "{:,.0f}"),
            _each([run["machine"] for run in runs], "{threads}"),
            *(mean_bleu(list(by_seed.values()), split, each=True) for split in splits),
        ))  # fmt: skip
    return markdown(head, lines) or NOTHING


# Rows of the paper.


def rows_table(table: Table, group: Sequence[Record]) -> str:
    """Returns a table of the paper for results of one budget, and its comparisons."""
    splits = _splits(group)
    ours = table.cross_entropy or any(record.get("cross_entropy") for record in group)
    entropies = ("validation CE",) * bool(ours) + ("paper's CE",) * bool(table.cross_entropy)
    prints = any(paper is not None for _, paper in table.rows.values())
    theirs = ("paper's BLEU",)[:prints]
    head = ("row", "parameters", "updates", "seeds", "tok/s",
            *(f"{split} BLEU" for split in splits), *theirs, *entropies)  # fmt: skip
    lines = [
        (label, f"{runs[0]['parameters']:,}", _each(runs, "{updates:,}"), len(runs),
         _each(runs, "{target_words_per_second:,.0f}"),
         *(mean_bleu(runs, split) for split in splits), *(_printed(paper),)[:prints],
         *(least_entropy(runs), _printed(_entropy(table, runs)))[: len(entropies)])
        for label, paper, runs in labelled(table, group)
    ]  # fmt: skip
    if table.lists_all:
        there = {record["row"] for record in group}
        blank = ("",) * len(splits)
        lines += [
            (label, "", "not run", "", "", *blank, *(_printed(paper),)[:prints],
             *("", _printed(table.cross_entropy.get(row)))[: len(entropies)])
            for row, (label, paper) in table.rows.items() if row not in there
        ]  # fmt: skip
    comparisons = [_comparisons(table, records.by_row(runs)) for runs in by_series(group)]
    precisions = _precisions(table, group)
    return "\n\n".join(filter(None, (markdown(head, lines), precisions, *comparisons)))


def _precisions(table: Table, group: Sequence[Record]) -> str:
    """Returns which results `--precision` trained with another than their task's."""
    kinds: dict[str, list[str]] = {}
    for label, _, runs in labelled(table, group):
        for record in runs:
            kind = record["changed_settings"].get(PRECISION)
            if kind and f"{PRECISION}={kind}" not in record["series"]["set"]:
                kinds.setdefault(kind, []).append(f"{label} (seed {record['seed']})")
    return " ".join(trained_with(kinds))


def trained_with(kinds: Mapping[str, Iterable[str]]) -> list[str]:
    """Returns a sentence for each precision that names what was trained with it."""
    return [
        f"Trained with `{PRECISION}={kind}`: {', '.join(runs)}." for kind, runs in kinds.items()
    ]


def _printed(value: float | None) -> str:
    """Returns a number of the paper, if it has one."""
    return "" if value is None else f"{value:.2f}"


def _entropy(table: Table, runs: Sequence[Record]) -> float | None:
    return table.cross_entropy.get(runs[0]["row"])


def least_entropy(runs: Sequence[Record]) -> str:
    """Returns the least cross entropy of validation, the mean over seeds, if all have it."""
    least = [min(run["cross_entropy"].values()) for run in runs if run.get("cross_entropy")]
    return f"{statistics.fmean(least):.3f}" if len(least) == len(runs) else ""


def _comparisons(table: Table, by_row: Mapping[str, Sequence[Record]]) -> str:
    """Returns the table of differences, and whether they confirm the paper's."""
    parts = {by_row[row][0]["part"] for pair in table.pairs for row in pair if row in by_row}
    lines = _differences(table, by_row)
    return markdown(comparison_head(parts), lines) if lines else ""


def _differences(table: Table, by_row: Mapping[str, Sequence[Record]]) -> list[tuple[str, ...]]:
    """Returns a line for each pair of rows with results; the verdict is its last column."""
    lines = []
    for pair in table.pairs:
        (label, before), (other, after) = (table.rows[row] for row in pair)
        paper = None if before is None or after is None else after - before
        runs, others = (by_row.get(row, []) for row in pair)
        if line := comparison(runs, others, paper):
            lines.append((label, other, *line))
    return lines


def verdicts_table(found: Sequence[Record], papers: Iterable[Paper]) -> str:
    """Returns how many of the differences that each table prints came out as in the paper."""
    lines = []
    for paper in papers:
        of = [record for record in found if records.is_of(record, paper)]
        for name, table in paper.tables.items():
            counts = Counter(
                line[-1]
                for group in budgets(of, table).values()
                for runs in by_series(group)
                for line in _differences(table, records.by_row(runs))
            )
            if any(counts[verdict] for verdict in VERDICTS):
                lines.append((paper.title, name, *(counts[each] or "" for each in VERDICTS)))
    return markdown(("paper", "table", *VERDICTS), lines) or NOTHING


def comparison_head(parts: Iterable[str]) -> tuple[str, ...]:
    """Returns the head of a table of comparisons."""
    scored = f"{', '.join(sorted(parts))} BLEU, by seed"
    return "baseline", "system", scored, "mean", "p", "paper", "the paper is"


def comparison(
    baseline: Sequence[Record], system: Sequence[Record], paper: float | None
) -> tuple[str, ...]:
    """Returns changes, mean, p, the paper's change and the verdict; () without a common seed.

    Two rows on top of another's weights are compared if these were the same.
    """
    sides = baseline, system
    on_top = all(run.get("series", {}).get("begin_with") for side in sides for run in side)
    key = records.trained_from if on_top else _seed_alone
    runs = [{key(run): run for run in side} for side in sides]
    seeds = sorted(set(runs[0]) & set(runs[1]))
    if not seeds:
        return ()
    part = runs[0][seeds[0]]["part"]
    scores = [[run[seed]["scores"][part]["bleu"] for seed in seeds] for run in runs]
    changes = [after - before for before, after in zip(*scores, strict=True)]
    first, second = (_added([run[seed] for seed in seeds]) for run in runs)
    p_value = _p_value(first.shape, first.tobytes(), second.tobytes())
    return (
        ", ".join(f"{change:+.2f}" for change in changes),
        f"{statistics.fmean(changes):+.2f}", f"{p_value:.3f}",
        "" if paper is None else f"{paper:+.2f}",
        _verdict(changes, p_value, paper, len({seed for seed, _ in seeds})),
    )  # fmt: skip


def _seed_alone(record: Record) -> tuple[int, str]:
    return record["seed"], ""


@functools.cache
def _p_value(shape: tuple[int, ...], baseline: bytes, system: bytes) -> float:
    """Returns the p-value of two systems' counts, which tables that are made again share."""
    counts = (np.frombuffer(each, np.int64).reshape(shape) for each in (baseline, system))
    return paired_bootstrap(*counts)


def _verdict(changes: Sequence[float], p_value: float, paper: float | None, seeds: int) -> str:
    """Returns whether changes of the score, by trainings of so many seeds, confirm the paper's."""
    if not paper:
        return ""
    if seeds < 2:
        return ONE_SEED
    agree = all(change * changes[0] > 0 for change in changes)
    if p_value >= SIGNIFICANT or not agree:
        return NEITHER
    return CONFIRMED if changes[0] * paper > 0 else CONTRADICTED


def _added(runs: Iterable[Record]) -> Counts:
    """Returns the counts of several trainings, added up sentence by sentence."""
    total: Counts = sum(records.counts_of(run) for run in runs)  # type: ignore[assignment]
    return total


def _groups(found: Iterable[Record], key: Callable[[Record], Any]) -> dict[Any, list[Record]]:
    groups: dict[Any, list[Record]] = {}
    for record in found:
        groups.setdefault(key(record), []).append(record)
    return groups


def budgets(found: Sequence[Record], table: Table) -> dict[tuple[str, str], list[Record]]:
    """Returns the results of a table's rows by task and budget.

    A series that changes a setting in all rows (`--set`) shares the table of its budget, but is
    compared only with itself.
    """
    groups = _groups(
        (
            record
            for record in found
            if record["row"] in table.rows
            and record["task"] in (table.tasks or [record["task"]])
            and (not table.contrast or record.get("contrast"))
        ),
        lambda record: (record["task"], record["series"]["hash"], record["batches_an_update"]),
    )
    plain: dict[Any, list[Record]] = {}
    for group in sorted(groups.values(), key=lambda group: bool(_changes(group))):
        first = group[0]
        series = first["series"]
        key = (first["task"], series["preset"], series["max_steps"],
               series.get("recipe", ""), series.get("begin_with", ""),
               first["batches_an_update"])  # fmt: skip
        beside = plain.get(key, [])  # unless another text is scored
        same = bool(beside) and records.corpus(first)[0] == records.corpus(beside[0])[0]
        if _changes(group) and same and not _changes(beside):
            plain[key] += group
        else:
            plain[(*key, series["hash"]) if key in plain else key] = list(group)
    return {(g[0]["task"], records.series_title(g[0])): g for g in plain.values()}


def _changes(group: Sequence[Record]) -> str:
    """Returns what a series changes in all its rows, "" if one of its results says nothing."""
    sets: list[list[str]] = [record["series"]["set"] for record in group]
    return min(map(" ".join, sets), key=len)


def by_series(group: Sequence[Record]) -> list[list[Record]]:
    """Returns the results of a budget by what they change, the least first."""
    return list(_groups(group, lambda record: record["series"]["hash"]).values())


def labelled(
    table: Table, group: Sequence[Record]
) -> Iterator[tuple[str, float | None, list[Record]]]:
    """Yields label, the paper's BLEU and results of each row; a changed series names its change."""
    for series in by_series(group):
        by_row = records.by_row(series)
        change = _changes(series) if series[0]["series"] != group[0]["series"] else ""
        for row, (label, paper) in table.rows.items():
            if runs := by_row.get(row):
                yield label + f", `{change}`" * bool(change), paper, runs


def each_budget(
    found: Sequence[Record], table: Table, make: Callable[[Table, Sequence[Record]], str]
) -> str:
    """Returns a section for each budget, headed by the settings that its rows share.

    The one with most rows is first, and it alone lists what was not run.
    """
    groups = budgets(found, table)
    rows = {key: len({record["row"] for record in group}) for key, group in groups.items()}
    parts: list[str] = []
    for (task, series), group in sorted(groups.items(), key=lambda item: -rows[item[0]]):
        shown = replace(table, lists_all=table.lists_all and not parts)
        parts += [f"`{task}`, {series}.", make(shown, group)]
    nothing = make(table, []) if table.lists_all else NOTHING
    return "\n\n".join(parts) or nothing


def _splits(used: Iterable[Record]) -> list[str]:
    """Returns the splits that were scored, validation and test first."""
    return list(dict.fromkeys(split for record in used for split in record["scores"]))


def mean_bleu(runs: Sequence[Record], split: str, each: bool = False) -> str:
    """Returns mean and standard deviation over seeds; with `each`, every score, too."""
    scores = [run["scores"][split]["bleu"] for run in runs if split in run["scores"]]
    if not scores:
        return ""
    text = f"{statistics.fmean(scores):.2f}"
    if len(scores) > 1:
        text += f" ± {statistics.stdev(scores):.2f}"
        text += f" ({', '.join(f'{score:.2f}' for score in scores)})" * each
    return text


def _range(values: Iterable[float], form: str) -> str:
    """Returns least and greatest of values, or one if they print alike."""
    found = sorted(values)
    return "–".join(dict.fromkeys(form.format(value) for value in (found[0], found[-1])))


def _each(values: Iterable[Mapping[str, Any]], form: str) -> str:
    """Returns a value of each run, or one if they agree."""
    return ", ".join(dict.fromkeys(form.format(**value) for value in values))


def conditions(found: Sequence[Record]) -> str:
    """Returns signatures, beam sizes, machines and versions, each with its tasks."""
    tasks: dict[str, dict[str, None]] = {}
    for run in found:
        machine = run["machine"]
        said = [f"{name}: `{score[key]}`"
                for score in run["scores"].values()
                for name, key in (("BLEU", "bleu_signature"), ("chrF2", "chrf_signature"))
                if key in score]  # fmt: skip
        said.append(f"beam {run['beam_size']}, length penalty {run['length_penalty']}")
        said.append(machine["processor"] + f", {machine['gpus']} GPUs" * bool(machine["gpus"]))
        said.append(", ".join(f"{name} {number}" for name, number in run["versions"].items()))
        for text in said:
            tasks.setdefault(text, {})[run["task"]] = None
    lines = [f"- {text} ({', '.join(names)})" for text, names in sorted(tasks.items())]
    return "\n".join(lines) or NOTHING
