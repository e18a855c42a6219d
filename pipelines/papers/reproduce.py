"""Runs the rows of a paper's tables with one budget; the same command goes on where it stopped."""

from __future__ import annotations

import argparse
import contextlib
import functools
import logging
import multiprocessing
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dtmt_tf import startup
from dtmt_tf.commands import common, lines, options, process
from dtmt_tf.commands.contrast import read_set
from dtmt_tf.commands.parser import Parser
from dtmt_tf.errors import UserError
from dtmt_tf.files import write_json
from dtmt_tf.quiet import quiet_stderr
from dtmt_tf.tasks import TASKS
from pipelines.papers import PAPERS, contrasts, pictures, records, report
from pipelines.papers.jobs import (
    PRECISION,
    Job,
    beginning,
    finished,
    make_job,
    make_jobs,
    series,
    shared_training,
)
from pipelines.papers.paper import Paper

logger = logging.getLogger(__name__)
spawn = multiprocessing.get_context("spawn")  # each row has a process, which gives all memory back

CRASHES = {128 + each for each in (signal.SIGKILL, signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS)}
REFUSED = {  # for all rows
    "training.max_steps": "--max-steps says that",
    "training.seed": "--seeds says that",
    "training.patience": "the rows of a table make all their updates",
}
REFUSED_IF_TIMED = dict.fromkeys(
    ("training.schedule_decay_start", "training.schedule_decay_end"),
    "it would not follow the updates of the row of equal minutes; leave that out with --rows",
)


def command() -> int:
    """Prints the plan, or runs the missing rows and rewrites the tables."""
    args = _parser().parse_args()
    paper = PAPERS[args.paper]
    tables = paper.by_task(args.table, args.task)
    if args.figure and not args.task:
        tables.setdefault(paper.task, [])
    if len(tables) > 1 and (args.rows or args.begin_with):
        each = "; ".join(f"{', '.join(names)} of {task}" for task, names in tables.items())
        raise UserError(f"--rows and --begin-with go with tables of one task. Asked for: {each}.")
    asked = (paper.figures[name] for name in args.figure if name in paper.figures)
    if args.contrast and not any(figure.contrast for figure in asked):
        raise UserError("--contrast goes with --figure 5 of deep_architectures, which shows them.")
    for task in tables:
        paper.trained_with(task, args.recipe)  # what is not there is told before hours of work
    drawn_of = args.task or paper.task  # figures
    for task, names in tables.items():
        of_task = {"task": task, "table": names, "figure": args.figure if task == drawn_of else []}
        if code := _reproduce(argparse.Namespace(**vars(args) | of_task), paper):
            return code
    return 0


