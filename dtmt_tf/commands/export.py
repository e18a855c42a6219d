"""Exports a trained run as a SavedModel."""

from __future__ import annotations

from collections.abc import Sequence

from dtmt_tf import startup
from dtmt_tf.commands import common


def command(arguments: Sequence[str] | None = None) -> int:
    """Averages checkpoints, exports."""
    parser = common.run_parser(
        "dtmt export",
        "Export a run's weights as a SavedModel that takes and returns strings, in "
        "saved_models/<task>/<name>/<version>/. The version is the next free number.",
        "dtmt export --task multi30k_ende",
    )
    common.add_set(
        parser, "change decoding.*, export.*, evaluation.*, training.average* or data.extra_tests"
    )
    args = parser.parse_args(arguments)
    startup.start_tensorflow()

    from dtmt_tf.runs import Run, publish

    run = Run.open(common.run_folder(args), common.data_dir(args), common.cache_dir(), args.set)
    print(f"Exported to {publish(run)}")
    return 0
