"""Files that are either complete or absent, and locks."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from dtmt_tf.errors import UserError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
LOCK = ".lock"


def write_atomically(path: Path, content: bytes | Callable[[BinaryIO], None]) -> None:
    """Writes a file under another name, then renames it; a crash leaves the old one.

    Args:
        path: The file. Its folder is made if need be.
        content: The bytes, or a function that writes them to a file open for writing and reading.

    Raises:
        UserError: If there is no room.

    Side effects:
        Flushes file and folder to the disk. On failure the partial file is removed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    try:
        with partial.open("w+b") as file:
            if callable(content):
                content(file)
            else:
                file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException as error:
        partial.unlink(missing_ok=True)
        if is_of_full_disk(error):
            raise UserError(
                f"{path} could not be written: {error}. All that was there before is "
                "whole. Make room and run the same command again."
            ) from error
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def is_of_full_disk(error: BaseException) -> bool:
    """Whether an error of Python or of TensorFlow says that there is no room for a file."""
    return any(os.strerror(number) in str(error) for number in FULL)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keeps other processes waiting that lock the same file; it ends with the process at latest.

    Args:
        path: A file for this alone. It and its folder are made if need be, and stay.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Keeps a folder for this process; the system lets go of it when the process ends, however.

    Args:
        folder: It is made if need be. A file in it, which stays, tells others who has it.

    Raises:
        UserError: If another process has it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            raise UserError(
                f"{folder} is in use by {file.read().strip() or 'another process'}. Wait for it or "
                "stop it (kill -TERM saves its work), or give this run another --name."
            ) from error
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
        yield
