"""A run's best weights to a published version with all that goes with it."""

from __future__ import annotations

import hashlib
import json
import logging
import shlex
import shutil
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from dtmt_tf.errors import DAMAGED, UserError
from dtmt_tf.export.canary import LINES_AT_ONCE, Canary, Pair
from dtmt_tf.export.endpoints import Endpoints
from dtmt_tf.export.manifest import MANIFEST, problems, read_manifest, write_manifest
from dtmt_tf.export.model_card import card_text, model_card, without_folders
from dtmt_tf.export.saved_model import export_saved_model
from dtmt_tf.export.versions import move, next_version, private_folder
from dtmt_tf.export.warmup import sample_requests
from dtmt_tf.files import write_json
from dtmt_tf.folders import claimed
from dtmt_tf.models import TranslationModel
from dtmt_tf.settings import as_lines, differences
from dtmt_tf.translator import live_versions
from dtmt_tf.translator.places import REFUSED

logger = logging.getLogger(__name__)

PACKAGES = ("tensorflow", "tensorflow-text", "keras")  # that make the graph
ROOMS = ("cells", "layers", "models", "decoding", "text", "export")  # of this program, likewise


def release(
    endpoints: Endpoints,
    folder: Path,
    experiment: Mapping[str, Any],
    scores: Mapping[str, Any],
    *,
    description: str,
    checkpoints: Sequence[int],
    pairs: Sequence[Pair],
    canary: Canary | None = None,
    older: bool = False,
) -> Path:
    """Exports a model with its settings, scores, card and warm-up requests, and publishes it.

    The version is built in a folder that no server takes, tried there in a fresh process, and
    renamed when all of it is on the disk.

    Args:
        endpoints: What it answers.
        folder: The run's folder; the model gets the next version's number.
        experiment: What `experiment.json` holds.
        scores: What `scores.json` holds; may be empty.
        description: The task's.
        checkpoints: The updates that the weights are the mean of.
        pairs: Samples of the run, for the warm-up and the canary; the model need not take all.
        canary: What the version has to show on them; by default nothing.
        older: Whether an older version than the newest may be the same.

    Returns:
        The version's folder. Unless forced, an earlier version is returned if it is whole and has
        the same weights, settings, dictionary and program.

    Raises:
        UserError: If the result could not be served; or if it fails the canary, and then it lies
            in a folder beside the versions.
    """
    made = made_of(endpoints)
    card = model_card(
        experiment,
        scores,
        name=folder.name,
        description=description,
        parameters=endpoints.model.count_params(),
        checkpoints=checkpoints,
        limits=endpoints.described_limits(),
        made_of=made,
    )
    about: dict[str, Any] = {
        "model": f"{card['task']}/{card['name']}",
        **made,
        "vocabulary": endpoints.vocabulary.fingerprint,
        "checkpoints": list(checkpoints),
        "versions": {name: metadata.version(name) for name in PACKAGES},
        "program_sha256": program_hash(),
    }
    about["identity"] = _hash([about, experiment["settings"], card["limits"]])
    with claimed(folder), private_folder(folder) as place:
        versions = live_versions(folder)[::-1]
        last = versions[0] if versions else None
        force = canary is not None and canary.force
        for version in [] if force else versions if older else versions[:1]:
            if _is_same(version, about["identity"]):
                what = "of the same weights, settings and program"
                logger.info("No new version: %s is %s.", version, what)
                return version
        pairs = _accepted(endpoints, pairs)
        warmup = sample_requests(pairs, accepts=endpoints.accepts)
        export_saved_model(endpoints, place, card, warmup)
        files = {"experiment.json": experiment, "scores.json": scores}
        for name, content in files.items():
            write_json(place / name, without_folders(content))
        (place / "MODEL_CARD.md").write_text(card_text(card), encoding="utf-8")
        against: list[str] = []
        if canary:
            size = _lines_at_once(endpoints, pairs)
            about["canary"], against = _try(canary, pairs, place, last, size)
        write_manifest(place, about)
        version = _published(place, folder, against, force)
    if changes := _changes(last, experiment["settings"]):
        logger.info("Settings that differ from those of %s:\n  %s", last, "\n  ".join(changes))
    return version


