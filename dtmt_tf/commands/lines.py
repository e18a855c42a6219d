"""Lines of text, in and out."""

from __future__ import annotations

import argparse
import itertools
import logging
import os
import select
import sys
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import IO

from dtmt_tf.data.lines import PACKED
from dtmt_tf.errors import UserError
from dtmt_tf.files import is_special
from dtmt_tf.refusals import SKIP

BYTE_ORDER_MARK = "\ufeff"
REPLACE = "--replace-invalid"
STANDARD_INPUT = "standard input"
PICTURES = (".svg", ".png", ".pdf")
DEEPEST = 3  # folders from a file of an export, such as one of its assets, up to it
READ_BYTES = 1 << 16  # bytes that are read at once, if there are so many

logger = logging.getLogger(__name__)


def add_files(parser: argparse.ArgumentParser) -> None:
    """Adds the file that is read and the file that is written to a parser."""
    parser.add_argument(
        "input",
        nargs="?",
        type=lambda text: None if text == "-" else Path(text),
        help="a text file; -, or none, is standard input",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        help="a file (default: standard output); if the command is stopped, finished lines stay in "
        "<file>.partial, and the same command goes on after them",
    )
    parser.add_argument(
        REPLACE,
        action="store_true",
        help="read bytes that are not UTF-8 as the replacement character",
    )
    parser.add_argument(
        SKIP,
        action="store_true",
        help="write an empty line for a line beyond the limits of the export, and tell the numbers "
        "of such lines at the end; else the first of them ends the command",
    )


def check_files(args: argparse.Namespace, *others: Path | None) -> None:
    """Raises a UserError if `-o` would be taken for packed, or `check_outputs` refuses it."""
    if args.output and args.output.suffix in PACKED:
        raise UserError(
            f"-o {args.output}: lines are written unpacked. Name {args.output.with_suffix('')}, or "
            "leave -o out and pipe them through gzip or xz."
        )
    check_outputs([path for path in (args.input, *others) if path], {"-o": args.output})


def check_outputs(read: Sequence[Path], written: Mapping[str, Path | None]) -> None:
    """Raises a UserError if a file, by its option, can not be written, or would replace another.

    That is one that is read, that a second option names, or that belongs to a run or an export.
    """
    options: list[tuple[str, Path]] = [(name, path) for name, path in written.items() if path]
    for k, (option, path) in enumerate(options):
        if path.is_dir():
            raise UserError(f"{option}: {path} is a folder. Name a file.")
        place = next(each for each in Path(os.path.realpath(path)).parents if each.exists())
        if not place.is_dir():
            raise UserError(f"{option}: {path} can not be written: {place} is no folder.")
        if not (os.access(place, os.W_OK) or is_special(path)):
            raise UserError(f"{option}: {place} can not be written to. Name another folder.")
        for other in read:
            if same_file(other, path):
                raise UserError(f"{option} would write over {other}. Name another file.")
        check_place(option, path)
        for earlier, other in options[:k]:
            if same_file(other, path):
                raise UserError(f"{earlier} and {option} both name {path}.")


def check_page(path: Path | None) -> None:
    """Raises a UserError if a page would have another name than pages have: nothing is replaced."""
    if path and path.suffix != ".html":
        raise UserError(f"{path}: a page's name ends in .html.")


def check_picture(path: Path | None) -> None:
    """Raises a UserError if a picture would have a name of another kind of file."""
    if path and path.suffix not in PICTURES:
        raise UserError(f"{path}: a picture's name ends in {', '.join(PICTURES)}.")


def check_place(option: str, path: Path) -> None:
    """Raises a UserError if a file would lie in an exported version, or replace one of a run."""
    above = path.resolve().parents[:DEEPEST]
    if version := next((each for each in above if (each / "saved_model.pb").exists()), None):
        raise UserError(
            f"{option}: {path} would lie in {version}, an exported version, which holds what its "
            "manifest lists and nothing else. Name another place."
        )
    of_run = (each.name == "train" and (each / "experiment.json").exists() for each in above)
    if path.is_file() and any(of_run):
        raise UserError(f"{option} would write over {path}, a file of a run. Name another.")


def check_tag(tag: str) -> None:
    """Raises a UserError if what stands before each line would divide lines or columns."""
    if not tag.isprintable():
        raise UserError(f"--tag should hold no tab, line break or hidden character: {tag!r}.")


def same_file(one: Path, other: Path) -> bool:
    """Whether two paths name one file, however they are spelt."""
    try:
        return one.samefile(other)
    except OSError:  # one of them is not there
        return one.resolve() == other.resolve()


def check_different(named: str, paths: Sequence[Path]) -> None:
    """Raises a UserError if an option, or what messages call it, names one file twice."""
    for first, second in itertools.combinations(paths, 2):
        if same_file(first, second):
            raise UserError(f"{named} {second} is named twice.")


