"""Lists the runs that there are, and how far each has come."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from dtmt_tf import startup
from dtmt_tf.caller import as_called
from dtmt_tf.commands import common, options
from dtmt_tf.commands.parser import Parser
from dtmt_tf.errors import UserError

if TYPE_CHECKING:
    from dtmt_tf.runs import RunSummary

HEAD = ("run", "model", "updates", "valid.", "test", "version", "state")
NUMBERS = {"updates", "valid.", "test", "version"}  # columns that are aligned to the right


def command(arguments: Sequence[str] | None = None) -> int:
    """Finds, prints."""
    args = _parser().parse_args(arguments)
    startup.start_tensorflow()

    from dtmt_tf.runs import summaries
    from dtmt_tf.tasks import TASKS

    task = common.choose(args.task, TASKS, "task", "").name if args.task else "*"
    found = list(summaries(args.output_dir, task))
    if not found:
        of = f" of {args.task}" if args.task else ""
        raise UserError(f"{args.output_dir} holds no run{of}. dtmt train makes one.")
    if args.json:
        for run in found:
            print(json.dumps(dataclasses.asdict(run), ensure_ascii=False))
        return 0
    print("\n\n".join(_table(task, list(of)) for task, of in groupby(found, lambda run: run.task)))
    return 0


def _parser() -> Parser:
    parser = Parser(
        "dtmt runs",
        "List the runs that there are, by task: model, updates made and to make, BLEU of the best "
        "validation and of the test split, the newest exported version, and whether the run is "
        "trained, stopped before its end or running now.",
        "dtmt runs",
        "dtmt runs --task multi30k_ende --json",
    )
    options.add_task_alone(parser, "all")
    options.add_output_dir(parser)
    parser.add_argument("--json", action="store_true", help="print a JSON object for each run")
    return parser


def _table(task: str, runs: Sequence[RunSummary]) -> str:
    """Returns the runs of a task as aligned columns, then what is wrong with those damaged."""
    rows = [HEAD, *map(_row, runs)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            cell.rjust(width) if title in NUMBERS else cell.ljust(width)
            for cell, width, title in zip(row, widths, HEAD, strict=True)
        )
        for row in rows
    ]
    problems = [as_called(f"{run.name}: {run.problem}") for run in runs if run.problem]
    return "\n".join([task, *(f"  {line.rstrip()}" for line in lines), *problems])


def _row(run: RunSummary) -> tuple[str, ...]:
    done = f"{run.updates:,}"
    if run.state in ("stopped", "running", "new"):
        done += f" of {run.max_steps:,}"
    best, test = (
        "" if score is None else f"{score:.2f}"
        for score in (run.best_validation, run.test.get("test"))
    )
    version = str(run.versions[-1]) if run.versions else ""
    return run.name, run.model, done if run.model else "", best, test, version, run.state
