"""Writes the tables of RESULTS.md from records, and makes records of finished runs."""

from __future__ import annotations

import argparse
import functools
import re
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dtmt_tf import startup
from dtmt_tf.commands import common
from dtmt_tf.commands.parser import Parser
from dtmt_tf.config import as_override
from dtmt_tf.errors import UserError
from dtmt_tf.evaluation import write_json
from dtmt_tf.evaluation.sentences import Counts, bleu_of, paired_bootstrap
from dtmt_tf.files import write_atomically
from pipelines.benchmark import speed
from pipelines.benchmark.speed import markdown
from pipelines.papers import PAPERS, records
from pipelines.papers.paper import Paper, Table
from pipelines.papers.records import Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REPORT = Path(__file__).resolve().parents[2] / "RESULTS.md"
NOTHING = "Not run yet."
SIGNIFICANT = 0.05
BOOTSTRAP = "paired bootstrap, 1,000 samples, seed 12345"
STEP = 10  # words, between the lengths of a figure
FEWEST = 20  # sentences that have a BLEU of their own there


def command() -> int:
    """Rewrites the tables; with `add`, records runs before."""
    parser = Parser(
        "python pipelines/report.py",
        "Rewrite the generated parts of RESULTS.md from the records of finished runs. With add, "
        "first make a record of each run named; its settings, seed, scores, size and speed are "
        "listed in the table of runs.",
        "python pipelines/report.py",
        "python pipelines/report.py add saved_models/multi30k_ende/dtmt_tied",
    )
    parser.add_argument("action", nargs="?", choices=["add"], help="make records of runs")
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN", help="folders of trained runs")
    folders = parser.add_argument_group("where")
    common.add_folders(folders)
    add_files(folders)
    args = parser.parse_args()
    if args.action and not args.runs:
        raise UserError("Name the folder of a run, such as saved_models/multi30k_ende/dtmt_tied.")
    if args.action:
        startup.start_tensorflow()
        from dtmt_tf.runs import Run

        for folder in args.runs:
            run = Run.open(folder, common.data_dir(args), common.cache_dir())
            path = args.records / f"{run.experiment.task}-{folder.resolve().name}.json"
            known = records.read_record(path) if path.exists() else {}
            records.check_same(path, known, run)
            record = records.make_record(run, known.get("row", ""), known.get("series"))
            write_json(path, record)
            print(f"Record: {path}")
    rewrite(args.report, args.records)
    print(f"Tables: {args.report}")
    return 0


def add_files(group: argparse._ActionsContainer) -> None:
    """Adds the places of records and report to a parser."""
    group.add_argument("--records", type=Path, default=records.RECORDS, metavar="DIR",
                       help="one file a run (default: pipelines/results)")  # fmt: skip
    group.add_argument("--report", type=Path, default=REPORT, metavar="FILE",
                       help="where tables are rewritten (default: RESULTS.md)")  # fmt: skip


def rewrite(path: Path, folder: Path) -> None:
    """Puts what the records of a folder say between the markers of a file; the rest of it stays.

    Raises:
        UserError: If the file is not there or lacks a marker.
    """
    if not path.exists():
        raise UserError(f"{path} was not found. Its tables stand between <!-- dtmt table 3 --> "
                        "and <!-- end -->; RESULTS.md is an example.")  # fmt: skip
    parts = sections(records.read_records(folder), records.read_speeds(folder))
    write_atomically(path, replace(path.read_text("utf-8"), parts).encode())


def replace(text: str, parts: Mapping[str, str]) -> str:
    """Returns a text with other parts between its markers.

    Raises:
        UserError: If the text has no place for a part, or two.
    """
    for name, section in parts.items():
        marker = f"<!-- {name} -->"
        pattern = re.compile(re.escape(marker) + r"\n.*?<!-- end -->", re.DOTALL)
        content = f"{marker}\n\n{section}\n\n<!-- end -->"
        text, count = pattern.subn(lambda _, content=content: content, text)  # type: ignore[misc]
        if count != 1:
            raise UserError(
                f"The report should have one part from {marker} to <!-- end -->. Found: {count}."
            )
    return text


