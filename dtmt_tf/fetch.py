"""Files from elsewhere: how they are fetched, and where they are kept."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import os
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tqdm import tqdm

from dtmt_tf.errors import UserError
from dtmt_tf.files import told_if_full
from dtmt_tf.terminal import bar_columns, bar_interval

FAILURES = (OSError, http.client.HTTPException, ValueError)  # what fetching can end in

_BLOCK_BYTES = 1 << 20
_TIMEOUT_SECONDS = 30


def fetch(url: str, path: Path) -> str:
    """Writes what an address holds into a file, and shows how far it is.

    Args:
        url: Of the kind `https`, `http` or `file`.
        path: The file. Its folder is there.

    Returns:
        The SHA-256 of the file.

    Raises:
        FAILURES: If it cannot be had; the file may hold a part of it.
    """
    digest = hashlib.sha256()
    with urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS) as response, path.open("wb") as out:
        total = _size(response)
        with tqdm(
            total=total,
            desc=path.stem,
            unit="B",
            unit_scale=True,
            ncols=bar_columns(),
            mininterval=bar_interval(),
        ) as progress:
            while block := response.read(_BLOCK_BYTES):
                out.write(block)
                digest.update(block)
                progress.update(len(block))
        _check_end(out.tell(), total)
    return digest.hexdigest()


@contextlib.contextmanager
def downloaded(url: str, partial: Path, advice: str) -> Iterator[str]:
    """Fetches into a file that is there within this block, whose SHA-256 it gives.

    Raises:
        UserError: If it cannot be had, which ends in the advice.
    """
    try:
        try:
            with told_if_full(partial):
                found = fetch(url, partial)
        except FAILURES as error:
            raise UserError(f"Could not download {url}: {error}. {advice}") from error
        yield found
    finally:
        partial.unlink(missing_ok=True)


def fetch_text(url: str) -> bytes:
    """Returns what an address holds, at most a MiB of it.

    Raises:
        FAILURES: If it cannot be had.
    """
    with urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS) as response:
        text: bytes = response.read(_BLOCK_BYTES)
        total = _size(response)
        _check_end(len(text), None if total is None else min(total, _BLOCK_BYTES))
        return text


def _size(response: Any) -> int | None:
    """Returns how many bytes an answer says that it has."""
    size = response.headers.get("Content-Length")
    return int(size) if size else None


def _check_end(read: int, total: int | None) -> None:
    """Raises an OSError if an answer ended early, which `read` does not tell."""
    if total is not None and read != total:
        raise OSError(f"the connection ended after {read:,} of {total:,} bytes")


def cache_dir() -> Path:
    """Returns where downloads are kept: below XDG_CACHE_HOME, else HOME.

    Raises:
        UserError: If neither is an absolute path.
    """
    folder = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not folder.is_absolute():  # as the standard of that variable has it
        home = os.environ.get("HOME", os.path.expanduser("~"))
        folder = Path(home) / ".cache"
    if not folder.is_absolute():
        raise UserError(
            "There is no place for downloads and prepared text: set the environment variable HOME "
            "or XDG_CACHE_HOME to an absolute path."
        )
    return folder / "dtmt_tf"
