"""Files of public data sets: found, or downloaded, and their hash checked."""

from __future__ import annotations

import functools
import logging
import os
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path

from dtmt_tf.config import RemoteFile
from dtmt_tf.data.lines import PACKED, FileFacts, facts_of
from dtmt_tf.errors import UserError
from dtmt_tf.fetch import downloaded
from dtmt_tf.folders import locked

_log = logging.getLogger(__name__)


def resolve_file(
    file: RemoteFile,
    data_dir: Path | None,
    cache_dir: Path,
    read: Callable[[Path], FileFacts] = facts_of,
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
        The path of the file, plain or packed; `lines.byte_lines` takes either.

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
    packed = suffix in PACKED and not file.path.endswith(suffix)
    target = cache_dir / (file.path + suffix if packed else file.path)
    partial = target.with_name(target.name + ".partial")
    target.parent.mkdir(parents=True, exist_ok=True)
    _log.info("Downloading %s to %s", file.url, target)
    root = data_dir or Path("<directory>")
    advice = (
        f"Fetch it on a machine that can, put it at {root / file.path} (plain, .gz or .xz), and "
        f"name {root} by --data-dir or by the environment variable DTMT_DATA_DIR."
    )
    with downloaded(file.url, partial, advice):
        advice = "Run again; if it stays wrong, the data set has changed"
        _verify(target, file, advice, functools.partial(facts_of, partial, target.suffix))
        os.replace(partial, target)
    return target


def _candidates(directory: Path, path: str) -> Iterator[Path]:
    yield directory / path
    for suffix in PACKED:
        yield directory / (path + suffix)


def _verify(path: Path, file: RemoteFile, advice: str, read: Callable[[], FileFacts]) -> None:
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
