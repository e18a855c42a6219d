"""Text files: how bytes, plain or packed, become lines."""

import gzip
import hashlib
import lzma
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from dtmt_tf.errors import UserError

PACKED = {".gz": gzip.open, ".xz": lzma.open}
_DAMAGED = (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error)
_BLOCK_BYTES = 1 << 20


def read_lines(path: Path | str) -> list[str]:
    r"""Reads the sentences of a text file, one per line.

    Lines end at the byte `\n` and nowhere else: U+2028, U+0085 or a form feed inside a sentence
    would otherwise shift all later lines against the other language. A `\r` before the `\n` is
    dropped. Characters are not normalised.

    Args:
        path: A UTF-8 file; plain, or packed if the name ends in `.gz` or `.xz`.

    Raises:
        UserError: If the file is missing or damaged, or a line is not UTF-8.
    """
    lines = []
    for number, line in enumerate(byte_lines(path), start=1):
        try:
            lines.append(line.decode("utf-8"))
        except UnicodeDecodeError as error:
            raise UserError(
                f"{path}:{number}: byte 0x{line[error.start]:02x} at position {error.start + 1} of "
                f"the line is not UTF-8. Convert the file, for example with "
                f"`iconv -f LATIN1 -t UTF-8`, or remove the line from both languages."
            ) from None
    return lines


def byte_lines(path: Path | str) -> Iterator[bytes]:
    r"""Yields the lines of a plain or packed file as bytes, without `\n` or `\r\n`.

    Raises:
        UserError: If the file is missing or damaged.
    """
    with _open(Path(path)) as stream:
        try:
            for line in stream:
                yield line.removesuffix(b"\n").removesuffix(b"\r") if line[-1:] == b"\n" else line
        except _DAMAGED as error:
            raise UserError(f"{path} is damaged: {error}. Fetch or pack it again.") from error


@dataclass(frozen=True)
class FileFacts:
    """Facts about the unpacked text of a file.

    Args:
        sha256: Its hash.
        num_lines: Number of lines.
    """

    sha256: str
    num_lines: int


def facts_of(path: Path, suffix: str | None = None) -> FileFacts:
    """Reads a file through.

    Args:
        path: A plain or packed file.
        suffix: Suffix of its packing, if its name has none.

    Raises:
        UserError: If the file is missing or damaged.
    """
    digest, num_lines, end = hashlib.sha256(), 0, b"\n"
    with _open(path, suffix) as stream:
        try:
            while block := stream.read(_BLOCK_BYTES):
                digest.update(block)
                num_lines += block.count(b"\n")
                end = block[-1:]
        except _DAMAGED as error:
            raise UserError(f"{path} is damaged: {error}. Fetch or pack it again.") from error
    return FileFacts(digest.hexdigest(), num_lines + (end != b"\n"))


def _open(path: Path, suffix: str | None = None) -> IO[bytes]:
    """Opens a file for reading bytes, unpacked as its suffix, or the one given, says."""
    opener = PACKED.get(path.suffix if suffix is None else suffix, open)
    try:
        return opener(path, "rb")  # type: ignore[operator, return-value]
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror}.") from error