def _reproduce(args: argparse.Namespace, paper: Paper) -> int:
    """Does the work of `command` for tables of one task."""
    common.choose(args.task, TASKS, "task", place="")
    if args.preset not in paper.presets:
        raise UserError(f"{paper.name} has the presets {', '.join(paper.presets)} alone.")
    with quiet_stderr():
        from dtmt_tf import models  # noqa: F401
    whole = shared_training(paper, args.task, args.recipe).max_steps
    args.max_steps = args.max_steps or whole
    rows = _rows(args)
    _check(args, paper, rows)
    args.seeds = list(dict.fromkeys(args.seeds))
    jobs = make_jobs(args, rows)
    if args.begin_with:
        widths = records.sizes(make_job(args, args.begin_with, 1).experiment)
        if other := [job.row for job in jobs if records.sizes(job.experiment) != widths]:
            raise UserError(
                f"{other[0]} has other sizes than {args.begin_with}; leave it out with --rows."
            )
    shared = series(args)
    if args.plan:
        print(
            f"{paper.title}\n{args.task}, preset {args.preset}, "
            f"seeds {' '.join(map(str, args.seeds))}\n"
        )
        from pipelines.papers import costs  # with TensorFlow

        costs.show({job.row: job.experiment for job in jobs}, paper.rows, len(args.seeds))
        return 0
    missing = [job for job in jobs if not _is_done(args, job)]
    for seed in dict.fromkeys(job.seed for job in missing):
        beginning(args, seed)
    page = report.page_of(args.report, args.records, paper)
    scored_anew = [job for job in missing if (args.records / job.record).exists()]
    for job in scored_anew:
        finished(args, job.row, job.seed)  # none is trained again for other contrasts
    if args.contrast:
        asked = [(job.row, job.seed) for job in jobs]
        contrasts.check_others(args.records, shared["hash"], asked, args.contrast)
    for job in scored_anew:
        contrasts.drop(args.records / job.record)  # with other sets no table is made
    report.rewrite(args.report, args.records)  # what it lacks is found before hours of work
    for k, job in enumerate(jobs, start=1):
        progress = f"Row {k} of {len(jobs)}: {job.row}, seed {job.seed}"
        job = make_job(args, job.row, job.seed, timed=True)
        if _is_done(args, job):
            logger.info("%s: done, %s", progress, job.record)
            continue
        if code := _run(args, job, progress, shared):
            print(f"Stopped in row {k} of {len(jobs)}; the same command goes on.", file=sys.stderr)
            return code
        report.rewrite(args.report, args.records)
    if args.figure:
        for path in pictures.draw_figures(
            paper, records.read_records(args.records), args.output_dir
        ):
            print(f"Figure: {path}")
    print(f"Tables: {page}")
    return 0


def _check(args: argparse.Namespace, paper: Paper, rows: Sequence[str]) -> None:
    """Raises a UserError if arguments do not fit, before hours of work."""
    if args.begin_with and args.begin_with not in (keys := paper.keys(args.preset)):
        raise UserError(f"Unknown row {args.begin_with!r}. --begin-with takes: {', '.join(keys)}.")
    lines.check_different("The set", args.contrast)
    for path in args.contrast:
        read_set(path)  # a missing or damaged one is told before hours of work
    needed = any(paper.figures[name].contrast for name in args.figure)
    if needed and not (args.contrast or args.plan):
        raise UserError("That figure shows accuracies on contrastive translations: --contrast SET.")
    refused = REFUSED | (REFUSED_IF_TIMED if any(paper.rows[row].time_of for row in rows) else {})
    for setting in args.set:
        if reason := refused.get(setting.partition("=")[0]):
            raise UserError(f"{setting} can not be set here: {reason}.")
        if args.precision and setting.startswith(f"{PRECISION}="):
            raise UserError(f"{setting} can not be set beside --precision.")


def _run(args: argparse.Namespace, job: Job, progress: str, shared: dict[str, Any]) -> int:
    """Trains, scores and records a row in a process of its own.

    Returns:
        0, or the exit code of a signal.

    Raises:
        UserError: If the row failed.
    """
    row = PAPERS[args.paper].rows[job.row]
    work = f"{job.experiment.training.max_steps:,} updates"
    if row.weights_of:
        trainings = f", {row.together} trainings" if row.together > 1 else ""
        work = f"weights of {row.weights_of}{trainings}"
    logger.info("%s: %s", progress, work)
    code = _in_process(functools.partial(_work, args, job.row, job.seed, shared))
    if code in CRASHES:
        raise UserError(
            f"{job.row} was killed. Memory may have run out: --set "
            "data.max_tokens_per_batch=N training.accumulation_steps=A reads as much in less."
        )
    if 0 < code <= 128:
        raise UserError(
            f"{job.row} failed, see above. To run the others first, name them with --rows. What is "
            "said above of --restart, --allow-changes and --devices is for dtmt train; to train "
            f"the row anew, remove {args.output_dir / args.task / job.name}."
        )
    return code


def _is_done(args: argparse.Namespace, job: Job) -> bool:
    """Whether a row has a record, with what `--contrast` asks for."""
    path = args.records / job.record
    if not (path.exists() and _contrasts(args, job.row)):
        return path.exists()
    known = records.read_record(path)
    asked = contrasts.hashes(args.contrast)
    return known.get("contrast_sets") == asked