class Lines:
    r"""The lines of a UTF-8 file, plain or packed, or of standard input, read when asked for.

    A line ends at `\n` or `\r\n`. A byte order mark before the first is left out, and told of.

    Args:
        path: The file; None for standard input.
        replace: Whether bytes that are no UTF-8 become the replacement character, if the command
            has that option.

    Raises:
        UserError: While it is read: if there is none, it is damaged, or a line is not UTF-8.
    """

    def __init__(self, path: Path | None, replace: bool | None = None) -> None:
        self.path = path
        self._replace = replace
        self._incoming: _Incoming | None = None

    def __iter__(self) -> Iterator[str]:
        for number, content in enumerate(self._contents(), start=1):
            if number == 1 and self._incoming:
                _check_format(content, self.path)
            line = _decoded(content, number, self.path, self._replace)
            if number == 1 and line.startswith(BYTE_ORDER_MARK):
                logger.warning(
                    "%s begins with a byte order mark, which is left out.", _name(self.path)
                )
                line = line.removeprefix(BYTE_ORDER_MARK)
            yield line

    def ready(self) -> bool:
        """Whether the next line can be had without waiting."""
        return self._incoming is None or self._incoming.ready()

    def _contents(self) -> Iterator[bytes]:
        from dtmt_tf.data.lines import byte_lines

        if self.path and (not is_special(self.path) or self.path.suffix in PACKED):
            yield from byte_lines(self.path)
            return
        if not self.path and sys.stdin is None:
            raise UserError("Standard input is closed. Name a file.")
        if not self.path and sys.stdin.isatty():
            logger.info("Reading what you type. Ctrl-D ends it.")
        with self.path.open("rb") if self.path else nullcontext(sys.stdin.buffer) as stream:
            self._incoming = _Incoming(stream, _name(self.path))
            yield from self._incoming


class _Incoming:
    """The lines of a stream whose writer may take its time."""

    def __init__(self, stream: IO[bytes], name: str) -> None:
        self._stream = stream
        self._name = name  # for messages
        self._lines: deque[bytes] = deque()
        self._parts: list[bytes] = []  # of a line that has no end yet
        self._number = 1  # of that line
        self._ended = False

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        while not self._lines:
            if self._ended:
                raise StopIteration
            self._read()
        return self._lines.popleft()

    def ready(self) -> bool:
        """Whether a whole line is there."""
        while not (self._lines or self._ended) and self._readable(0):
            self._read()
        return bool(self._lines)

    def _readable(self, seconds: float | None = None) -> bool:
        """Whether there is something to read, or the end, within so many seconds."""
        try:
            return bool(select.select([self._stream], [], [], seconds)[0])
        except (OSError, ValueError):  # no file of the system, so nothing to wait for
            return True

    def _read(self) -> None:
        from dtmt_tf.data.lines import MAX_LINE_BYTES, too_long

        self._readable()  # else a pipe that never blocks reads as if it had ended
        piece = self._stream.read1(READ_BYTES)  # type: ignore[attr-defined]
        first, *others = piece.split(b"\n")
        self._parts.append(first)
        if sum(map(len, self._parts)) > MAX_LINE_BYTES:
            raise too_long(self._name, self._number)
        self._number += len(others)
        for part in others:
            self._lines.append(b"".join(self._parts).removesuffix(b"\r"))
            self._parts = [part]
        if not piece:
            self._ended = True
            if rest := b"".join(self._parts):
                self._lines.append(rest)


def bar_title(args: argparse.Namespace, total: int | None) -> str:
    """Returns what a bar of the lines is called; "" where somebody types or reads: no bar there."""
    on_screen = args.output is None and sys.stdout.isatty()
    typed = args.input is None and sys.stdin is not None and sys.stdin.isatty()
    shown = not on_screen and not typed and (total is not None or sys.stderr.isatty())
    return "translate" if shown else ""


def read_text(path: Path) -> list[str]:
    """Returns all of `Lines`."""
    return list(Lines(path))


def in_pairs(lines: Lines, others: Lines) -> Iterator[tuple[str, str]]:
    """Yields the lines of two texts side by side.

    Raises:
        UserError: If one has fewer than the other.
    """
    for number, (line, other) in enumerate(itertools.zip_longest(lines, others), start=1):
        if line is None or other is None:
            few, many = (lines, others) if line is None else (others, lines)
            raise UserError(
                f"{_name(few.path)} has {number - 1:,} lines, {_name(many.path)} has more. They "
                "should have as many."
            )
        yield line, other


def count(path: Path) -> int | None:
    """Returns how many lines a file has; None for a pipe, whose lines can be read only once."""
    from dtmt_tf.data.lines import byte_lines

    if path.exists() and not path.is_file():
        return None
    return sum(1 for _ in byte_lines(path))


def _check_format(line: bytes, path: Path | None) -> None:
    """Raises a UserError if what comes in begins as `data.lines` knows it of no plain text."""
    from dtmt_tf.data.lines import FORMATS

    for start, advice in FORMATS.items():
        if line.startswith(start):
            what = advice.partition(". ")[0]
            raise UserError(f"{_name(path)} is no plain text: {what}. Name the file, or unpack it.")


def _decoded(line: bytes, number: int, path: Path | None, replace: bool | None) -> str:
    try:
        return line.decode("utf-8", "replace" if replace else "strict")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{_name(path)}:{number}: byte 0x{line[error.start]:02x} at position {error.start + 1} "
            "of the line is not UTF-8. Convert it, for example with `iconv -f LATIN1 -t UTF-8`"
            + ("." if replace is None else f", or have such bytes replaced: {REPLACE}.")
        ) from None


def _name(path: Path | None) -> str:
    return str(path) if path else STANDARD_INPUT
