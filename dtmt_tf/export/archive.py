"""An exported version as one archive for others, and the catalogue that names it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from dtmt_tf.errors import DAMAGED, UserError
from dtmt_tf.export.manifest import MANIFEST, problems, read_manifest
from dtmt_tf.export.model_card import is_of
from dtmt_tf.files import flush, size_and_hash, write_atomically, write_json
from dtmt_tf.folders import locked
from dtmt_tf.pretrained import CATALOGUE, FORMAT, NAME, read_catalogue, unpacked
from dtmt_tf.translator.places import VERSION

LICENCE = "LICENSE"
LOCK = f".{CATALOGUE}.lock"
PRIVATE = ".dtmt-pack-"  # of a folder that an archive is made in
_MADE_OF = {  # what scores are known by, and where the manifest has it
    "weights_sha256": "weights_sha256",
    "dictionary_sha256": "dictionary_sha256",
    "checkpoint_steps": "checkpoints",
}
_NO_TIME = (1980, 1, 1, 0, 0, 0)  # the first of ZIP; the same files give the same archive
_MODE = 0o644 << 16


def pack(version: Path, name: str, licence: Path, folder: Path) -> Path:
    """Packs an exported version with its licence, and adds it to the catalogue beside the archive.

    The archive's name has a hash of what was exported, so archives of different models never share
    one. The same version packed twice gives the same bytes.

    Args:
        version: The version's folder.
        name: What the catalogue calls the model. A model of that name is replaced in it.
        licence: A text, under which the model is given to others.
        folder: Where archive and catalogue go.

    Returns:
        The archive.

    Raises:
        UserError: If the version is not published or not whole, the name is none for a catalogue,
            there is no licence, the folder holds another program's `models.json`, or there is no
            room.

    Side effects:
        Writes two files into the folder, one process after the other, and a lock, which stays. The
        archive is unpacked and compared with its manifest before the catalogue names it.
    """
    if not NAME.fullmatch(name):
        raise UserError(
            "A pre-trained model's name has letters, digits, dots, dashes and underscores, at most "
            f"100, the first a letter or a digit. Received: {name!r}."
        )
    version = version.resolve()  # the present folder has no name
    if not VERSION.fullmatch(version.name):
        raise UserError(f"{version} is no published version: its name is no number.")
    _check(version)
    try:
        terms = licence.read_bytes()
    except OSError as error:
        raise UserError(f"Cannot read the licence {licence}: {error.strerror}.") from error
    catalogue = folder / CATALOGUE
    if catalogue.exists():
        read_catalogue(catalogue.read_bytes(), catalogue)
    # of one name are archives of one content: a catalogue that somebody has read stays true
    identity = read_manifest(version).get("identity", "").encode()
    archive = folder / f"{name}-{hashlib.sha256(identity + terms).hexdigest()[:8]}.zip"
    facts = _facts(version)  # a version that does not tell them has no archive
    with locked(folder / LOCK):
        for left in folder.glob(f"{PRIVATE}*"):  # by a process that was killed
            shutil.rmtree(left)
        with tempfile.TemporaryDirectory(dir=folder, prefix=PRIVATE) as place:
            made = Path(place) / archive.name
            write_atomically(made, lambda stream: _write(stream, version, name, terms))
            with unpacked(made, Path(place) / "model") as found:
                _check(found / version.name)
            facts |= size_and_hash(made)
            os.replace(made, archive)  # the same may be there
        flush(folder)
        _add(catalogue, name, {"file": archive.name, **facts})
    return archive


def _check(version: Path) -> None:
    if found := problems(version):
        raise UserError(
            f"{version} is not as it was exported:\n  " + "\n  ".join(found) + "\nExport it again."
        )


def _write(stream: BinaryIO, version: Path, name: str, licence: bytes) -> None:
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as packed:
        for inside, content in _contents(version, licence):
            about = zipfile.ZipInfo(f"{name}/{inside}", _NO_TIME)
            about.compress_type, about.external_attr = zipfile.ZIP_DEFLATED, _MODE
            if isinstance(content, bytes):
                packed.writestr(about, content)
                continue
            about.file_size = content.stat().st_size
            with content.open("rb") as source, packed.open(about, "w") as target:
                shutil.copyfileobj(source, target, 1 << 20)


def _contents(version: Path, licence: bytes) -> Iterator[tuple[str, bytes | Path]]:
    """Yields the names of an archive's files below its folder, and what they hold."""
    yield LICENCE, licence
    for inside in [*sorted(read_manifest(version)["files"]), MANIFEST]:
        yield f"{version.name}/{inside}", version / inside


def _facts(version: Path) -> dict[str, Any]:
    """Returns what a reader of the catalogue wants to know of a model."""
    try:
        settings = json.loads((version / "experiment.json").read_text("utf-8"))["settings"]
        scores = json.loads((version / "scores.json").read_text("utf-8"))
        manifest = read_manifest(version)
        rounded = settings.get("export", {}).get("quantize", "none") != "none"  # after the score
        model = {name: manifest[kept] for name, kept in _MADE_OF.items() if kept in manifest}
        facts = {
            "run": manifest.get("model", ""),
            "source_language": settings["data"]["source_language"],
            "target_language": settings["data"]["target_language"],
            "bleu": {
                split: round(score["bleu"], 2)
                for split, score in scores.items()
                if is_of(score, settings.get("decoding", {}), model) and not rounded
            },
        }
    except (OSError, *DAMAGED) as error:
        raise UserError(
            f"{version} does not say what it is ({type(error).__name__}: {error}). Export it again."
        ) from error
    return facts


def _add(catalogue: Path, name: str, entry: dict[str, Any]) -> None:
    models = json.loads(catalogue.read_text("utf-8"))["models"] if catalogue.exists() else {}
    content = {"format": FORMAT, "models": dict(sorted({**models, name: entry}.items()))}
    write_json(catalogue, content)
