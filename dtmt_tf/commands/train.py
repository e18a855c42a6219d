"""Trains a model, scores it and exports it; run again, it goes on where it stopped."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import logging
import math
import sys
import textwrap
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dtmt_tf import caller, startup
from dtmt_tf.commands import common, options, own_text, report
from dtmt_tf.commands.next_steps import next_steps
from dtmt_tf.commands.parser import Parser
from dtmt_tf.errors import UserError
from dtmt_tf.experiment import presets, show
from dtmt_tf.terminal import columns

if TYPE_CHECKING:
    from dtmt_tf.config import TrainingConfig
    from dtmt_tf.experiment import Experiment
    from dtmt_tf.runs import Run

logger = logging.getLogger(__name__)


def command(arguments: Sequence[str] | None = None) -> int:
    """Parses, resolves, trains."""
    parser = _parser()
    args = parser.parse_args(arguments)
    common.check_range(args, "max_seconds", 0, math.inf)
    if args.plan_for and args.plan is None:
        parser.error("--plan-for goes with --plan")

    from dtmt_tf.tasks import TASKS

    if args.list_tasks:
        for task in TASKS.values():
            head = f"{task.name:<18} "
            print(textwrap.fill(head + task.description, columns(), subsequent_indent=" " * 19))
        return 0
    is_own = own_text.is_named(args)
    multiworker = startup.is_multiworker(args.strategy)
    if args.plan is not None:
        print("TensorFlow starts.", file=sys.stderr, flush=True)
    startup.start_tensorflow(args.devices, multiworker=multiworker)
    from dtmt_tf.models import MODELS

    if args.list_models:
        print(presets(MODELS))
        return 0
    experiment, origins = (own_text if is_own else common).experiment(args)
    if args.config and args.config.began and not args.init_from and _begins(args):
        logger.warning(
            "--config: %s began with the weights of another run. To do the same: --init-from %s",
            *(args.config.origin, args.config.began),
        )
    if args.show_config:
        print(show(experiment, origins))
        return 0
    _tell_of_another_model(experiment)
    _tell_of_unread(experiment, origins)
    if sized := own_text.table(experiment, origins):
        logger.info("Sized from the text; --set changes any of it:\n%s", sized)

    replicas = startup.replicas(args.devices, multiworker)
    if args.dry_run and args.plan is not None:
        raise UserError("--plan tells what --dry-run does, too. Leave one of them out.")
    if args.init_from and (args.dry_run or args.plan is not None):
        experiment = _with_sub_words_of(args, experiment)
    if args.dry_run:
        from dtmt_tf.planning.dry_run import described

        print(described(experiment, replicas).text)
        return 0
    if args.plan is not None:
        from dtmt_tf.planning.measuring import plan

        for text in plan(experiment, args.plan, args.plan_for, replicas):
            print(text + "\n", flush=True)
        return 0
    if is_own:
        own_text.check_same(args, experiment)
    return _train(args, experiment, origins, multiworker)


def _begins(args: argparse.Namespace) -> bool:
    """Whether the training does not go on with one that has begun."""
    from dtmt_tf.runs.former import CHECKPOINTS

    return args.restart or not any((common.run_folder(args) / "train").glob(CHECKPOINTS))


def _with_sub_words_of(args: argparse.Namespace, experiment: Experiment) -> Experiment:
    """Returns the settings with as many sub-words as the run of `--init-from` has."""
    from dtmt_tf.experiment import read_settings
    from dtmt_tf.training.changes import SIZES

    args.task = experiment.task  # whose runs a name stands for first
    path = common.named_run(args.init_from, args) / "train" / "experiment.json"
    if not path.exists():
        raise UserError(f"--init-from {args.init_from}: {path.parents[1]} is no run's folder.")
    other = read_settings(path)["settings"]["data"]
    data = dataclasses.replace(experiment.data, **{name: other[name] for name in SIZES})
    return dataclasses.replace(experiment, data=data)


def _tell_of_another_model(experiment: Experiment) -> None:
    """Warns of a model of another kind than that which a task's rates were chosen for."""
    from dtmt_tf.models import MODELS
    from dtmt_tf.tasks import TASKS, own_task

    task, model = experiment.task, experiment.model_name
    if better := own_task(task, model):
        logger.warning(
            "--task %s trains %s as its paper does; rates and dropouts of %s are those of %s.",
            *(better, model, task, TASKS[task].model),
        )
        return
    ours = TASKS[task].model
    if not isinstance(experiment.model, type(MODELS[ours])):
        of = "text of one's own are" if task == own_text.TASK else f"--task {task} were"
        logger.warning("Rates and dropouts of %s chosen for %s; %s may need others.",
                       *(of, ours, model))  # fmt: skip


