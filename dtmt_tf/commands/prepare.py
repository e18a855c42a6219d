"""Checks a corpus, builds its sub-words and its records, without training."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from dtmt_tf import startup
from dtmt_tf.commands import common


def command(arguments: Sequence[str] | None = None) -> int:
    """Loads, checks, trains sub-words, cuts the training part up, prints statistics."""
    parser = common.parser(
        "Check a task's corpus, build its sub-words, write its training pairs as records that\n"
        "training streams, and print statistics. train.py does this itself; here it is alone.\n"
        "What is complete is kept: ended in whatever way, the same command goes on; and it mends\n"
        "records whose damaged files were removed.",
        "examples:\n"
        "  python pipelines/prepare.py --task multi30k_ende\n"
        "  python pipelines/prepare.py --task wmt14_ende --beam-options runner=FlinkRunner \\\n"
        "    flink_master=host:8081\n",
    )
    parser.add_argument(
        "--beam-options",
        nargs="+",
        metavar="NAME=VALUE",
        help="write the records in an Apache Beam pipeline with these options of Beam's, such as "
        "runner=DirectRunner; its workers must see the same folders",
    )
    common.add_set(parser)
    args = parser.parse_args(arguments)
    startup.start_tensorflow()

    from dtmt_tf.data.beam import write_shards
    from dtmt_tf.runs import Run

    experiment, origins = common.experiment(args)
    folder = common.run_folder(args)
    run = Run(experiment, folder, common.data_dir(args), common.cache_dir(), origins)
    options = args.beam_options
    run.prepare(functools.partial(write_shards, options) if options else None)
    print(run.statistics())
    print(f"\nSub-words: {run.work}\nRecords: {run.records.folder}")
    return 0
