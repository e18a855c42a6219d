"""Folders that one process has at a time, and that are marked as this program's and cleaned."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import fnmatch
import logging
import os
import socket
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from dtmt_tf.errors import UserError
from dtmt_tf.files import file_status, open_no_link, write_atomically

LOCK = ".lock"
MARK = ".dtmt_run"
CLAIM_WAIT_SECONDS = 0.5  # who asks for the owner has the lock for a moment
QUIET_WAIT_SECONDS = 1.0  # for a lock, before a word

_claims: set[Path] = set()  # folders that this process holds
_log = logging.getLogger(__name__)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keeps other processes waiting that lock the same file; it ends with the process at latest.

    Args:
        path: A file for this alone. It and its folder are made if need be, and stay.
    """
    advice = "If it is the cache, XDG_CACHE_HOME names another place for it"
    with _lock_file(path, advice) as file:
        patience = time.monotonic() + QUIET_WAIT_SECONDS
        while not _lock(file, path):
            if time.monotonic() > patience:
                _log.info("Waiting for %s, which has %s.", _owner(file), path)
                fcntl.flock(file, fcntl.LOCK_EX)
                break
            time.sleep(0.02)
        _sign(file)
        yield


@contextlib.contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Keeps a folder for this process; the system lets go of it when the process ends, however.

    Every command that writes into a run claims it; those that only read need not. A process that
    has a folder may claim it again: it lets go of it at the end of the first claim.

    Args:
        folder: It is made if need be. A file in it, which stays, tells others who has it.

    Raises:
        UserError: If another process has it; the message names process and command. Or if it can
            not be made or written to.
    """
    place = folder.resolve()
    if place in _claims:
        yield
        return
    with _lock_file(folder / LOCK) as file:
        patience = time.monotonic() + CLAIM_WAIT_SECONDS
        while not _lock(file, folder / LOCK):
            if time.monotonic() > patience:
                raise UserError(
                    f"{folder} is in use by {_owner(file)}. Wait for it or stop it (kill -TERM "
                    "saves its work). A new run may have another --name."
                )
            time.sleep(0.02)
        _sign(file)
        _claims.add(place)
        try:
            yield
        finally:
            _claims.remove(place)


def holder(folder: Path) -> str:
    """Returns the process that has a folder claimed; nothing if none has."""
    try:
        with open(folder / LOCK, "rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return _owner(file)
    except OSError:  # no lock was ever made, or may be asked for
        pass
    return ""


def _lock_file(path: Path, advice: str = "") -> BinaryIO:
    """Opens a file to be locked; it and its folder are made if need be.

    Args:
        path: The file.
        advice: What to do if that is not allowed, if the folder is not a run's.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return open_no_link(path, os.O_CREAT)
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise
        there = path.parent.exists()
        of_run = "Copy it to where you may write" if there else "Choose another --output-dir"
        raise UserError(f"{path.parent}: {error.strerror}. {advice or of_run}.") from error


def _lock(file: BinaryIO, path: Path) -> bool:
    """Locks a file for this process. Returns False if another process has it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:  # a file system without locks, as some of networks are
        _log.warning(
            "%s can not be locked: %s. See to it that no other process works in %s.",
            *(path, error.strerror, path.parent),
        )
    return True


def _sign(file: BinaryIO) -> None:
    """Writes into a locked file which process has it."""
    command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])[:1000]
    owner = f"process {os.getpid()} on {socket.gethostname()} ({command})\n"
    file.seek(0)
    file.truncate()
    file.write(owner.encode("utf-8", "replace"))
    file.flush()


def _owner(file: BinaryIO) -> str:
    return file.read().decode("utf-8", "replace").strip() or "another process"


def mark(folder: Path, known: bool = False) -> None:
    """Marks a folder as this program's, so that `clean` may remove files from it.

    Args:
        folder: It is made if need be. It is this program's already, or holds nothing but a lock.
        known: Whether it is known to be this program's though it has no mark.

    Raises:
        UserError: See `check_free`.
    """
    if not known:
        check_free(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if is_ours(folder):
        return
    text = "A folder of dtmt_tf, which may remove files that it knows from it. Do not delete this."
    write_atomically(folder / MARK, f"{text}\n".encode())


def check_free(folder: Path) -> None:
    """Sees to it that a folder is this program's, or may become so. Nothing is changed.

    Raises:
        UserError: If it is no folder, or holds something and has no mark.
    """
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is no folder. Choose another --name or --output-dir.")
    if not folder.exists():
        return
    ours = (LOCK, f"{MARK}.")  # and what a killed process left of a mark
    others = sorted(path.name for path in folder.iterdir() if not path.name.startswith(ours))
    if others and not is_ours(folder):  # asked last: another process may mark it meanwhile
        raise UserError(
            f"{folder} holds {others[0]!r} and no run of dtmt_tf. Nothing in it was changed. "
            "Choose another --name or --output-dir."
        )


def is_ours(folder: Path) -> bool:
    """Whether a folder has this program's mark."""
    return file_status(folder / MARK) is not None


def check_marked(folder: Path) -> None:
    """Raises a UserError if a folder has no mark."""
    if not is_ours(folder):
        raise UserError(
            f"{folder} is no folder that dtmt_tf made: it has no {MARK}. Nothing was removed."
        )


def clean(folder: Path, known: Iterable[str]) -> list[Path]:
    """Removes the files that this program knows from a folder that it marked.

    Args:
        folder: The folder.
        known: Patterns of paths below it, one name a folder: `train/checkpoints/step-*.npz`. Of a
            link that fits the link is removed; no link to a folder is entered.

    Returns:
        The files that stay, but for lock and mark.

    Raises:
        UserError: If the folder is not marked; then nothing is removed.

    Side effects:
        Removes files, and folders of the patterns that are empty then.
    """
    check_marked(folder)
    patterns = [pattern.split("/") for pattern in known]
    stay = []
    for place, folders, names in os.walk(folder, topdown=False, onerror=_raise):
        inside = Path(place).relative_to(folder).parts
        links = [name for name in folders if (Path(place) / name).is_symlink()]
        for name in sorted([*names, *links]):
            path, parts = Path(place) / name, (*inside, name)
            if parts in ((LOCK,), (MARK,)):
                continue
            if any(_fits(parts, pattern) for pattern in patterns):
                path.unlink(missing_ok=True)
            else:
                stay.append(path)
        if inside and any(_fits(inside, pattern[: len(inside)]) for pattern in patterns):
            with contextlib.suppress(OSError):  # it is not empty
                os.rmdir(place)
    return sorted(stay)


def _fits(parts: tuple[str, ...], pattern: list[str]) -> bool:
    pairs = zip(parts, pattern, strict=False)
    return len(parts) == len(pattern) and all(fnmatch.fnmatchcase(*pair) for pair in pairs)


def _raise(error: OSError) -> None:
    raise error
