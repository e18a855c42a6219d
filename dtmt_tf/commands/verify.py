"""Checks that an exported version is whole."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dtmt_tf import startup
from dtmt_tf.commands.parser import Parser
from dtmt_tf.errors import UserError


def command(arguments: Sequence[str] | None = None) -> int:
    """Compares files with their manifest; 1 if they differ."""
    folder = _parser().parse_args(arguments).folder
    startup.start_tensorflow()  # without its lines; what is exported imports it

    from dtmt_tf.export.manifest import MANIFEST, problems, read_manifest
    from dtmt_tf.translator.places import MODEL, latest_version, live_versions

    if not folder.is_dir():
        raise UserError(f"There is no folder {folder}. Name a run's, or that of an export in it.")
    versions = [folder] if (folder / MANIFEST).exists() else live_versions(folder)
    if not versions:  # tells that there is none
        (read_manifest if (folder / MODEL).exists() else latest_version)(folder)
    bad = False
    for version in versions:
        try:
            found = problems(version)
        except UserError as error:
            bad = True
            print(error)
            continue
        bad |= bool(found)
        for problem in found:
            print(f"{version}: {problem}")
        if not found:
            manifest = read_manifest(version)
            print(f"{version}: {len(manifest['files'])} files, all as in {MANIFEST}")
    return int(bad)


def _parser() -> Parser:
    parser = Parser(
        "dtmt verify",
        "Check that an exported version is whole: every file of its manifest is there with its "
        "size and SHA-256, and no other. Of a run's folder all published versions are checked.",
        "dtmt verify saved_models/multi30k_ende/dtmt_tied",
        "dtmt verify saved_models/multi30k_ende/dtmt_tied/1",
    )
    parser.add_argument(
        "folder", type=Path, metavar="FOLDER", help="a version's folder, or a run's"
    )
    return parser
