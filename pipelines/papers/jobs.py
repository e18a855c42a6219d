"""The rows of a command as jobs: what each trains with, its name, and the runs that it needs."""

from __future__ import annotations

import argparse
import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from dtmt_tf.commands import common
from dtmt_tf.config import TrainingConfig
from dtmt_tf.errors import UserError
from dtmt_tf.experiment import Experiment
from dtmt_tf.tasks import TASKS
from pipelines.papers import PAPERS, records
from pipelines.papers.paper import Paper

logger = logging.getLogger(__name__)

PRECISION = "training.precision"
SCALED = ("schedule_decay_start", "schedule_decay_end", "validation_steps")


@dataclass(frozen=True)
class Job:
    """One row with one seed."""

    row: str
    seed: int
    name: str
    experiment: Experiment
    origins: dict[str, str]

    @property
    def record(self) -> str:
        """Name of its record."""
        return f"{self.experiment.task}-{self.name}.json"


def make_jobs(args: argparse.Namespace, rows: Sequence[str]) -> list[Job]:
    """Returns the rows with each seed, in the order in which they can be run.

    Trainings that predict together come last; without `--plan` they are left out unless `--seeds`
    names all of them.

    Raises:
        UserError: If `--rows` names a row that is left out.
    """
    known, asked = PAPERS[args.paper].rows, set(args.seeds)

    def complete(row: str, seed: int) -> bool:
        together = known[row].together
        return (seed - 1) % together == 0 and asked.issuperset(range(seed, seed + together))

    jobs = [
        make_job(args, row, seed)
        for seed in args.seeds
        for row in rows
        if args.plan or complete(row, seed)
    ]
    for row in rows:
        if all(job.row != row for job in jobs):
            seeds = " ".join(map(str, range(1, known[row].together + 1)))
            what = f"{row} is of trainings that predict together: --seeds {seeds}"
            if row in args.rows:
                raise UserError(f"{what}.")
            logger.info("Left out: %s", what)
    return sorted(jobs, key=lambda job: known[job.row].together)


def shared_training(paper: Paper, task: str, recipe: str = "") -> TrainingConfig:
    """Returns the training settings that all rows of a task start from."""
    return _resolve(task, TASKS[task].model, list(paper.trained_with(task, recipe)))[0].training


def budget(paper: Paper, task: str, steps: int, recipe: str = "") -> list[str]:
    """Returns the settings that the rows of a task share, with the schedule scaled to `steps`.

    Early stopping is off, so that all rows make as many.
    """
    training = shared_training(paper, task, recipe)
    scaled = {  # rounded up, or a last validation would come right after the last but one
        name: math.ceil(Fraction(getattr(training, name) * steps, training.max_steps))
        for name in SCALED
    }
    return [
        *paper.trained_with(task, recipe),
        f"training.max_steps={steps}",
        "training.patience=0",
        *(f"training.{name}={value}" for name, value in scaled.items()),
    ]


def make_job(args: argparse.Namespace, row: str, seed: int, timed: bool = False) -> Job:
    """Resolves a row's settings; with `timed`, updates that follow from other rows' minutes."""
    paper, steps = PAPERS[args.paper], args.max_steps
    if timed and paper.rows[row].time_of:
        steps = _steps_in_time_of(args, row, seed)
    model, sizes = paper.model(args.preset, row)
    made_by = paper.rows[row].settings
    overrides = [*budget(paper, args.task, steps, args.recipe), *sizes, *args.set, *made_by]
    overrides += [f"training.seed={seed}"]
    experiment, origins = _resolve(args.task, model, overrides)
    begun = f"from_{args.begin_with}-" if args.begin_with else ""
    name = f"{paper.prefix}{row}-{begun}{records.settings_hash(experiment)}-seed{seed}"
    if args.precision and not paper.rows[row].weights_of:
        # that of a processor, not of a row: its name and series stay
        overrides += [f"{PRECISION}={args.precision}"]
        experiment, origins = _resolve(args.task, model, overrides)
    return Job(row, seed, name, experiment, origins)


def _resolve(task: str, model: str, overrides: list[str]) -> tuple[Experiment, dict[str, str]]:
    return common.experiment(argparse.Namespace(task=task, model=model, set=overrides))