def _tell_of_unread(experiment: Experiment, origins: Mapping[str, str]) -> None:
    """Warns of settings that `--set` changes and nothing reads."""
    from dtmt_tf.training import unread

    training, given = experiment.training, [name for name, why in origins.items() if why == "--set"]
    for name, reason in experiment.model.unread.items():
        if f"model.{name}" in given:
            logger.warning("model.%s changes nothing: %s.", name, reason)
    names = [name.removeprefix("training.") for name in given]
    for name, reason in unread(training, names).items():
        logger.warning("training.%s changes nothing: %s.", name, reason)


def _tell_of_rate(training: TrainingConfig) -> None:
    """Warns of a rate that was meant for another optimiser."""
    from dtmt_tf.training import strange_rate

    if reason := strange_rate(training):
        logger.warning("training.optimizer=%s: %s.", training.optimizer, reason)


def _parser() -> Parser:
    parser = options.run_parser(
        "dtmt train",
        "Train a translation model, score it on its tests and export it as a SavedModel. "
        "The same command goes on with a training that was stopped.",
        "dtmt train",
        "dtmt train --task multi30k_ende --data-dir ~/data",
        "dtmt train --task wmt14_ende --dry-run",
        "dtmt train --task wmt14_ende --plan --plan-for 8 5000",
        "dtmt train --train a.en a.de --dev b.en b.de \\",
        "    --from en --to de --name mine",
        unnamed=options.OF_OWN_TEXT,
    )
    own_text.add_own_text(parser)
    options.add_config(parser)
    options.add_set(parser)
    options.add_devices(parser)
    parser.add_argument(
        "--strategy",
        choices=startup.STRATEGIES,
        default="auto",
        help="mirrored: the devices of this machine; multiworker: those of all workers in the "
        "environment variable TF_CONFIG; auto: multiworker if it names several",
    )
    parser.add_argument(
        "--restart",
        action="store_true",
        help="begin anew; the run's checkpoints, sub-words and scores go once the new training has "
        "come through its first update, exports stay",
    )
    parser.add_argument(
        "--init-from",
        metavar="RUN",
        help="begin with the sub-words of this run, and with its weights where they match by name "
        "and shape: its name, or its folder",
    )
    parser.add_argument(
        "--max-seconds",
        type=float,
        default=math.inf,
        metavar="SECONDS",
        help="save and stop this long after this command's first update, with exit code 124",
    )
    parser.add_argument(
        "--allow-changes",
        nargs="+",
        default=[],
        metavar="NAME",
        help="resume although these settings differ from those the run began with",
    )
    parser.add_argument(
        "--track",
        nargs="+",
        default=[],
        choices=("mlflow", "wandb"),
        metavar="TRACKER",
        help="tell mlflow or wandb, if it is installed, the numbers that TensorBoard shows",
    )
    parser.add_argument("--show-config", action="store_true", help="print all settings and stop")
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="build the model, print its size, memory and steps, and stop",
    )
    parser.add_argument(
        "--plan",
        nargs="?",
        const=1,
        type=int,
        metavar="PIECES",
        help="like --dry-run, then measure a few updates of one replica, print the hours of the "
        "whole training, and stop; PIECES: cut each batch into so many parts (default: 1; more if "
        "memory is short)",
    )
    parser.add_argument(
        "--plan-for",
        nargs=2,
        type=float,
        metavar=("N", "RATE"),
        help="with --plan: also the hours on N devices that read RATE target tokens a second each",
    )
    parser.add_argument("--list-tasks", action="store_true", help="print the tasks and stop")
    parser.add_argument("--list-models", action="store_true", help="print the models and stop")
    return parser


