"""Makes a run of trained runs that predict together."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from dtmt_tf import startup
from dtmt_tf.commands import common

NAME = "ensemble"


def command(arguments: Sequence[str] | None = None) -> int:
    """Opens the members, writes the run that names them."""
    parser = argparse.ArgumentParser(
        description="Make a run out of trained ones that predicts each word by the mean of their\n"
        "probabilities. They lie side by side and share their sub-words: same data.*,\n"
        "other seeds or models. Evaluate, export and serve it by its name; it reads its\n"
        "members' folders.",
        epilog="example:\n"
        "  python pipelines/train.py --task multi30k_ende --name a --set training.seed=1\n"
        "  python pipelines/train.py --task multi30k_ende --name b --set training.seed=2\n"
        "  python pipelines/ensemble.py --task multi30k_ende a b\n"
        f"  python pipelines/evaluate.py --task multi30k_ende --name {NAME}\n",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("runs", nargs="+", metavar="RUN", help="names of trained runs")
    parser.add_argument("--task", default=common.DEFAULT_TASK, metavar="NAME",
                        help="what train.py --list-tasks lists (default: %(default)s)")  # fmt: skip
    parser.add_argument("--name", default=NAME, help="name of the run (default: %(default)s)")
    parser.set_defaults(model=None)
    common.add_folders(parser)
    args = parser.parse_args(arguments)
    startup.start_tensorflow()

    from dtmt_tf.errors import UserError
    from dtmt_tf.runs import Run, unite

    if len(set(args.runs)) < max(2, len(args.runs)):
        raise UserError(f"Name two runs or more, each once. Received: {' '.join(args.runs)}.")
    folder = common.run_folder(args)
    members = [
        Run.open(folder.parent / name, common.data_dir(args), common.cache_dir())
        for name in args.runs
    ]
    unite(members, folder)
    print(f"Ensemble of {', '.join(args.runs)}: {folder}")
    return 0