def _published(place: Path, folder: Path, against: Sequence[str], force: bool) -> Path:
    """Moves a version from where it was built to where it is served; returns that folder.

    Raises:
        UserError: If something speaks against it and nothing forces it: it lies beside, then.
    """
    number = next_version(folder)
    if against and not force:
        refused = folder / f"{REFUSED}{number}"
        if (refused / MANIFEST).exists():
            shutil.rmtree(refused)
        kept = f"The version lies in {refused}, which no server takes."
        if refused.exists():
            kept = f"The version was not kept: {refused} is something else."
        else:
            move(place, refused)
        raise UserError(
            "Not published:\n  " + "\n  ".join(against) + f"\n{kept} To publish it all the same, "
            f"run dtmt export {shlex.quote(str(folder))} --force, with the same other options."
        )
    for reason in against:
        logger.warning("Published all the same: %s.", reason)
    version = folder / str(number)
    move(place, version)
    return version


def made_of(endpoints: Endpoints) -> dict[str, str]:
    """Returns hashes of what translations depend on beside sub-words and settings, by name."""
    found = {"weights_sha256": weights_hash(endpoints.model)}
    if endpoints.unknown and endpoints.unknown.dictionary:
        found["dictionary_sha256"] = _hash(endpoints.unknown.dictionary)
    return found


def program_hash() -> str:
    """Returns a hash of the sources that make the graph."""
    result, root = hashlib.sha256(), Path(__file__).parents[1]
    rooms = (path for room in ROOMS for path in (root / room).glob("*.py"))
    # how texts are cut and joined, and what is on shortlists
    for path in sorted([*rooms, root / "languages.py", root / "data" / "lexicon.py"]):
        result.update(path.read_bytes())
    return result.hexdigest()


def weights_hash(model: TranslationModel) -> str:
    """Returns a hash of a model's weights, with their names and shapes."""
    result = hashlib.sha256()
    # the names of others, such as the states of seeds, depend on what else the process has built
    for variable in sorted(model.trainable_variables, key=lambda each: each.path):
        array = np.ascontiguousarray(variable.numpy())
        result.update(f"{variable.path} {array.dtype} {array.shape}\n".encode())
        result.update(array.tobytes())
    return result.hexdigest()


def _accepted(endpoints: Endpoints, pairs: Sequence[Pair]) -> Sequence[Pair]:
    """Returns the pairs whose source the model takes; the shortest, if it takes none."""
    taken = [pair for pair in pairs if endpoints.accepts("translate", [pair[0]])]
    return taken or [min(pairs, key=lambda pair: len(pair[0].encode()))]


def _lines_at_once(endpoints: Endpoints, pairs: Sequence[Pair]) -> int:
    """Returns how many samples a request may have, one after the other."""
    size, sources = LINES_AT_ONCE, [source for source, _ in pairs]
    while size > 1 and not all(
        endpoints.accepts("translate", sources[start : start + size])
        for start in range(0, len(sources), size)
    ):
        size //= 2
    return size


def _is_same(version: Path, identity: str) -> bool:
    """Whether a version is that of an identity, and whole."""
    try:
        return read_manifest(version).get("identity") == identity and not problems(version)
    except UserError:  # of version 0.1, or damaged
        return False


def _changes(last: Path | None, settings: Mapping[str, Any]) -> list[str]:
    """Lists the settings in which a version differs from the one before, if that tells its own."""
    try:
        text = (last / "experiment.json").read_text("utf-8") if last else "{}"
        before = json.loads(text).get("settings", settings)
        return as_lines(differences(without_folders(before), without_folders(settings)))
    except (*DAMAGED, OSError):
        return []


def _try(
    canary: Canary, pairs: Sequence[Pair], place: Path, last: Path | None, lines_at_once: int
) -> tuple[dict[str, Any], list[str]]:
    """Tries a version; returns what the manifest says of that, and what speaks against it."""
    samples = _hash([list(pair) for pair in pairs])
    translations = canary.translate(place, pairs, lines_at_once)
    bleu = canary.bleu(translations, pairs)
    before = None
    if last and canary.min_bleu is None:
        before = _score_of(canary, pairs, last, samples)
    return {"samples": samples, "bleu": bleu}, canary.problems(translations, bleu, before)


def _score_of(canary: Canary, pairs: Sequence[Pair], version: Path, samples: str) -> float | None:
    """Returns a published version's score on the samples: from its manifest, or tried anew."""
    try:
        known = read_manifest(version).get("canary", {})
        if known.get("samples") == samples:
            return float(known["bleu"])
    except UserError:
        pass
    try:
        return canary.bleu(canary.translate(version, pairs, 1), pairs)
    except UserError as error:
        logger.warning("%s is not compared with: %s", version, error)
        return None


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
