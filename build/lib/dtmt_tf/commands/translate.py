"""Translates standard input, or files, line by line with an exported model."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from dtmt_tf import startup
from dtmt_tf.commands import common


def command(arguments: Sequence[str] | None = None) -> int:
    """Reads lines, translates, writes as many lines."""
    parser = common.run_parser(
        "dtmt translate",
        "Translate text line by line with an exported SavedModel: as many lines out as in, an "
        "empty line for an empty line.",
        "echo 'March 5, 2031' | dtmt translate",
        "dtmt translate --task multi30k_ende -o out.de in.en",
    )
    parser.add_argument("input", nargs="?", type=Path, help="a text file (default: standard input)")
    parser.add_argument("-o", "--output", type=Path, help="a file (default: standard output)")
    parser.add_argument(
        "--saved-model",
        type=Path,
        metavar="DIR",
        help="an exported version's folder (default: the run's newest)",
    )
    parser.add_argument("--batch-size", type=int, default=32, help="default: %(default)s")
    parser.add_argument("--scores", action="store_true", help="append a tab and the score")
    parser.add_argument("--show-source", action="store_true", help="put source and tab before")
    args = parser.parse_args(arguments)
    startup.start_tensorflow()

    from dtmt_tf.decoding import translate_lines
    from dtmt_tf.errors import UserError
    from dtmt_tf.export.translator import Translator, latest_version

    if args.batch_size < 1:
        raise UserError(f"--batch-size should be at least 1. Received: {args.batch_size}.")
    translator = Translator(args.saved_model or latest_version(common.run_folder(args)))
    lines = common.read_text(args.input)
    progress = "translate" if sys.stderr.isatty() and len(lines) > args.batch_size else ""
    translations, scores = translate_lines(lines, translator, args.batch_size, progress)
    rows = []
    for line, translation, score in zip(lines, translations, scores, strict=True):
        before = [line] if args.show_source else []
        after = [f"{score:.4f}"] if args.scores else []
        rows.append("\t".join([*before, translation, *after]))
    common.write_text(args.output, rows)
    return 0
