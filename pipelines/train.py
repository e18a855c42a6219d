"""Trains a model, scores it and exports it; run again, it goes on where it stopped."""

from __future__ import annotations

import os
import shlex
import sys
import time

import common


def command() -> int:
    """Parses, resolves, trains."""
    parser = common.parser(
        "Train a translation model, score it on its test parts and export it as a SavedModel.\n"
        "The same command resumes a run that was stopped.",
        "examples:\n"
        "  python pipelines/train.py\n"
        "  python pipelines/train.py --task multi30k_ende --data-dir ~/data\n"
        "  python pipelines/train.py --task wmt14_ende --dry-run\n"
        "  python pipelines/train.py --task custom --name mine \\\n"
        "      --set data.train_source=a.en data.train_target=a.de\n",
    )
    common.add_set(parser)
    parser.add_argument(
        "--devices",
        nargs="+",
        default=[],
        metavar="DEVICE",
        help="devices to train on, such as GPU:0 GPU:1 (default: all)",
    )
    parser.add_argument("--restart", action="store_true", help="forget the run's checkpoints")
    parser.add_argument("--show-config", action="store_true", help="print all settings and stop")
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="build the model, print its size, memory and steps, and stop",
    )
    parser.add_argument("--list-tasks", action="store_true", help="print the tasks and stop")
    parser.add_argument("--list-models", action="store_true", help="print the models and stop")
    args = parser.parse_args()

    from dtmt_tf.experiment import show
    from dtmt_tf.tasks import TASKS

    if args.list_tasks:
        for task in TASKS.values():
            print(f"{task.name:<18} {task.description}")
        return 0
    common.start_tensorflow(args.devices)
    from dtmt_tf.models import MODELS

    if args.list_models:
        print("\n".join(MODELS))
        return 0
    experiment, origins = common.experiment(args)
    if args.show_config:
        print(show(experiment, origins))
        return 0

    from dtmt_tf.evaluation import format_scores
    from dtmt_tf.plan import dry_run
    from dtmt_tf.run import Run

    if args.dry_run:
        print(dry_run(experiment))
        return 0
    folder = common.run_folder(args)
    run = Run(experiment, folder, common.data_dir(args), common.cache_dir(), origins)
    if args.restart and run.splits:  # a corpus that is not there or not sound removes nothing
        run.restart()
    start = time.perf_counter()
    outcome = run.train(args.devices or None)
    if outcome.signal:
        again = [word for word in sys.argv if word != "--restart"]
        print(
            f"Stopped after update {outcome.step:,}; it is saved. To go on, run again:\n"
            f"  {shlex.join([os.path.relpath(sys.executable), *again])}",
            file=sys.stderr,
        )
        return 128 + outcome.signal
    data = experiment.data
    for part in run.scored_parts:
        note = " (there is no test; training saw these scores)" if part == "validation" else ""
        direction = f"{data.source_language}-{data.target_language}".strip("-")
        print(f"\n{' '.join((experiment.task, direction, experiment.model_name, part))}{note}:")
        print(format_scores(run.evaluate(part)))
    version = run.export()
    minutes = (time.perf_counter() - start) / 60
    print(f"\nExported to {version} ({minutes:.1f} minutes in all).")
    return 0


if __name__ == "__main__":
    common.main(command)
