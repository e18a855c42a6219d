"""Files that are complete or absent."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, BinaryIO

from dtmt_tf.errors import UserError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# errors of the system that libraries in C++ tell of in the system's words alone
OF_THE_SYSTEM = (
    *FULL,
    *(errno.EIO, errno.ESTALE, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT),
    *(errno.EMFILE, errno.ENFILE, errno.ENODEV, errno.ENXIO, errno.ETIMEDOUT),
)
TEMPORARY = re.compile(r"\.[0-9a-f]{16}\.partial\Z")  # ends the names of temporary files
OPEN_FILE = re.compile(r"/(?:dev|proc/self)/fd/(\d+)|/dev/(stdin|stdout|stderr)")
LONGEST = 50  # characters of a name that its temporary file's repeats; 255 bytes are the most


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


def size_and_hash(path: Path) -> dict[str, Any]:
    """Returns a file's size in bytes and its SHA-256, in hexadecimal digits."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"size": path.stat().st_size, "sha256": digest}


def write_json(path: Path, value: Any) -> None:
    """Writes a value as JSON, see `write_atomically`; dataclasses become objects.

    Args:
        path: The file.
        value: Dataclasses, mappings, sequences, texts and numbers.

    Raises:
        UserError: If there is no room.
        ValueError: If a number is infinite or not a number, which JSON cannot hold.
    """
    text = json.dumps(value, default=_plain, indent=2, ensure_ascii=False, allow_nan=False)
    write_atomically(path, f"{text}\n".encode())


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
        with contextlib.suppress(FileNotFoundError), open_no_link(path) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:  # a process has it; or a file system without locks, where one may
                continue
            path.unlink()
            removed.append(path)
    return removed


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
    """Opens what is no file for writing; an open file goes on where this process writes to it."""
    with contextlib.suppress(OSError):  # told below, with its name
        if name := OPEN_FILE.fullmatch(os.path.abspath(path)):
            for stream in filter(None, (sys.stdout, sys.stderr)):
                stream.flush()
            number = name[1] or ("stdin", "stdout", "stderr").index(name[2])
            return os.fdopen(os.dup(int(number)), "wb")
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND), "wb")


@contextlib.contextmanager
def told_if_full(path: Path) -> Iterator[None]:
    """Makes an error of a full disk one that says what to do."""
    try:
        yield
    except BaseException as error:
        if is_of_full_disk(error) and not isinstance(error, UserError):  # which names its place
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


def _plain(value: Any) -> Any:
    """Returns a dataclass, or a mapping of any kind, as a type that JSON has."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"JSON has no {type(value).__name__}.")
