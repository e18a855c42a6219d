"""Packs an exported version for others."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from dtmt_tf import startup
from dtmt_tf.caller import as_called
from dtmt_tf.commands import lines
from dtmt_tf.commands.parser import Parser


def command(arguments: Sequence[str] | None = None) -> int:
    """Checks, packs, says how others take it."""
    args = _parser().parse_args(arguments)
    startup.start_tensorflow()

    from dtmt_tf.export.archive import pack
    from dtmt_tf.pretrained import CATALOGUE, VARIABLE
    from dtmt_tf.translator.places import MODEL, latest_version

    lines.check_place("-o", args.output / CATALOGUE)
    version = args.folder if (args.folder / MODEL).exists() else latest_version(args.folder)
    archive = pack(version, args.name, args.license, args.output)
    catalogue = args.output / CATALOGUE
    print(
        f"{archive}: {archive.stat().st_size / 1e6:.1f} MB. {catalogue} calls it "
        f"{args.name}. To try it:\n  {VARIABLE}={shlex.quote(str(catalogue))} "
        # below that folder lies no run of this name, which would be taken first
        f"{as_called('dtmt translate')} --model {args.name} "
        f"--output-dir {shlex.quote(str(args.output))}"
    )
    return 0


def _parser() -> Parser:
    parser = Parser(
        "dtmt pack",
        "Pack an exported version with its model card and licence into one archive, and name it "
        "in the catalogue beside it, models.json, with its SHA-256. Put both on a server: whoever "
        "sets DTMT_MODELS to the catalogue's address translates with the model by its name.",
        "dtmt pack runs/demo --name dates_ende --license LICENSE",
        "dtmt pack runs/mine/2 --name mine_ende --license TERMS.txt",
    )
    parser.add_argument(
        "folder", type=Path, metavar="FOLDER", help="a run's folder, or that of a version"
    )
    parser.add_argument(
        "--license",
        type=Path,
        required=True,
        metavar="FILE",
        help="under what terms others may use the model; see what those of its training text allow",
    )
    parser.add_argument("--name", required=True, help="what others call it")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("dist"),
        metavar="DIR",
        help="where archive and catalogue go (default: dist)",
    )
    return parser
