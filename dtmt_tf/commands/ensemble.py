"""Makes a run of trained runs that predict together."""

from __future__ import annotations

from collections.abc import Sequence

from dtmt_tf import startup
from dtmt_tf.commands import common, options
from dtmt_tf.commands.parser import Parser
from dtmt_tf.errors import UserError

NAME = "ensemble"


def command(arguments: Sequence[str] | None = None) -> int:
    """Opens the members, writes the run that names them."""
    args = _parser().parse_args(arguments)
    startup.start_tensorflow()

    from dtmt_tf.runs import Run, unite

    named = args.runs
    if len(set(named)) < max(2, len(named)):
        raise UserError(f"Name two runs or more, each once. Received: {' '.join(named)}.")
    common.plain_name(args.name)
    folders = [common.named_run(run, args) for run in args.runs]
    members = [Run.open(folder, *common.places(args)) for folder in folders]
    args.task = args.task or members[0].experiment.task
    folder = common.run_folder(args)
    unite(members, folder)
    print(f"Ensemble of {', '.join(named)}: {folder}")
    return 0


def _parser() -> Parser:
    parser = Parser(
        "dtmt ensemble",
        "Make a run of trained runs that predicts each word by the mean of their probabilities. "
        "All need the same sub-words (data.*); seeds and models may differ. "
        "Evaluate, export and serve it by its name. It keeps relative paths to its members' "
        "folders and reads them there.",
        "dtmt train --task multi30k_ende --name a --set training.seed=1",
        "dtmt train --task multi30k_ende --name b --set training.seed=2",
        "dtmt ensemble --task multi30k_ende a b",
        f"dtmt evaluate --task multi30k_ende --name {NAME}",
    )
    parser.add_argument("runs", nargs="+", metavar="RUN",
                        help="names of trained runs, or their folders")  # fmt: skip
    parser.add_argument("--task", metavar="NAME",
                        help="a task of dtmt train --list-tasks (default: that of the first "
                        "run)")  # fmt: skip
    parser.add_argument("--name", default=NAME, help="name of the run (default: %(default)s)")
    parser.set_defaults(model=None)
    options.add_folders(parser)
    return parser
