"""Text files: how bytes, plain or packed, become lines."""

import gzip
import hashlib
import itertools
import lzma
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from dtmt_tf.errors import UserError

MARK = b"\xef\xbb\xbf"  # the byte order mark that some editors put before UTF-8
MAX_LINE_BYTES = 1 << 20  # of a packed file memory would not hold, one line may have
LINES_READ = 100_000  # of a file or corpus of which facts are told: more would tell nothing new
MAX_FILE_BYTES = 1 << 30  # of a file that is read as a whole
PACKED = {".gz": gzip.open, ".xz": lzma.open}
FORMATS = {  # how what is no UTF-8 text begins, and what to do about it
    b"\x1f\x8b": "it is packed by gzip. Let its name end in .gz",
    b"\xfd7zXZ\0": "it is packed by xz. Let its name end in .xz",
    b"\x28\xb5\x2f\xfd": "it is packed by zstd. Unpack it",
    **{b"BZh%d1AY&SY" % level: "it is packed by bzip2. Unpack it" for level in range(1, 10)},
    b"PK\x03\x04": "it is a ZIP archive or a document. Save what it holds as text",
    b"\xff\xfe": "it is UTF-16. Convert it: iconv -f UTF-16 -t UTF-8",
    b"\xfe\xff": "it is UTF-16. Convert it: iconv -f UTF-16 -t UTF-8",
}
MOST_OF_FORMAT = max(map(len, FORMATS))
_DAMAGED = (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error)
_BLOCK_BYTES = 1 << 20


def byte_lines(path: Path | str) -> Iterator[bytes]:
    r"""Yields the lines of a plain or packed file as bytes, without `\n` or `\r\n`.

    Lines end at the byte `\n` and nowhere else: U+2028, U+0085 or a form feed inside a sentence
    would otherwise shift all later lines against the other language.

    Args:
        path: A file; plain, or packed if the name ends in `.gz` or `.xz`.

    Raises:
        UserError: If the file is missing or damaged, or a line is too long.
    """
    return map(without_end, ended_lines(path))


def without_end(line: bytes) -> bytes:
    r"""Returns a line without the `\n` or `\r\n` that ends it."""
    return line.removesuffix(b"\n").removesuffix(b"\r") if line.endswith(b"\n") else line


def ended_lines(path: Path | str) -> Iterator[bytes]:
    r"""Yields the lines of a plain or packed file as bytes, with what ends them.

    Raises:
        UserError: If the file is missing or damaged, or a line is too long.
    """
    with _open(Path(path)) as stream:
        try:
            for number in itertools.count(1):
                line = stream.readline(MAX_LINE_BYTES + 2)
                if not line:
                    return
                if len(without_end(line)) > MAX_LINE_BYTES:
                    raise too_long(path, number)
                yield line
        except _DAMAGED as error:
            raise _damaged(path, error) from error


def read_whole(path: Path | str) -> bytes:
    """Returns a file's content, unpacked, without a byte order mark.

    Raises:
        UserError: If the file is missing or damaged, or larger than 1 GiB.
    """
    with _open(Path(path)) as stream:
        try:
            content = stream.read(MAX_FILE_BYTES + 1)
        except _DAMAGED as error:
            raise _damaged(path, error) from error
    if len(content) > MAX_FILE_BYTES:
        raise UserError(f"{path} has more than {MAX_FILE_BYTES:,} bytes. Divide it.")
    return content.removeprefix(MARK)


def unmarked_lines(path: Path | str) -> Iterator[bytes]:
    """Yields what `byte_lines` does, without the byte order marks that begin a line."""
    return (line.removeprefix(MARK) for line in byte_lines(path))


def is_marked(path: Path | str) -> bool:
    """Whether a file begins with a byte order mark."""
    return next(byte_lines(path), b"").startswith(MARK)


def _damaged(path: Path | str, error: Exception) -> UserError:
    return UserError(f"{path} is damaged: {error}. Fetch or pack it again.")


def too_long(path: Path | str, number: int) -> UserError:
    """Returns the error of a line, counted from 1, of more than 1 MiB."""
    return UserError(
        f"{path}:{number}: the line has more than {MAX_LINE_BYTES:,} bytes. Sentences belong on "
        "lines of their own."
    )


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
        UserError: If the file is missing or damaged, or a line is too long.
    """
    digest, num_lines, end, unfinished = hashlib.sha256(), 0, b"\n", 0
    with _open(path, suffix) as stream:
        try:
            while block := stream.read(_BLOCK_BYTES):
                digest.update(block)
                first = block.find(b"\n")
                unfinished += len(block) if first < 0 else first
                if unfinished > MAX_LINE_BYTES + 1:  # a \r may follow
                    raise too_long(path, num_lines + 1)
                if first >= 0:
                    unfinished = len(block) - block.rfind(b"\n") - 1
                num_lines += block.count(b"\n")
                end = block[-1:]
        except _DAMAGED as error:
            raise _damaged(path, error) from error
    return FileFacts(digest.hexdigest(), num_lines + (end != b"\n"))


def _open(path: Path, suffix: str | None = None) -> IO[bytes]:
    """Opens a file for reading bytes, unpacked as its suffix, or the one given, says."""
    opener = PACKED.get(path.suffix if suffix is None else suffix)
    try:
        if opener:
            if path.is_file() and not path.stat().st_size:  # an empty text to Python's gzip
                raise _damaged(path, EOFError("the file has no content"))
            return opener(path, "rb")  # type: ignore[operator, return-value]
        stream = path.open("rb")
        first = stream.peek(MOST_OF_FORMAT)
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror}.") from error
    for start, advice in FORMATS.items():
        if first.startswith(start):
            stream.close()
            raise UserError(f"{path} is no plain text: {advice}.")
    return stream