def sections(found: Sequence[Record], speeds: Sequence[Record] = ()) -> dict[str, str]:
    """Returns every generated part, by the name in its marker.

    Args:
        found: Records of runs.
        speeds: Records of benchmark.py.
    """
    parts = {"runs": runs_table(found)}
    for paper in PAPERS.values():
        of = [record for record in found if records.is_of(record, paper)]
        parts |= {f"{paper.name} table {name}": _each_series(of, table, rows_table)
                  for name, table in paper.tables.items()}  # fmt: skip
        parts |= {f"{paper.name} figure {name}": _each_series(of, table, lengths_table)
                  for name, table in paper.figures.items()}  # fmt: skip
    return parts | {"speed": speed.section(speeds) or NOTHING}


# Runs that are no rows of the paper.


def runs_table(found: Sequence[Record]) -> str:
    """Returns the table of runs that were added, and the mean of those that differ in seed."""
    groups = _groups(
        (record for record in found if not record["row"]),
        lambda record: (
            *(record["task"], record["direction"], record["model"], record["settings_hash"]),
            *(record["batches_an_update"], tuple(record["members"]), records.corpus(record)),
        ),
    )
    used = [record for group in groups.values() for record in group]
    splits = _splits(used)
    head = ("task", "from-to", "run", "model", "parameters", "seed", "updates", "epochs",
            "target words", "minutes", "words/s", "threads", "beam",
            *(f"{split} BLEU" for split in splits))  # fmt: skip
    lines = []
    for (task, direction, model, *_), group in groups.items():
        for record in sorted(group, key=lambda record: record["seed"]):
            members = record["members"]
            lines.append((
                task, direction, record["name"], " + ".join(members) or model,
                f"{record['parameters']:,}", "" if members else record["seed"],
                f"{record['updates']:,}", f"{record['epochs']:.1f}", f"{record['target_words']:,}",
                f"{record['seconds_in_updates'] / 60:.1f}",
                f"{record['target_words_per_second']:,.0f}", record["machine"]["threads"],
                record["beam_size"], *(_bleu([record], split) for split in splits),
            ))  # fmt: skip
        by_seed = {record["seed"]: record for record in group}  # a seed twice counts once
        if len(by_seed) > 1:
            means = (_bleu(list(by_seed.values()), split) for split in splits)
            lines.append((task, direction, "", model, "", "mean", *[""] * 7, *means))
    settings = [
        f"- {', '.join(record['name'] for record in group)} of {task}: "
        + _settings(group[0]["changed_settings"])
        for (task, *_), group in groups.items()
        if group[0]["changed_settings"]
    ]
    curves = [
        f"- {record['name']} of {record['task']}, validation BLEU after "
        + ", ".join(f"{int(step):,} updates {bleu:.1f}" for step, bleu in record["curve"].items())
        for record in used
        if record["curve"]
    ]
    notes = "\n".join(settings + curves)
    return "\n\n".join(_parts(markdown(head, lines), notes, _conditions(used)))


# Rows of the paper.


def rows_table(table: Table, group: Sequence[Record]) -> str:
    """Returns a table of the paper for records that share a series, and its comparisons."""
    by_row = records.by_row(group)
    splits = _splits(group)
    head = ("row", "parameters", "updates", "seeds", "words/s", "threads",
            *(f"{split} BLEU" for split in splits), "paper's BLEU")  # fmt: skip
    lines = []
    for row, (label, paper) in table.rows.items():
        if runs := by_row.get(row):
            lines.append((
                label, f"{runs[0]['parameters']:,}", _each(runs, "{updates:,}"),
                len(runs), _each(runs, "{target_words_per_second:,.0f}"),
                _each([run["machine"] for run in runs], "{threads}"),
                *(_bleu(runs, split) for split in splits),
                "" if paper is None else f"{paper:.2f}",
            ))  # fmt: skip
    return "\n\n".join(_parts(markdown(head, lines), _comparisons(table, by_row)))