def _contrasts(args: argparse.Namespace, row: str) -> list[Path]:
    """Returns the sets of contrasts that a row is scored on: those of figures that show them."""
    figures = (PAPERS[args.paper].figures[name] for name in args.figure)
    shown = any(figure.contrast and row in figure.rows for figure in figures)
    return list(args.contrast) if shown else []


def _parser() -> Parser:
    parser = Parser(
        "python pipelines/reproduce.py",
        "Run the rows of tables and figures of a paper, each with the same number of updates, "
        "score them, and rewrite the tables of the paper's page, such as DTMT.md. Rows that have "
        "a record are not run again: --records names another place, --report a copy of that page.",
        "python pipelines/reproduce.py dtmt --table 3 6 --plan",
        "python pipelines/reproduce.py dtmt --table 3 --rows gru0 lgru0 --seeds 1 2 \\",
        "    --max-steps 1650 --records mine --report mine.md",
        "python pipelines/reproduce.py dtmt --table 4 --figure 3 --max-steps 1650",
        "python pipelines/reproduce.py dtmt --table 5 --task wmt14_ende \\",
        "    --preset paper",
    )
    what = parser.add_argument_group("what")
    what.add_argument("paper", choices=PAPERS, metavar="PAPER", help=f"one of {', '.join(PAPERS)}")
    what.add_argument("--table", nargs="+", default=[], metavar="N",
                      help=f"tables: {_numbers('tables')}")  # fmt: skip
    what.add_argument("--figure", nargs="+", default=[], metavar="N",
                      help=f"figures: {_numbers('figures')}")  # fmt: skip
    what.add_argument("--contrast", nargs="+", type=Path, default=[], metavar="SET",
                      help="sets of contrastive translations that figure 5 of\n"
                      "deep_architectures shows; see dtmt contrast")  # fmt: skip
    what.add_argument("--rows", nargs="+", default=[], metavar="ROW",
                      help="only these rows; --plan lists all")  # fmt: skip
    what.add_argument("--begin-with", default="", metavar="ROW",
                      help="all rows begin with the trained weights of this one, of the\n"
                      "same seed and budget (default: with fresh ones)")  # fmt: skip
    what.add_argument("--task", metavar="NAME",
                      help=f"one of {', '.join(TASKS)} (default: the paper's)")  # fmt: skip
    presets = dict.fromkeys(name for paper in PAPERS.values() for name in paper.presets)
    what.add_argument("--preset", default="small", choices=presets,
                      help="small: 256 units; paper: its own (default: %(default)s)")  # fmt: skip
    budget = parser.add_argument_group("budget, the same for all rows")
    budget.add_argument("--max-steps", type=_positive, metavar="N",
                        help="updates (default: what the task's rows share); decay\n"
                        "and validations keep their share of them, warm-up stays")  # fmt: skip
    recipes = sorted({name for paper in PAPERS.values() for name in paper.recipes})
    budget.add_argument("--recipe", default="", choices=recipes,
                        help="how all rows train; short: 2,700 updates whose rate comes\n"
                        "down at the end, dtmt alone (default: what rows share)")  # fmt: skip
    budget.add_argument("--seeds", nargs="+", type=int, default=[1], metavar="SEED",
                        help="trainings of each row (default: 1)")  # fmt: skip
    budget.add_argument("--precision", choices=("float32", "bfloat16"),
                        help="training.precision, as the processor has it; a row that\n"
                        "was begun goes on (default: the task's)")  # fmt: skip
    options.add_set(budget, "change settings of all rows; what makes a row wins")
    folders = parser.add_argument_group("where")
    options.add_folders(folders)
    report.add_files(folders)
    parser.add_argument("--plan", action="store_true",
                        help="print each row's parameters, updates and hours on this machine,\n"
                        "from a few measured updates, and stop")  # fmt: skip
    return parser


