"""Long outputs that are kept as they grow."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import logging
import os
import stat
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count, islice
from pathlib import Path
from types import TracebackType
from typing import IO, Any, BinaryIO

from dtmt_tf.errors import DAMAGED, UserError
from dtmt_tf.files import (
    copy_owner_and_mode,
    file_status,
    flush,
    is_special,
    open_no_link,
    open_special,
    told_if_full,
    write_atomically,
)

READ_BYTES = 2**20  # bytes

logger = logging.getLogger(__name__)


class ResumableLines:
    """A file with one line for each line of an input; a command that was stopped goes on with it.

    Finished lines grow in `<path>.partial`, which gets its name at the end. If the command is
    stopped, killed or fails, they stay there. The same command goes on after them, if neither the
    settings nor the lines of the input that they belong to have changed. Lines of another input
    or other settings are put aside as `<path>.partial.old`, or `.old2` and so on where that is
    taken. `<path>.partial.json` says how far the lines are.

    Standard output, devices and pipes get each line at once, and nothing is kept.

    Args:
        path: The file; None for standard output. If it is a link, the link's target.
        settings: What else the lines depend on, as JSON holds it: which model, which search.
        seconds: At most so much work is lost if the process is killed.

    Raises:
        UserError: On entry, if another process writes the file; in `remaining`, if
            `<path>.partial` is not of this class; in `write` and at the end, if there is no room.

    Example:
        with ResumableLines(path, {"model": digest, "scores": True}) as output:
            rest = output.remaining(lines)  # give it all lines; it skips those that are done
            while batch := list(islice(rest, 1000)):
                output.write(translate(batch))  # as many lines, in the same order

    `done` says how many lines are finished; after `remaining`, those that were kept.
    """

    def __init__(
        self, path: Path | None, settings: Mapping[str, Any], seconds: float = 5.0
    ) -> None:
        self.path = path
        self.seconds = seconds
        beginning = json.dumps(settings, sort_keys=True).encode()
        self._progress = _Progress(input=hashlib.sha256(beginning))
        self._kept = 0  # lines that a kill would leave
        self._due = 0.0  # when they are recorded next
        self._waiting: deque[str] = deque()  # lines of the input whose output is to come
        self._began = self._ended = False  # whether the input was

    @property
    def done(self) -> int:
        """Lines that are finished."""
        return self._progress.lines

    def __enter__(self) -> ResumableLines:
        self._partial: Path | None = None  # none if nothing is kept
        self._open = contextlib.ExitStack()  # lines of the input that may be read again
        self._file: IO[bytes]
        if self.path is None:
            self._file = sys.stdout.buffer
        elif is_special(self.path):
            self._file = open_special(self.path)
        else:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            target = Path(os.path.realpath(self.path))
            if target.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(self.path))
            self._partial = target.with_name(target.name + ".partial")
            with told_if_full(self._partial):
                self._file = _locked(self._partial)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                if self._waiting or not self._ended:
                    raise ValueError("The input was not read to its end, or lacks output.")
                if self._partial:
                    with told_if_full(self._partial):
                        self._finish(self._partial)
            elif self._partial:
                self._keep(self._partial)
        finally:
            self._open.close()
            if self.path is not None:
                with contextlib.suppress(OSError):  # `write` has flushed all that it was given
                    self._file.close()

    def remaining(self, lines: Iterable[str]) -> Iterator[str]:
        """Returns those of the input's lines that have no output yet.

        They may be read ahead of `write`.
        """
        rest = iter(lines)
        if self._partial:
            with told_if_full(self._partial):
                rest = self._resume(self._partial, rest)
        self._began = True
        return self._passing(rest)

    def write(self, lines: Sequence[str]) -> None:
        """Adds the output of the next lines of the input."""
        if len(lines) > len(self._waiting):
            raise ValueError("There is more output than input.")
        output = "".join(line.replace("\n", " ") + "\n" for line in lines).encode()
        sources = [self._waiting.popleft() for _ in lines]  # another thread may read ahead
        progress = self._progress.after(sources, [output])
        with told_if_full(self._partial or self.path or Path("The output")):
            self._file.write(output)
            self._file.flush()
            self._progress = progress
            if self._partial and time.monotonic() >= self._due:
                self._record(self._partial)

    def _passing(self, lines: Iterator[str]) -> Iterator[str]:
        for line in lines:
            self._waiting.append(line)
            yield line
        self._ended = True

    def _resume(self, partial: Path, lines: Iterator[str]) -> Iterator[str]:
        """Skips the lines that are done, or begins anew; returns the others."""
        kept = _read_record(partial)
        seen = self._open.enter_context(tempfile.TemporaryFile("w+", encoding="utf-8"))

        def noted() -> Iterator[str]:
            for line in islice(lines, kept["lines"]):
                with told_if_full(Path(tempfile.gettempdir())):
                    seen.write(json.dumps(line) + "\n")
                yield line

        if kept:
            progress = self._progress.after(noted(), _beginning_of(self._file, kept["size"]))
            if progress.record() == kept:
                self._file.seek(kept["size"])
                self._file.truncate()  # what was written after the last record
                self._progress, self._kept = progress, progress.lines
                with contextlib.suppress(OSError):  # nobody reads it now
                    seen.close()
                if self.done:
                    logger.info("%s: going on after line %s", partial, f"{self.done:,}")
                return lines
        if self._file.seek(0, os.SEEK_END):
            if not kept:
                raise UserError(f"{partial} is not of this program. Move it, and run this again.")
            aside = _free_name(partial)
            os.replace(partial, aside)
            logger.warning(
                "%s held lines of another input or of other settings: they are in %s now.",
                partial,
                aside.name,
            )
            former, self._file = self._file, _locked(partial)
            former.close()
        self._record(partial)  # before the first line, so that the file is known as this program's
        with told_if_full(Path(tempfile.gettempdir())):
            seen.seek(0)
        return chain(map(json.loads, seen), lines)

    def _record(self, partial: Path) -> None:
        """Flushes the lines to the disk, then writes how far they are."""
        os.fsync(self._file.fileno())
        record = json.dumps(self._progress.record()).encode()
        write_atomically(_record_path(partial), record, follow=False)
        self._kept = self.done
        self._due = time.monotonic() + self.seconds

    def _keep(self, partial: Path) -> None:
        """Leaves the lines for the next command; what fails now is not what the user is told."""
        if self._began:
            with contextlib.suppress(OSError):
                self._file.flush()
                self._file.truncate(self._progress.size)  # Ctrl-C may have come within `write`
            with contextlib.suppress(OSError, UserError):
                self._record(partial)
        with contextlib.suppress(OSError):
            if not self._file.seek(0, os.SEEK_END):
                partial.unlink()
                if self._began:  # else the record may be somebody else's
                    _record_path(partial).unlink(missing_ok=True)
        if self._kept:
            logger.warning(
                "%s finished lines are kept in %s. The same command goes on from there.",
                f"{self._kept:,}",
                partial,
            )

    def _finish(self, partial: Path) -> None:
        """Gives the lines their name."""
        target = _target(partial)
        self._record(partial)
        if former := file_status(target):
            copy_owner_and_mode(self._file, former)
        os.replace(partial, target)
        _record_path(partial).unlink(missing_ok=True)
        flush(target.parent)


@dataclass(frozen=True)
class _Progress:
    """So many lines of so many bytes, and hashes of both sides up to there."""

    input: Any  # as hashlib has them
    output: Any = field(default_factory=hashlib.sha256)
    lines: int = 0
    size: int = 0

    def after(self, sources: Iterable[str], outputs: Iterable[bytes]) -> _Progress:
        """Returns the progress after more lines of the input, and their output in pieces."""
        source, output, lines, size = self.input.copy(), self.output.copy(), self.lines, self.size
        for text in sources:
            source.update(f"{text}\n".encode("utf-8", "surrogatepass"))
            lines += 1
        for piece in outputs:
            output.update(piece)
            size += len(piece)
        return _Progress(source, output, lines, size)

    def record(self) -> dict[str, Any]:
        """Returns it as JSON holds it."""
        hashes = {"input": self.input.hexdigest(), "output": self.output.hexdigest()}
        return {"lines": self.lines, "size": self.size, **hashes}


def _target(partial: Path) -> Path:
    return partial.with_name(partial.name.removesuffix(".partial"))


def _free_name(partial: Path) -> Path:
    """Returns the name under which lines are put aside."""
    names = (f"{partial.name}.old{k if k > 1 else ''}" for k in count(1))
    return next(path for path in map(partial.with_name, names) if not os.path.lexists(path))


def _record_path(partial: Path) -> Path:
    return partial.with_name(f"{partial.name}.json")


def _read_record(partial: Path) -> dict[str, Any]:
    """Returns the record of lines that were kept, empty if there is none.

    Raises:
        UserError: If a file that is no such record has its name.
    """
    path = _record_path(partial)
    if not os.path.lexists(path):
        return {}
    try:
        with open_no_link(path) as file:
            record = json.loads(file.read())
        kinds = {name: type(value) for name, value in record.items()}
        if kinds == {"lines": int, "size": int, "input": str, "output": str}:
            return {**record, "lines": max(0, record["lines"]), "size": max(0, record["size"])}
    except DAMAGED:
        pass
    raise UserError(f"{path} is not of this program. Move it, and run this again.")


def _beginning_of(file: IO[bytes], size: int) -> Iterator[bytes]:
    """Yields the first bytes of a file, fewer if it is shorter."""
    file.seek(0)
    while size > 0 and (piece := file.read(min(size, READ_BYTES))):
        yield piece
        size -= len(piece)


def _locked(partial: Path) -> BinaryIO:
    """Opens the file that lines are kept in, or makes it, with the mode of what it will replace.

    Its owner may write to it in any case.

    Raises:
        UserError: If another process has it, or somebody else may have put it there.
    """
    while True:
        file = open_no_link(partial, os.O_CREAT)
        try:
            with contextlib.suppress(OSError):  # a file system without locks
                _lock(file, partial)
            status, there = os.fstat(file.fileno()), file_status(partial)
            shared = partial.parent.stat().st_mode & stat.S_ISVTX  # a folder of several users
            foreign = shared and status.st_uid != os.geteuid()
            if status.st_nlink > 1 or foreign:
                raise UserError(f"{partial} is not of this program. Move it, and run this again.")
            if there is None or not os.path.samestat(status, there):
                file.close()  # the process that had it is done: it has another name now
                continue
            if former := file_status(_target(partial)):
                os.fchmod(file.fileno(), stat.S_IMODE(former.st_mode) | stat.S_IRUSR | stat.S_IWUSR)
        except BaseException:
            file.close()
            raise
        return file


def _lock(file: BinaryIO, partial: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise UserError(
            f"Another process writes {partial}. Wait for it or stop it, or name another output."
        ) from error
