"""Tells what classifiers can read from a run's sentence representations."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dtmt_tf import startup
from dtmt_tf.commands import common, lines, options
from dtmt_tf.commands.parser import Parser
from dtmt_tf.errors import UserError
from dtmt_tf.files import write_json

if TYPE_CHECKING:
    from dtmt_tf.models import TranslationModel
    from dtmt_tf.runs import Run

MAX_HIDDEN_UNITS = 10_000


def command(arguments: Sequence[str] | None = None) -> int:
    """Probes encoders with files of labelled sentences."""
    args = _parser().parse_args(arguments)
    _check(args)

    from dtmt_tf.evaluation import probing
    from dtmt_tf.evaluation.probing_tasks import read_task

    tasks = {}
    for path in args.tasks:
        task = read_task(lines.read_text(path), path)
        if task.name in tasks:
            raise UserError(f"{path}: another file is of the task {task.name}, too.")
        tasks[task.name] = task
    startup.start_tensorflow()

    from dtmt_tf.runs import representer

    hidden = {"hidden": args.hidden} if args.hidden is not None else {}
    classifier = probing.Classifier(args.classifier, seed=args.seed, **hidden)
    systems = {}
    for name, run, model in _models(args):
        found, represent = {}, representer(run, model)
        print(f"{name}\n{probing.table_head(tasks)}", flush=True)
        for task in tasks.values():
            representations = {
                split: represent(sentences, f"{name}: {task.name}")
                for split, sentences in task.sentences.items()
            }
            found[task.name] = probing.probe(
                task, representations, classifier, control=not args.no_control
            )
            print(probing.table_row(task.name, found[task.name], tasks), flush=True)
            systems[name] = found
            if args.json:  # now: a later task may fail, or be stopped
                write_json(args.json, {each: probing.plain(of) for each, of in systems.items()})
        print()
    if args.plot:
        from dtmt_tf.evaluation import probing_plot
        from dtmt_tf.evaluation.picture import save

        save(probing_plot.figure_of(systems), args.plot)
    return 0


def _parser() -> Parser:
    parser = options.run_parser(
        "dtmt probe",
        "Tell what a run's encoder knows of a sentence: train a classifier of a property, such as "
        "the tense, on the mean of the encoder's top states, and test it on other sentences. The "
        "same classifier also learns random labels; how well it remembers them is the control.",
        "dtmt probe --task multi30k_ende probing/*.en.txt.gz",
        "dtmt probe --run runs/a --run runs/b --plot p.svg tense.en.txt",
        model=options.OF_PRESET,
    )
    parser.add_argument(
        "tasks",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="SentEval's format: on each line tr, va or te, a label and a sentence in the source "
        "language, with tabs; plain, .gz or .xz",
    )
    parser.add_argument(
        "--run",
        dest="runs",  # `args.run` is a run that stands without an option
        type=Path,
        action="append",
        metavar="RUN",
        help="a run's folder or name; may be given several times, to compare (default: the run "
        "that --task and --name name)",
    )
    group = parser.add_argument_group("classifier")
    group.add_argument(
        "--classifier",
        choices=("logistic", "mlp"),
        default="logistic",
        help="logistic regression, or one hidden layer (default: %(default)s)",
    )
    group.add_argument(
        "--hidden",
        type=int,
        metavar="N",
        help="units of the hidden layer of --classifier mlp (default: 50)",
    )
    group.add_argument(
        "--seed",
        type=int,
        default=1,
        metavar="N",
        help="of the classifier and the control (default: 1)",
    )
    group.add_argument(
        "--no-control", action="store_true", help="leave out the control with random labels"
    )
    group = parser.add_argument_group("report")
    group.add_argument(
        "--plot", type=Path, metavar="FILE", help="draw it; the name ends in .svg, .png or .pdf"
    )
    group.add_argument("--json", type=Path, metavar="FILE", help="also write it to this file")
    return parser


def _check(args: argparse.Namespace) -> None:
    """Raises a UserError if arguments do not fit, before anything is read or trained."""
    common.check_range(args, "hidden", 1, MAX_HIDDEN_UNITS)
    if args.hidden is not None and args.classifier != "mlp":
        raise UserError("--hidden goes with --classifier mlp.")
    common.check_range(args, "seed", 0, 2**31 - 2)
    lines.check_picture(args.plot)
    lines.check_different("FILE", args.tasks)
    lines.check_different("--run", args.runs or [])
    if args.runs:
        common.refuse_beside("--run", args)
    lines.check_outputs(args.tasks, {"--json": args.json, "--plot": args.plot})


def _models(args: argparse.Namespace) -> Iterator[tuple[str, Run, TranslationModel]]:
    """Yields runs by name with their models; one model is in memory at a time."""
    from dtmt_tf.runs import Run, best_model

    place = common.places(args)
    folders = [common.named_run(each, args) for each in args.runs or ()]
    lines.check_different("--run", folders)  # of one run, by its name and by its folder
    runs = [Run.open(each, *place) for each in folders] or [common.open_run(args)]
    for run in runs:
        run.check_trained()
    for run in runs:
        yield str(run.folder), run, best_model(run)[0]
