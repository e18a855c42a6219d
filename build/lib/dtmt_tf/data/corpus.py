"""Parallel text files: where they come from, and how bytes become lines."""

import functools
import gzip
import hashlib
import http.client
import logging
import lzma
import os
import urllib.error
import urllib.parse
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tqdm import tqdm

from dtmt_tf.config import RemoteFile
from dtmt_tf.errors import UserError
from dtmt_tf.files import locked

_log = logging.getLogger(__name__)

_OPENERS = {".gz": gzip.open, ".xz": lzma.open}
_DAMAGED = (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error)
_BLOCK_BYTES = 1 << 20
_TIMEOUT_SECONDS = 30


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
class Text:
    """What is known of a file's text, unpacked.

    Args:
        sha256: Its hash.
        num_lines: How many lines it has.
    """

    sha256: str
    num_lines: int


def text_of(path: Path, suffix: str | None = None) -> Text:
    """Reads a file through.

    Args:
        path: A plain or packed file.
        suffix: How it is packed, if its name does not tell.

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
    return Text(digest.hexdigest(), num_lines + (end != b"\n"))


def resolve_file(
    file: RemoteFile,
    data_dir: Path | None,
    cache_dir: Path,
    read: Callable[[Path], Text] = text_of,
) -> Path:
    """Finds a file of a public data set, or downloads it, and checks its hash.

    The file is looked for below `data_dir`, then below `cache_dir`, in both under its own name and
    packed (`.gz`, `.xz`). The hash is that of the unpacked text, so it does not matter how, or
    with which settings, the file was packed.

    Args:
        file: What is wanted.
        data_dir: Where the user keeps data sets, if anywhere.
        cache_dir: Where downloads are kept.
        read: Returns the hash of a file that is there.

    Returns:
        The path of the file, plain or packed; `read_lines` takes either.

    Raises:
        UserError: If the file is not there and cannot be downloaded, or its hash is wrong.

    Side effects:
        Writes below `cache_dir` alone. A download grows under a name ending in `.partial` and is
        renamed once its hash is right; other processes that want one wait meanwhile.
    """

    def find() -> Path | None:
        for directory in (data_dir, cache_dir):
            for found in _candidates(directory, file.path) if directory is not None else ():
                if found.is_file():
                    advice = "Replace it by the original file, or remove it"
                    _verify(found, file, advice, functools.partial(read, found))
                    return found
        return None

    found = find()
    if found is None:
        with locked(cache_dir / "downloads.lock"):
            found = find() or _fetched(file, data_dir, cache_dir)
    return found


def _fetched(file: RemoteFile, data_dir: Path | None, cache_dir: Path) -> Path:
    """Downloads a file below `cache_dir`, see `resolve_file`."""
    suffix = Path(urllib.parse.urlparse(file.url).path).suffix
    packed = suffix in _OPENERS and not file.path.endswith(suffix)
    target = cache_dir / (file.path + suffix if packed else file.path)
    partial = target.with_name(target.name + ".partial")
    target.parent.mkdir(parents=True, exist_ok=True)
    _log.info("Downloading %s to %s", file.url, target)
    try:
        try:
            _download(file.url, partial)
        except (OSError, http.client.HTTPException) as error:
            root = data_dir or Path("<directory>")
            raise UserError(
                f"Could not download {file.url}: {error}. Fetch it on a machine that can, put it "
                f"at {root / file.path} (plain, .gz or .xz), and name {root} by --data-dir or by "
                "the environment variable DTMT_DATA_DIR."
            ) from error
        advice = "Run again; if it stays wrong, the data set has changed"
        _verify(target, file, advice, functools.partial(text_of, partial, target.suffix))
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)
    return target


def _candidates(directory: Path, path: str) -> Iterator[Path]:
    yield directory / path
    for suffix in _OPENERS:
        yield directory / (path + suffix)


def _open(path: Path, suffix: str | None = None) -> IO[bytes]:
    """Opens a file for reading bytes, unpacked as its suffix, or the one given, says."""
    opener = _OPENERS.get(path.suffix if suffix is None else suffix, open)
    try:
        return opener(path, "rb")  # type: ignore[operator, return-value]
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror}.") from error


def _download(url: str, path: Path) -> None:
    with urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS) as response, path.open("wb") as out:
        size = response.headers.get("Content-Length")
        total = int(size) if size else None
        with tqdm(total=total, desc=path.stem, unit="B", unit_scale=True) as progress:
            while block := response.read(_BLOCK_BYTES):
                out.write(block)
                progress.update(len(block))


def _verify(path: Path, file: RemoteFile, advice: str, read: Callable[[], Text]) -> None:
    """Compares the hash of the unpacked text."""
    try:
        found = read().sha256
    except UserError as error:
        found = f"none, the file is damaged ({error})"
    if found != file.sha256:
        raise UserError(
            f"{path} is not the file that was expected.\n"
            f"  expected SHA-256 {file.sha256}\n  found SHA-256    {found}\n"
            f"{advice} ({file.url})."
        )