def _comparisons(table: Table, by_row: Mapping[str, Sequence[Record]]) -> str:
    """Returns the table of differences, and what they say of the paper's."""
    lines, part = [], ""
    for pair in table.pairs:
        if not all(row in by_row for row in pair):
            continue
        runs = [{run["seed"]: run for run in by_row[row]} for row in pair]
        seeds = sorted(set(runs[0]) & set(runs[1]))
        if not seeds:
            continue
        part = runs[0][seeds[0]]["part"]
        scores = [[run[seed]["scores"][part]["bleu"] for seed in seeds] for run in runs]
        changes = [system - baseline for baseline, system in zip(*scores, strict=True)]
        p_value = paired_bootstrap(*(_added([run[seed] for seed in seeds]) for run in runs))
        (label, before), (other, after) = (table.rows[row] for row in pair)
        paper = None if before is None or after is None else after - before
        lines.append((
            label, other, ", ".join(f"{change:+.2f}" for change in changes),
            f"{statistics.fmean(changes):+.2f}", f"{p_value:.3f}",
            "" if paper is None else f"{paper:+.2f}", _verdict(changes, p_value, paper),
        ))  # fmt: skip
    if not lines:
        return ""
    head = ("baseline", "system", f"{part} BLEU, by seed", "mean", "p", "paper", "the paper is")
    return markdown(head, lines) + f"\n\np: {BOOTSTRAP}; counts of common seeds added up."


def _verdict(changes: Sequence[float], p_value: float, paper: float | None) -> str:
    """Returns what changes of the score, one of each seed, say of the paper's."""
    if not paper:
        return ""
    if len(changes) < 2:
        return "not judged by one seed"
    agree = all(change * changes[0] > 0 for change in changes)
    if p_value >= SIGNIFICANT or not agree:
        return "neither"
    return "confirmed" if changes[0] * paper > 0 else "contradicted"


def _added(runs: Iterable[Record]) -> Counts:
    """Returns the counts of several trainings, added up sentence by sentence."""
    total: Counts = sum(records.counts_of(run) for run in runs)  # type: ignore[assignment]
    return total


# Length of sentences.


def lengths_table(table: Table, group: Sequence[Record]) -> str:
    """Returns BLEU of the sentences longer than 0, 10, 20, ... source words, by row."""
    sizes, curves = _curves(table, group)
    rows = [(label, *(f"{bleu:.2f}" for bleu in curve)) for label, curve in curves.items()]
    head = ("longer than", *(str(STEP * k) for k in range(len(sizes))))
    return markdown(head, [("sentences", *(f"{size:,}" for size in sizes)), *rows])


def _curves(table: Table, group: Sequence[Record]) -> tuple[list[int], dict[str, list[float]]]:
    """Returns the number of sentences at each length, and the BLEU there (mean over seeds)."""
    import numpy as np

    words = np.array(group[0]["sentences"]["source_words"].split(), np.int64)
    bounds = [
        bound for bound in range(0, int(words.max()), STEP) if (words > bound).sum() >= FEWEST
    ]
    by_row = records.by_row(group)
    curves = {}
    for row, (label, _) in table.rows.items():
        if runs := by_row.get(row):
            counts = [records.counts_of(run) for run in runs]
            curves[label] = [
                statistics.fmean(bleu_of(rows[words > bound]) for rows in counts)
                for bound in bounds
            ]
    return [int((words > bound).sum()) for bound in bounds], curves


