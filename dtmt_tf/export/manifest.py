"""An exported version as a set of files: what belongs to it, and whether it is there, unchanged.

`manifest.json` lists every other file with its size and SHA-256, and says what was exported: the
hashes of weights and sub-words, the checkpoints, the versions of the program and its libraries.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dtmt_tf.errors import DAMAGED, UserError
from dtmt_tf.files import flush, size_and_hash, write_json

MANIFEST = "manifest.json"
FORMAT = 1  # of the manifest


def write_manifest(folder: Path, about: Mapping[str, Any]) -> None:
    """Writes the manifest of a folder that is otherwise complete.

    Args:
        folder: The version's folder.
        about: What was exported, as values that JSON has.

    Side effects:
        Flushes every file and folder to the disk, the manifest last.
    """
    files = {name: size_and_hash(folder / name) for name in _names(folder)}
    write_json(folder / MANIFEST, {"format": FORMAT, **about, "files": files})
    for name in [*_names(folder), MANIFEST]:
        flush(folder / name)
    for place, _, _ in os.walk(folder, topdown=False):
        flush(Path(place))


def read_manifest(folder: Path) -> dict[str, Any]:
    """Returns the manifest of a version.

    Raises:
        UserError: If there is none, or it is damaged.
    """
    path = folder / MANIFEST
    try:
        manifest: dict[str, Any] = json.loads(path.read_text("utf-8"))
        sound = [
            type(each["size"]) is int and type(each["sha256"]) is str
            for each in manifest["files"].values()
        ]
        if not all(sound):
            raise ValueError("a size or a hash is none")
    except FileNotFoundError as error:
        raise UserError(
            f"{folder} has no {MANIFEST}: it is no exported version, or one of version 0.1."
        ) from error
    except DAMAGED as error:
        raise UserError(f"{path} is damaged ({type(error).__name__}: {error}).") from error
    return manifest


def problems(folder: Path) -> list[str]:
    """Lists in what a version's files differ from its manifest; nothing if they do not.

    Args:
        folder: The version's folder.

    Returns:
        One line a file that is missing, changed or not listed.

    Raises:
        UserError: If there is no manifest, or it is damaged.
    """
    files = read_manifest(folder)["files"]
    found = []
    for name, wanted in files.items():
        path = folder / name
        if not path.is_file():
            found.append(f"{name} is missing")
        elif (size := path.stat().st_size) != wanted["size"]:
            found.append(f"{name} has {size:,} bytes, not {wanted['size']:,}")
        elif size_and_hash(path)["sha256"] != wanted["sha256"]:
            found.append(f"{name} has other contents")
    found += [f"{name} is not in the manifest" for name in _names(folder) if name not in files]
    return found


def _names(folder: Path) -> list[str]:
    """Returns the paths of all files below a folder but the manifest, sorted."""
    return sorted(
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if not path.is_dir() and path != folder / MANIFEST
    )
