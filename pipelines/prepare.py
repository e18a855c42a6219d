"""Checks a corpus and builds its sub-words, without training."""

from __future__ import annotations

import common


def command() -> int:
    """Loads, checks, trains sub-words, prints statistics."""
    parser = common.parser(
        "Check a task's corpus, build its sub-words and print statistics. train.py does this\n"
        "itself; here it is alone.",
        "example:\n  python pipelines/prepare.py --task multi30k_ende\n",
    )
    common.add_set(parser)
    args = parser.parse_args()
    common.start_tensorflow()

    from dtmt_tf.run import Run

    experiment, origins = common.experiment(args)
    folder = common.run_folder(args)
    run = Run(experiment, folder, common.data_dir(args), common.cache_dir(), origins)
    print(run.statistics())
    print(f"\nSub-words: {run.work}")
    return 0


if __name__ == "__main__":
    common.main(command)
