"""Exports a trained run as a SavedModel."""

from __future__ import annotations

from collections.abc import Sequence

from dtmt_tf import startup
from dtmt_tf.commands import common, options
from dtmt_tf.commands.parser import Parser


def command(arguments: Sequence[str] | None = None) -> int:
    """Averages checkpoints, exports."""
    parser = _parser()
    args = parser.parse_args(arguments)
    common.check_range(args, "min_bleu", 0, 100)
    if args.quantize:
        if any(text.startswith("export.quantize=") for text in args.set):
            parser.error("--quantize is --set export.quantize=...: give one of them")
        args.set = [*args.set, f"export.quantize={args.quantize}"]
    startup.start_tensorflow()

    from dtmt_tf.runs import publish

    print(f"Exported to {publish(common.open_run(args, args.set), args.min_bleu, args.force)}")
    return 0


def _parser() -> Parser:
    parser = options.run_parser(
        "dtmt export",
        "Export a run's weights as a SavedModel that takes and returns strings, in "
        "saved_models/<task>/<name>/<version>/. The version is the next free number. It is "
        "published if it translates the run's samples well enough in a fresh process.",
        "dtmt export --task multi30k_ende",
        "dtmt export saved_models/custom/mine --quantize int8",
        model=options.OF_PRESET,
    )
    options.add_run(parser)
    options.add_set(
        parser, "change decoding.*, export.*, evaluation.*, training.average* or data.extra_tests"
    )
    parser.add_argument(
        "--quantize",
        choices=("bfloat16", "int8"),
        help="keep matrices in half or a quarter of their size, as --set export.quantize does; "
        "SERVING.md says what that costs",
    )
    parser.add_argument(
        "--min-bleu",
        type=float,
        metavar="BLEU",
        help="refuse a version with less BLEU on up to 32 validation pairs (default: 5 less than "
        "that of the version before)",
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="publish even if the check on samples fails, or nothing has changed",
    )
    return parser
