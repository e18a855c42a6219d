"""Files that are either complete or absent."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO


def write_atomically(path: Path, content: bytes | Callable[[BinaryIO], None]) -> None:
    """Writes a file under another name, then renames it; a crash leaves the old one.

    Args:
        path: The file. Its folder is made if need be.
        content: The bytes, or a function that writes them to an open file.

    Side effects:
        Flushes file and folder to the disk. On failure the partial file is removed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    try:
        with partial.open("wb") as file:
            if callable(content):
                content(file)
            else:
                file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
