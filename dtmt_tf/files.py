"""Files that are complete or absent, and folders that are claimed, marked and cleaned."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import fnmatch
import os
import re
import secrets
import shutil
import socket
import stat
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, BinaryIO

from dtmt_tf.errors import UserError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# errors of the system that libraries in C++ tell of in the system's words alone
OF_THE_SYSTEM = (
    *FULL,
    *(errno.EIO, errno.ESTALE, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT),
    *(errno.EMFILE, errno.ENFILE, errno.ENODEV, errno.ENXIO, errno.ETIMEDOUT),
)
LOCK = ".lock"
MARK = ".dtmt_run"
TEMPORARY = re.compile(r"\.[0-9a-f]{16}\.partial\Z")  # ends the names of temporary files
LONGEST = 50  # characters of a name that its temporary file's repeats; 255 bytes are the most

_claims: set[Path] = set()  # folders that this process holds


def write_atomically(
    path: Path, content: bytes | Callable[[BinaryIO], None], follow: bool = True
) -> None:
    """Writes a file under another name, then renames it; a crash leaves the old one.

    Several processes may write the same file: one of them wins, whole. A link stays a link; what
    it names is replaced. Devices, pipes and what else is no file are written to as they are.

    Args:
        path: The file. Its folder is made if need be. A file that is replaced gives its mode.
        content: The bytes, or a function that writes them to a file open for writing and reading.
        follow: Without it a link, or whatever else has the name, is replaced itself.

    Raises:
        UserError: If there is no room.

    Side effects:
        Flushes file and folder to the disk. On failure the temporary file is removed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if follow and is_special(path):
        _write_through(path, content)
        return
    target = Path(os.path.realpath(path)) if follow else path
    with told_if_full(path):
        temporary, file = _temporary(target)
        try:
            with file:
                _fill(file, content)
                file.flush()
                os.fsync(file.fileno())
                os.replace(temporary, target)
        except BaseException:
            with contextlib.suppress(OSError):  # the first error is the one to tell
                temporary.unlink()
            raise
        flush(target.parent)


def is_special(path: Path) -> bool:
    """Whether a path names a device, a pipe, a socket or an open file, which no rename replaces."""
    if os.path.abspath(path).startswith(("/dev/fd/", "/dev/std", "/proc/")):
        return True
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def no_file(path: Path) -> str | None:
    """Returns what to say of what has a name and is no file; nothing if nothing has it.

    A pipe's text is gone once it is read, and text files are read several times.
    """
    if path.is_dir():
        return f"{path} is a folder. Name a file in it."
    if path.exists():
        return f"{path} is a pipe or a device. Save its text to a file, and name that."
    return None


def check_name(name: str) -> None:
    """Raises a UserError if a file's name is not UTF-8, as records of it are."""
    try:
        name.encode()
    except UnicodeEncodeError:
        raise UserError(f"The name {os.fsencode(name)!r} is not UTF-8. Rename it.") from None


def system_error(error: BaseException) -> int | None:
    """Returns the number (`errno`) of what the system refused, or None if an error is no such.

    TensorFlow and ArrayRecord have errors of their own for that, with the system's words.
    """
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    text = str(error)
    return next((number for number in OF_THE_SYSTEM if os.strerror(number) in text), None)


def is_of_full_disk(error: BaseException) -> bool:
    """Whether an error of Python or of a library says that there is no room for a file."""
    return system_error(error) in FULL


def clear_leftovers(folder: Path) -> list[Path]:
    """Removes temporary files of `write_atomically` whose process was killed; returns them.

    Those that a living process writes to, and all other files, stay. Call it for a folder that
    this process has claimed, or whose files are this program's.
    """
    removed = []
    for path in folder.glob("*.partial") if folder.is_dir() else ():
        if not TEMPORARY.search(path.name):
            continue
        with contextlib.suppress(FileNotFoundError, BlockingIOError), open_no_link(path) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
            removed.append(path)
    return removed


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keeps other processes waiting that lock the same file; it ends with the process at latest.

    Args:
        path: A file for this alone. It and its folder are made if need be, and stay.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with open_no_link(path, os.O_CREAT) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
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
    with _lock_file(folder) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            owner = file.read().decode("utf-8", "replace").strip() or "another process"
            raise UserError(
                f"{folder} is in use by {owner}. Wait for it or stop it (kill -TERM saves its "
                "work). A new run may have another --name."
            ) from error
        command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])[:1000]
        owner = f"process {os.getpid()} on {socket.gethostname()} ({command})\n"
        file.truncate(0)
        file.write(owner.encode("utf-8", "replace"))
        file.flush()
        _claims.add(place)
        try:
            yield
        finally:
            _claims.remove(place)