def series(args: argparse.Namespace) -> dict[str, Any]:
    """Returns the settings that the rows of a command share; only such rows are compared.

    The hash is of all settings of the paper's first family to which no row has added its own.
    """
    paper = PAPERS[args.paper]
    model, sizes = paper.model(args.preset)
    overrides = [*budget(paper, args.task, args.max_steps, args.recipe), *sizes, *args.set]
    try:
        experiment = _resolve(args.task, model, overrides)[0]
    except UserError as error:
        raise UserError(
            f"{error}\n--set is for all rows and takes what {model} has. What makes one row stands "
            f"in pipelines/papers/{paper.name}.py."
        ) from error
    shared = {
        "paper": paper.name,
        "preset": args.preset,
        "max_steps": args.max_steps,
        "set": args.set,
        "hash": records.settings_hash(experiment),
    }
    if args.recipe:
        shared |= {"recipe": args.recipe}
    if args.begin_with:
        shared |= {"begin_with": args.begin_with, "hash": f"{shared['hash']}+{args.begin_with}"}
    return shared


def beginning(args: argparse.Namespace, seed: int) -> Path | None:
    """Returns the folder of the run whose weights the rows of a seed begin with, if there is one.

    Raises:
        UserError: If that run, or its record, is not there.
    """
    if not args.begin_with:
        return None
    fresh = argparse.Namespace(**{**vars(args), "begin_with": ""})
    folder = finished(fresh, args.begin_with, seed, ", without --begin-with")
    records.weights_hash(folder)  # an older one is told before hours of work
    return folder


def finished(args: argparse.Namespace, row: str, seed: int, how: str = "") -> Path:
    """Returns the folder of a row's finished run; `how` ends the advice if it is not there."""
    job = make_job(args, row, seed, timed=True)
    folder: Path = args.output_dir / args.task / job.name
    record: Path = args.records / job.record
    scores = folder / "train" / "scores.json"
    if record.exists() and scores.exists():
        recorded = records.read_record(record)
        part = recorded["part"]
        mine = records.scores_of(folder).get(part, {})
        theirs = recorded["scores"][part]
        both = mine.keys() & theirs.keys()  # older records note no weights
        if any(mine.get(k) != theirs[k] for k in {records.WEIGHTS} & both or {"bleu"}):
            raise UserError(
                f"{folder} is another training than that of {record}: {part} BLEU "
                f"{mine.get('bleu')} and {theirs['bleu']}. Name the records of yours with "
                "--records."
            )
        return folder
    place = next(f"--{kind} {name}" for kind in ("table", "figure")
                 for name, shown in getattr(PAPERS[args.paper], f"{kind}s").items()
                 if row in shown.rows)  # fmt: skip
    why = f"{record} is of a run elsewhere; --records names another folder. " * record.exists()
    raise UserError(
        f"{row} has no finished run {folder}. {why}Run it first: the same command with --task "
        f"{args.task} {place} --rows {row} --seeds {seed}{how}."
    )


def _steps_in_time_of(args: argparse.Namespace, row: str, seed: int) -> int:
    """Returns how many updates a row makes in the minutes of another row."""
    found, this = [], PAPERS[args.paper].rows[row]
    for other in (this.time_of, this.speed_of):
        path = args.records / make_job(args, other, seed).record
        if not path.exists():
            raise UserError(
                f"The updates of {row} follow from the speed of {other}, which is not recorded "
                f"with seed {seed}. Run it first: --rows {other}."
            )
        found.append(records.read_record(path))
    slow, fast = found
    kinds = [run["changed_settings"].get(PRECISION) for run in found]
    if kinds[0] != kinds[1]:
        raise UserError(
            f"The updates of {row} follow from the minutes of {this.time_of} and {this.speed_of}, "
            f"which differ in {PRECISION}. Train both alike with --precision."
        )
    if slow["machine"] != fast["machine"]:
        raise UserError(
            f"The updates of {row} follow from the minutes of {this.time_of} and "
            f"{this.speed_of}, which ran on different machines:\n"
            f"  {slow['machine']}\n  {fast['machine']}\n"
            f"Remove their records from {args.records} and their folders from "
            f"{args.output_dir / args.task}, then run both on the same machine."
        )
    return round(fast["updates"] * slow["seconds_in_updates"] / fast["seconds_in_updates"])
