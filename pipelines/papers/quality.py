"""Trains a task's settings anew; fails if they score far below the mean of their records."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterable
from pathlib import Path

from dtmt_tf import startup
from dtmt_tf.commands import common, options
from dtmt_tf.commands.parser import Parser
from dtmt_tf.errors import UserError
from dtmt_tf.experiment import Experiment
from pipelines.papers import records
from pipelines.papers.records import Record

DEFAULT_TASK = "multi30k_ende_tok"
MARGIN = 1.0  # BLEU
NAME = "quality"  # of the run


def command() -> int:
    """Trains, scores, compares; returns 1 for a score that is too low."""
    args = _parser().parse_args()
    common.check_range(args, "margin", 0, 100)
    startup.start_tensorflow(args.devices)
    from dtmt_tf.runs import Run, Session, evaluate
    from dtmt_tf.training import make_strategy

    experiment, origins = common.experiment(args)
    strategy = make_strategy(multiworker=False, devices=args.devices or None)
    batches = strategy.num_replicas_in_sync * experiment.training.accumulation_steps
    bleu = published_bleu(records.read_records(args.records), experiment, batches)
    if not bleu:
        raise UserError(
            f"There is no published mean: no record in {args.records} has the present settings of "
            f"{args.task}{', changed by --set' * bool(args.set)}, and updates of {batches} batches "
            "(--devices). Train them with a few seeds, then name the runs to "
            "pipelines/documents.py add."
        )
    folder = common.run_folder(args)
    run = Run(experiment, folder, *common.places(args), origins)
    outcome = Session(run, strategy).train(restart=True)
    if outcome.exit_code:
        print(
            "Stopped. A whole training by the present code is judged, so the next one begins anew.",
            file=sys.stderr,
        )
        return outcome.exit_code
    passed, text = judge(evaluate(run, run.scored_splits[0]).bleu, bleu, args.margin)
    print(f"{args.task}, seed {experiment.training.seed}: {text}")
    return 0 if passed else 1


def _parser() -> Parser:
    parser = Parser(
        "python pipelines/quality.py",
        "Train a task with its recommended settings from scratch, score it, and fail (exit code "
        "1) below the mean test BLEU of the records that have these settings, less a margin.",
        "python pipelines/quality.py --data-dir ~/data",
        "python pipelines/quality.py --margin 0.5 --data-dir ~/data",
    )
    parser.add_argument("--task", default=DEFAULT_TASK, metavar="NAME",
                        help="a task of dtmt train --list-tasks "
                        "(default: %(default)s)")  # fmt: skip
    parser.add_argument("--margin", type=float, default=MARGIN, metavar="BLEU",
                        help="largest distance below the mean (default: %(default)s)")  # fmt: skip
    parser.add_argument("--records", type=Path, default=records.RECORDS, metavar="DIR",
                        help="one file a run (default: pipelines/results)")  # fmt: skip
    options.add_set(parser, "settings to train with, as in the records")
    options.add_devices(parser)
    parser.set_defaults(model=None, name=NAME)
    options.add_folders(parser)
    return parser


def published_bleu(found: Iterable[Record], experiment: Experiment, batches: int) -> list[float]:
    """Returns the BLEU of one record of each seed with these settings; not of ensembles.

    Nor of runs that began with the weights of others.

    Args:
        found: All records.
        experiment: The settings.
        batches: Batches that an update reads, on all devices together.
    """
    wanted: tuple[str, int, list[str]] = (records.settings_hash(experiment), batches, [])
    by_seed = {
        record["seed"]: record["scores"][record["part"]]["bleu"]
        for record in found
        if (record["settings_hash"], record["batches_an_update"], record["members"]) == wanted
        and not records.began_with_others(record)
    }
    return list(by_seed.values())


def judge(bleu: float, published: list[float], margin: float) -> tuple[bool, str]:
    """Returns whether a score is high enough, and a line that says why."""
    mean = statistics.fmean(published)
    passed = bleu >= mean - margin
    return passed, (
        f"BLEU {bleu:.2f}, published mean {mean:.2f} of {len(published)} runs, "
        f"bound {mean - margin:.2f}: {'passed' if passed else 'FAILED'}"
    )