def _train(
    args: argparse.Namespace, experiment: Experiment, origins: dict[str, str], multiworker: bool
) -> int:
    """Trains, or goes on, then scores and exports; returns the exit code."""
    from dtmt_tf.runs import Run, Session
    from dtmt_tf.runs.session import GONE
    from dtmt_tf.training import OUT_OF_TIME, Limits, is_chief, make_strategy, wait_for_all

    strategy = make_strategy(multiworker, args.devices or None)
    _tell_of_rate(experiment.training)  # by TensorFlow, which workers have to join first
    folder = common.run_folder(args)
    places = common.places(args)
    init_from = None
    if args.init_from:
        args.task = experiment.task  # whose runs a name stands for first
        try:
            init_from = Run.open(common.named_run(args.init_from, args), *places)
        except UserError as error:
            advice = "A run that has begun goes on without --init-from."
            raise UserError(f"{error}\n{advice}") from error
    run = Run(experiment, folder, *places, origins, init_from=init_from)
    start = time.perf_counter()
    limits = Limits(args.max_seconds, args.allow_changes)
    with contextlib.ExitStack() as stack:
        if is_chief(strategy):  # until it is scored and exported, the run is this process's
            stack.enter_context(run.claimed())
        try:
            outcome = Session(run, strategy, limits, args.track).train(args.restart)
            if not outcome.exit_code and is_chief(strategy):
                finish(run, start)
        except BaseException:
            if args.restart and run.checkpoints.steps():
                _tell_of_former(run)
            raise
        if outcome.exit_code:
            why = "The time is over" if outcome.exit_code == OUT_OF_TIME else "Stopped"
            _tell(f"{why} after update {outcome.step:,}; it is saved. To go on, run again:")
    try:
        wait_for_all(strategy)
    except GONE as error:
        if is_chief(strategy):
            logger.warning("Another worker ended before it was told that all is done.")
            return outcome.exit_code
        again = caller.again(without="--restart")
        raise UserError(
            "The first worker ended before the run was scored and exported; it tells why. "
            f"The training is saved. To score and export it, run on all workers again:\n  {again}"
        ) from error
    return outcome.exit_code


def _tell(what: str) -> None:
    """Says how to go on with a run."""
    print(f"{what}\n  {caller.again(without='--restart')}", file=sys.stderr)


def _tell_of_former(run: Run) -> None:
    """Says how to go on with a run that `--restart` did not come to replace."""
    from dtmt_tf.experiment import to_dict

    if run.former_settings().get("settings") == to_dict(run.experiment):
        _tell("The run has checkpoints, which --restart would remove. To go on with them:")
    else:
        logger.warning("The run is as it was before; the command that began it goes on with it.")


def finish(run: Run, start: float) -> None:
    """Scores a trained run and exports it; says what can be done with it."""
    from dtmt_tf.evaluation import format_scores
    from dtmt_tf.runs import evaluate, publish

    experiment = run.experiment
    data = experiment.data
    for split in run.scored_splits:
        note = " (there is no test; training saw these scores)" if split == "validation" else ""
        direction = f"{data.source_language}-{data.target_language}".strip("-")
        print(f"\n{' '.join((experiment.task, direction, experiment.model_name, split))}{note}:")
        print(format_scores(evaluate(run, split)))
    print(f"\nWhat became of it: {report.write_report(run)}", flush=True)  # exported or refused
    version = publish(run, older=True)
    minutes = (time.perf_counter() - start) / 60
    print(f"Exported to {version} ({minutes:.1f} minutes in all).\n")
    split = next(iter(run.scored_splits), "train")
    named = run.data_dir if run.data_dir != common.named_data_dir() else None
    print(next_steps(run.folder, split, named))