def _lock_file(folder: Path) -> BinaryIO:
    """Opens the file whose lock claims a folder, which is made if need be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return open_no_link(folder / LOCK, os.O_CREAT)
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise
        raise UserError(f"{folder}: {error.strerror}. Choose another --output-dir.") from error


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
    if not folder.exists() or is_ours(folder):
        return
    ours = (LOCK, f"{MARK}.")  # and what a killed process left of a mark
    others = sorted(path.name for path in folder.iterdir() if not path.name.startswith(ours))
    if others:
        raise UserError(
            f"{folder} holds {others[0]!r} and no run of dtmt_tf. Nothing in it was changed. "
            "Choose another --name or --output-dir."
        )


def is_ours(folder: Path) -> bool:
    """Whether a folder has this program's mark."""
    return file_status(folder / MARK) is not None


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
    if not is_ours(folder):
        raise UserError(
            f"{folder} is no folder that dtmt_tf made: it has no {MARK}. Nothing was removed."
        )
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


def file_status(path: Path) -> os.stat_result | None:
    """Returns what the system says of a file; None for a link or whatever else is no file."""
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status if stat.S_ISREG(status.st_mode) else None


def open_no_link(path: Path, flags: int = 0, mode: int = 0o666) -> BinaryIO:
    """Opens a file for reading and writing.

    Raises:
        UserError: If a link, a pipe or whatever else is no file has its name.
    """
    flags |= os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC

    def opener(name: str, _: int) -> int:
        try:
            descriptor = os.open(name, flags, mode)
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
        else:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                return descriptor
            os.close(descriptor)
        raise UserError(f"{path} should be a file and is none. Move it, and run this again.")

    return open(os.fspath(path), "r+b", opener=opener)


def _temporary(target: Path) -> tuple[Path, BinaryIO]:
    """Makes the temporary file that is to replace a file, with its mode and owner.

    Its lock tells `clear_leftovers` that a living process writes to it.
    """
    former = file_status(target)
    mode = stat.S_IMODE(former.st_mode) if former else 0o666
    while True:
        name = f"{target.name[:LONGEST]}.{secrets.token_hex(8)}.partial"
        path = target.with_name(name)
        file = open_no_link(path, os.O_CREAT | os.O_EXCL, mode)
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file.fileno()).st_nlink:  # else it was taken for a leftover before the lock
            break
        file.close()
    if former:
        copy_owner_and_mode(file, former)
    return path, file


def copy_owner_and_mode(file: IO[bytes], former: os.stat_result) -> None:
    """Gives a file another one's owner and mode, as far as the system allows."""
    with contextlib.suppress(OSError):  # only root gives files away
        os.fchown(file.fileno(), former.st_uid, former.st_gid)
    with contextlib.suppress(OSError):  # a file system without modes
        os.fchmod(file.fileno(), stat.S_IMODE(former.st_mode))


def _fill(file: BinaryIO, content: bytes | Callable[[BinaryIO], None]) -> None:
    if callable(content):
        content(file)
    else:
        file.write(content)


def _write_through(path: Path, content: bytes | Callable[[BinaryIO], None]) -> None:
    """Writes to what is no file. A function may seek, so what it writes is kept until then."""
    with tempfile.TemporaryFile() as whole, told_if_full(path):
        _fill(whole, content)
        whole.seek(0)
        with open_special(path) as stream:
            shutil.copyfileobj(whole, stream)


def open_special(path: Path) -> IO[bytes]:
    """Opens what is no file for writing: at its end, as an open file may have a beginning."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND), "wb")


@contextlib.contextmanager
def told_if_full(path: Path) -> Iterator[None]:
    """Makes an error of a full disk one that says what to do."""
    try:
        yield
    except BaseException as error:
        if is_of_full_disk(error):
            raise UserError(
                f"{path} could not be written: {error}. All that was there before is "
                "whole. Make room and run the same command again."
            ) from error
        raise


def flush(path: Path) -> None:
    """Has the system write a file, or the names in a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
