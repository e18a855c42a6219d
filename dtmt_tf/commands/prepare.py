"""Checks a corpus, builds its sub-words and its records, without training."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from dtmt_tf import startup
from dtmt_tf.commands import common


def command(arguments: Sequence[str] | None = None) -> int:
    """Loads, checks, trains sub-words, cuts the training part up, prints statistics."""
    parser = common.run_parser(
        "dtmt prepare",
        "Check a task's corpus, build its sub-words, write its training pairs as the records that "
        "training streams, and print statistics. dtmt train does this itself; here it is alone. "
        "What is complete is kept: the same command goes on however it was ended, and makes "
        "records anew whose damaged files were removed.",
        "dtmt prepare --task multi30k_ende",
        "dtmt prepare --task wmt14_ende \\",
        "    --beam-options runner=FlinkRunner flink_master=host:8081",
    )
    parser.add_argument(
        "--beam-options",
        nargs="+",
        metavar="NAME=VALUE",
        help="write the shards in an Apache Beam pipeline with these options of Beam, such as "
        "runner=DirectRunner; its workers must see the same folders",
    )
    common.add_config(parser)
    common.add_set(parser)
    args = parser.parse_args(arguments)
    startup.start_tensorflow()

    from dtmt_tf.data.beam import write_shards
    from dtmt_tf.runs import Run

    experiment, origins = common.experiment(args)
    folder = common.run_folder(args)
    run = Run(experiment, folder, common.data_dir(args), common.cache_dir(), origins)
    options = args.beam_options
    with run.claimed():
        run.prepare(functools.partial(write_shards, options) if options else None)
        statistics = run.statistics()
    print(statistics)
    print(f"\nSub-words: {run.work}\nShards: {run.shards.folder}")
    return 0
