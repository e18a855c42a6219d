"""Translates standard input, or files, line by line with an exported model."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path

from dtmt_tf import startup
from dtmt_tf.commands import common, lines

MOST_AT_ONCE = 10_000  # lines in a batch
TOGETHER = 16  # batches of lines that are sorted by length, and kept, together


def command(arguments: Sequence[str] | None = None) -> int:
    """Reads lines, translates, writes as many lines."""
    parser = common.run_parser(
        "dtmt translate",
        "Translate text line by line with an exported SavedModel: as many lines out as in, an "
        "empty line for an empty line.",
        "echo 'March 5, 2031' | dtmt translate",
        "dtmt translate --task multi30k_ende -o out.de in.en",
    )
    lines.add_files(parser)
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
    common.check_range(args, "batch_size", 1, MOST_AT_ONCE)
    lines.check_files(args)
    startup.start_tensorflow()

    from dtmt_tf.decoding import translate_to
    from dtmt_tf.export import Translator, latest_version
    from dtmt_tf.resumable_lines import ResumableLines

    translator = Translator(args.saved_model or latest_version(common.run_folder(args)))
    texts = lines.read_text(args.input, args.replace_invalid)

    def row(line: str, translation: str, score: float) -> str:
        before = [line] if args.show_source else []
        after = [f"{score:.4f}"] if args.scores else []
        return "\t".join([*before, translation, *after])

    settings = {
        "model": digest(translator.folder),
        "scores": args.scores,
        "show_source": args.show_source,
    }
    progress = "translate" if sys.stderr.isatty() and len(texts) > args.batch_size else ""
    with ResumableLines(args.output, settings) as output:
        translate_to(output, texts, translator, args.batch_size, TOGETHER, progress, row)
    return 0


def digest(folder: Path) -> str:
    """Returns a hash of a SavedModel: its graph, and the checksums of its weights."""
    found = hashlib.sha256()
    for name in ("saved_model.pb", "variables/variables.index"):
        path = folder / name
        found.update(path.read_bytes() if path.exists() else b"")
    return found.hexdigest()