def draw(paper: Paper, found: Sequence[Record], folder: Path) -> list[Path]:
    """Draws a paper's figures, one for each series: `<folder>/<task>/dtmt-figure3.png`.

    Returns:
        The files. A series without a row of the figure has none.
    """
    paths = []
    of = [record for record in found if records.is_of(record, paper)]
    for name, table in paper.figures.items():
        drawn: dict[str, int] = {}
        for (task, series), group in _series(of, table).items():
            drawn[task] = drawn.get(task, 0) + 1
            number = f"-{drawn[task]}" if drawn[task] > 1 else ""
            path = folder / task / f"{paper.name}-figure{name}{number}.png"
            figure = _draw(f"{task}, {series}", *_curves(table, group))
            write_atomically(path, functools.partial(figure.savefig, format="png", dpi=150))
            paths.append(path)
    return paths


def _draw(title: str, sizes: Sequence[int], curves: Mapping[str, Sequence[float]]) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.add_subplot()
    bounds = [STEP * k for k in range(len(sizes))]
    for marker, (label, curve) in zip("osD^v", curves.items(), strict=False):
        axes.plot(bounds, curve, marker=marker, label=label)
    axes.set_xticks(bounds, [f"{b}\n{n:,}" for b, n in zip(bounds, sizes, strict=True)])
    axes.set_xlabel("source sentences longer than ... words, and their number")
    axes.set_ylabel("BLEU")
    axes.set_title(title, fontsize="small", wrap=True)
    axes.grid(alpha=0.3)
    axes.legend()
    return figure


# What the tables share.


def _groups(found: Iterable[Record], key: Callable[[Record], Any]) -> dict[Any, list[Record]]:
    groups: dict[Any, list[Record]] = {}
    for record in found:
        groups.setdefault(key(record), []).append(record)
    return groups


def _series(found: Sequence[Record], table: Table) -> dict[tuple[str, str], list[Record]]:
    """Returns the records of a table's rows, apart by task and by what its rows share."""
    groups = _groups(
        (record for record in found if record["row"] in table.rows),
        lambda record: (record["task"], record["series"]["hash"], record["batches_an_update"]),
    )
    return {(task, records.series_title(group[0])): group for (task, *_), group in groups.items()}


def _each_series(
    found: Sequence[Record], table: Table, make: Callable[[Table, Sequence[Record]], str]
) -> str:
    """Returns a part for each series, under the settings that its rows share."""
    parts = []
    for (task, series), group in _series(found, table).items():
        parts += [f"`{task}`, {series}.", make(table, group), _conditions(group)]
    return "\n\n".join([f"{table.title}.", *(parts or [NOTHING])])


def _splits(used: Iterable[Record]) -> list[str]:
    """Returns the parts that were scored, validation and test first."""
    return list(dict.fromkeys(split for record in used for split in record["scores"]))


def _bleu(runs: Sequence[Record], split: str) -> str:
    """Returns mean and standard deviation over seeds."""
    scores = [run["scores"][split]["bleu"] for run in runs if split in run["scores"]]
    if not scores:
        return ""
    spread = f" ± {statistics.stdev(scores):.2f}" if len(scores) > 1 else ""
    return f"{statistics.fmean(scores):.2f}{spread}"


def _each(values: Iterable[Mapping[str, Any]], form: str) -> str:
    """Returns a value of each run, or one if they agree."""
    return ", ".join(dict.fromkeys(form.format(**value) for value in values))


def _settings(changed: Mapping[str, Any]) -> str:
    return "`" + " ".join(f"{key}={as_override(value)}" for key, value in changed.items()) + "`"


def _conditions(used: Sequence[Record]) -> str:
    """Returns the signatures of BLEU and the machines, for the foot of a table."""
    if not used:
        return ""
    signatures = {score["bleu_signature"] for run in used for score in run["scores"].values()}
    machines = {
        run["machine"]["processor"]
        + f", {run['machine']['gpus']} GPUs" * bool(run["machine"]["gpus"])
        for run in used
    }
    quoted = ", ".join(f"`{signature}`" for signature in sorted(signatures))
    return f"BLEU: {quoted}; ± one standard deviation over seeds. On {', '.join(sorted(machines))}."


def _parts(*texts: str) -> list[str]:
    return [text for text in texts if text] or [NOTHING]
