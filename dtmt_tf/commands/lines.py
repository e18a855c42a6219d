"""Lines of text, in and out."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

from dtmt_tf.errors import UserError

BYTE_ORDER_MARK = "\ufeff"
REPLACE = "--replace-invalid"
STANDARD_INPUT = "standard input"

logger = logging.getLogger(__name__)


def add_files(parser: argparse.ArgumentParser) -> None:
    """Adds the file that is read and the file that is written to a parser."""
    parser.add_argument("input", nargs="?", type=Path, help="a text file (default: standard input)")
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


def check_files(args: argparse.Namespace) -> None:
    """Raises a UserError if the output would take the place of the input."""
    if args.input and args.output and same_file(args.input, args.output):
        raise UserError(f"{args.output} is the input; -o would write over it.")


def same_file(one: Path, other: Path) -> bool:
    """Whether two paths name one file, however they are spelt."""
    try:
        return one.samefile(other)
    except OSError:  # one of them is not there
        return one.resolve() == other.resolve()


def read_text(path: Path | None, replace: bool | None = None) -> list[str]:
    r"""Returns the lines of a UTF-8 file, plain or packed, or of standard input.

    A line ends at `\n` or `\r\n`. A byte order mark before the first is left out, and told of.

    Args:
        path: The file; None for standard input.
        replace: Whether bytes that are no UTF-8 become the replacement character, if the command
            has that option.

    Raises:
        UserError: If there is none, it is damaged, or a line is not UTF-8.
    """
    lines = [_decoded(line, number, path, replace)
             for number, line in enumerate(_byte_lines(path), start=1)]  # fmt: skip
    if lines and lines[0].startswith(BYTE_ORDER_MARK):
        logger.warning("%s begins with a byte order mark, which is left out.", _name(path))
        lines[0] = lines[0].removeprefix(BYTE_ORDER_MARK)
    return lines


def _byte_lines(path: Path | None) -> Iterator[bytes]:
    from dtmt_tf.data.lines import byte_lines

    if path:
        yield from byte_lines(path)
        return
    if sys.stdin is None:
        raise UserError("Standard input is closed. Name a file.")
    for line in sys.stdin.buffer:
        yield line.removesuffix(b"\n").removesuffix(b"\r") if line[-1:] == b"\n" else line


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