def _numbers(kind: str) -> str:
    """Returns the tables or figures of each paper."""
    return "; ".join(
        f"{paper.name} {', '.join(getattr(paper, kind)) or 'none'}" for paper in PAPERS.values()
    )


def _positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"should be a whole number above 0. Received: {text!r}")
    return int(text)


def _rows(args: argparse.Namespace) -> list[str]:
    """Returns the requested rows, each once; rows that follow from others come last."""
    paper = PAPERS[args.paper]
    asked = [("table", name, paper.tables) for name in args.table]
    asked += [("figure", name, paper.figures) for name in args.figure]
    for kind, name, there in asked:
        if name not in there:
            raise UserError(
                f"{paper.name} has no {kind} {name} here. Choose from {', '.join(there) or 'none'}."
            )
    tables = [there[name] for _, name, there in asked]
    if not tables:
        raise UserError("Name a table or a figure, such as --table 3. --help lists them.")
    listed = dict.fromkeys(row for table in tables for row in table.rows)
    known = [row for row in listed if row in paper.keys(args.preset)]
    for row in args.rows:
        if row not in known:
            raise UserError(f"Unknown row {row!r}. Choose from {', '.join(known)}.")
    chosen = [row for row in known if row in (args.rows or known)]
    return sorted(
        chosen, key=lambda row: bool(paper.rows[row].time_of or paper.rows[row].weights_of)
    )


def _in_process(function: Any) -> int:
    """Runs a function in its own process; returns the exit code.

    Ctrl-C, and a lost terminal, reach it through this one alone, once, so that it can save.
    """
    process = spawn.Process(target=function)
    told: list[int] = []

    def forward(number: int, frame: Any) -> None:
        told.append(number)
        pass_on(number)

    def pass_on(number: int) -> None:
        if process.pid:
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.kill(process.pid, number)

    heard = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
    heard = [number for number in heard if signal.getsignal(number) != signal.SIG_IGN]
    former = {number: signal.signal(number, forward) for number in heard}
    try:
        process.start()
        for number in list(told):  # what came before it had a number
            pass_on(number)
        process.join()
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
    code = process.exitcode or 0
    if told:  # whatever the row came to, no other begins
        return 128 + told[0]
    return code if code >= 0 else 128 - code  # killed by a signal


def _work(args: argparse.Namespace, row: str, seed: int, shared: dict[str, Any]) -> None:
    """Trains, scores and records a row; ends the process."""
    os.setpgrp()
    process.main(functools.partial(_train, args, row, seed, shared))


def _train(args: argparse.Namespace, row: str, seed: int, shared: dict[str, Any]) -> int:
    startup.start_tensorflow()
    from dtmt_tf.runs import Run, Session, unite
    from dtmt_tf.training import Limits

    job = make_job(args, row, seed, timed=True)
    places = common.places(args)
    begins, folder = beginning(args, seed), args.output_dir / args.task / job.name
    run = Run(job.experiment, folder, *places, job.origins,
              init_from=Run.open(begins, *places) if begins else None)  # fmt: skip
    this = PAPERS[args.paper].rows[row]
    if this.together > 1:
        decoding = [setting for setting in this.settings if setting.startswith("decoding.")]
        trained = [finished(args, this.weights_of, k) for k in range(seed, seed + this.together)]
        run = unite([Run.open(each, *places, decoding) for each in trained], folder)
    elif this.weights_of:
        records.copy_run(finished(args, this.weights_of, seed), run)
    elif code := Session(run, limits=Limits(allow_changes=[PRECISION])).train().exit_code:
        return code
    record = records.make_record(run, row, shared)
    if begins:
        record["begins_with"] = records.weights_hash(begins)
    if sets := _contrasts(args, row):
        record |= contrasts.accuracies_of(run, sets)
    write_json(args.records / job.record, record)
    scores = record["scores"]
    logger.info("BLEU %s", ", ".join(f"{split} {s['bleu']:.2f}" for split, s in scores.items()))
    return 0
