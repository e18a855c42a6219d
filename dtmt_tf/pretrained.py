"""Pre-trained models: found by name in a catalogue, downloaded once, kept in the cache.

A catalogue is a JSON file that names archives and their SHA-256; `dtmt pack` writes both. An
archive holds a folder as a run's, with a numbered version, and the model's licence.
"""

from __future__ import annotations

import contextlib
import json
import logging
import lzma
import os
import re
import shutil
import urllib.parse
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dtmt_tf.errors import DAMAGED, UserError, listed
from dtmt_tf.fetch import FAILURES, cache_dir, downloaded, fetch_text
from dtmt_tf.files import flush, told_if_full
from dtmt_tf.folders import locked

_log = logging.getLogger(__name__)

VARIABLE = "DTMT_MODELS"  # the environment variable that names a catalogue, by address or path
CATALOGUE = "models.json"
FORMAT = 1  # of the catalogue
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
KEY = 16  # digits of its SHA-256 that name an archive's folder in the cache


@dataclass(frozen=True)
class Archive:
    """What a catalogue says of a model.

    Attributes:
        file: The archive's address, alone or seen from the catalogue.
        sha256: Of the archive.
    """

    file: str
    sha256: str


def find_pretrained(name: str, here: Iterable[str] = ()) -> Path | None:
    """Returns the folder of a pre-trained model, downloaded if it is not in the cache.

    Args:
        name: The catalogue's name for it.
        here: Names of models that are there without a catalogue, to be told if it has none.

    Returns:
        The folder, with a numbered version; None if no catalogue is configured, or what was given
        is no name but a path.

    Raises:
        UserError: If the catalogue has no such model or is damaged, or cannot be read and the
            model was never downloaded (else the last download serves); if the archive cannot
            be had, or is not the one that the catalogue means.

    Side effects:
        Writes below the cache alone. An archive is unpacked once its SHA-256 is right, and the
        folder renamed once it is complete; other processes that want one wait meanwhile.
    """
    address = os.environ.get(VARIABLE, "")
    if not address or not NAME.fullmatch(name):
        return None
    kept = cache_dir() / "models" / name
    url = address if "://" in address else Path(address).absolute().as_uri()
    try:
        archives = read_catalogue(fetch_text(url), address)
    except FAILURES as error:
        return _newest(kept, address, error)
    if name not in archives:
        raise UserError(
            f"No model here is called {name!r}, and none in {address} ({VARIABLE})."
            f"{listed(name, [*archives, *here])}"
        )
    archive = archives[name]
    folder = kept / archive.sha256[:KEY]
    if not folder.exists():
        with locked(kept / ".lock"):
            if not folder.exists():
                _download(urllib.parse.urljoin(url, archive.file), archive.sha256, folder)
    return folder


def read_catalogue(content: bytes, place: str | Path) -> dict[str, Archive]:
    """Returns the archives of a catalogue, by the names of their models.

    Args:
        content: The catalogue.
        place: Where it is from, for messages.

    Raises:
        UserError: If it is none.
    """
    try:
        catalogue = json.loads(content)
        if (found := catalogue["format"]) != FORMAT:
            raise UserError(
                f"{place} is a catalogue of format {found!r}; this version of dtmt_tf reads format "
                f"{FORMAT}. Upgrade it."
            )
        archives = {
            name: Archive(str(each["file"]), str(each["sha256"]).lower())
            for name, each in catalogue["models"].items()
        }
        wrong = [name for name, each in archives.items() if not _is_sound(name, each)]
        if wrong:
            raise ValueError(f"the entry {wrong[0]!r}")
    except DAMAGED as error:
        raise UserError(
            f"{place} is no catalogue of models ({type(error).__name__}: {error}). {VARIABLE} "
            f"should name the {CATALOGUE} that dtmt pack wrote."
        ) from error
    return archives


@contextlib.contextmanager
def unpacked(archive: Path, folder: Path) -> Iterator[Path]:
    """Unpacks an archive into a folder that is removed at the end.

    Args:
        archive: A ZIP file of one folder.
        folder: What is made for it; what a killed process left there is removed.

    Yields:
        The folder that the archive holds.

    Raises:
        UserError: If it is no such archive.
    """
    shutil.rmtree(folder, ignore_errors=True)
    try:
        with told_if_full(folder), zipfile.ZipFile(archive) as packed:
            packed.extractall(folder)  # names that lead out of the folder lose what leads them out
        found = list(folder.iterdir())
        if len(found) != 1 or not list(found[0].glob("[0-9]*/saved_model.pb")):
            raise zipfile.BadZipFile("it does not hold one folder with an exported version")
        yield found[0]
    except (
        *(zipfile.BadZipFile, zlib.error, lzma.LZMAError),
        *(EOFError, RuntimeError, ValueError),
    ) as error:
        raise UserError(
            f"{archive} is no archive of a model ({error}). dtmt pack makes one."
        ) from error
    except OSError as error:
        raise UserError(f"{archive} could not be unpacked: {error}.") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _is_sound(name: str, archive: Archive) -> bool:
    urllib.parse.urlsplit(archive.file)  # raises ValueError where it is none
    return bool(NAME.fullmatch(name) and re.fullmatch("[0-9a-f]{64}", archive.sha256))


def _newest(kept: Path, address: str, error: Exception) -> Path:
    """Returns the last download of a model while its catalogue cannot be read."""
    found = [path for path in kept.glob("*") if re.fullmatch(f"[0-9a-f]{{{KEY}}}", path.name)]
    if not found:
        raise UserError(
            f"Could not read {address} ({error}). {VARIABLE} should name the {CATALOGUE} of a "
            "collection of models, by its address or path."
        ) from error
    newest = max(found, key=lambda path: path.stat().st_mtime)
    _log.warning("Could not read %s (%s). The last download is taken: %s", address, error, newest)
    return newest


def _download(url: str, sha256: str, folder: Path) -> None:
    """Downloads an archive, checks and unpacks it, see `find_pretrained`."""
    partial = folder.with_name(f"{folder.parent.name}.partial")  # the bar has its name
    _log.info("Downloading %s to %s", url, folder)
    with downloaded(url, partial, "Run the same again.") as found:
        if found != sha256:
            raise UserError(
                f"{url} is not the archive that the catalogue names. Nothing of it is used.\n"
                f"  expected SHA-256 {sha256}\n  found SHA-256    {found}\n"
                "Run again; if it stays wrong, the archive was damaged or exchanged: ask whoever "
                "keeps the catalogue."
            )
        with unpacked(partial, folder.with_name(f"{folder.name}.partial")) as complete:
            for path in [*complete.rglob("*"), complete]:
                flush(path)
            os.replace(complete, folder)
            flush(folder.parent)
