"""Translates standard input, or files, line by line with an exported model."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path

from dtmt_tf import startup
from dtmt_tf.commands import common, lines

MOST_AT_ONCE = 10_000  # lines in a batch


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

    from dtmt_tf.decoding import progress_bar
    from dtmt_tf.resumable_lines import ResumableLines
    from dtmt_tf.translator import Translation, Translator

    translator = Translator.load(args.saved_model or common.run_folder(args), args.batch_size)
    texts = lines.read_text(args.input, args.replace_invalid)

    def row(found: Translation) -> str:
        before = [found.source] if args.show_source else []
        after = [f"{found.score:.4f}"] if args.scores else []
        return "\t".join([*before, found.text, *after])

    settings = {
        "model": digest(translator.folder),
        "scores": args.scores,
        "show_source": args.show_source,
    }
    progress = "translate" if sys.stderr.isatty() and len(texts) > args.batch_size else ""
    with ResumableLines(args.output, settings) as output:
        rest = output.remaining(texts)
        with progress_bar(len(texts), progress, output.done) as bar:
            for found in translator.stream(rest):
                output.write([row(found)])
                bar.update()
    return 0


def digest(folder: Path) -> str:
    """Returns a hash of a SavedModel: its graph, and the checksums of its weights."""
    found = hashlib.sha256()
    for name in ("saved_model.pb", "variables/variables.index"):
        path = folder / name
        found.update(path.read_bytes() if path.exists() else b"")
    return found.hexdigest()
