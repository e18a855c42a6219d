"""Where exported models lie: numbered folders below a run's; the highest number counts."""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import re
import shlex
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from dtmt_tf.errors import UserError, listed
from dtmt_tf.pretrained import find_pretrained

_log = logging.getLogger(__name__)

VERSION = re.compile("[0-9]{1,18}")  # how a server reads them
MODEL = "saved_model.pb"
REFUSED = "refused-"  # before the number of a version that is not published
MOST_LOOKED_AT = 10_000  # names, for models that a message may list
MOST_IN_A_FOLDER = 1000  # of them


def live_versions(folder: Path) -> list[Path]:
    """Returns the published versions below a model's folder, the newest last."""
    found = [path for path in folder.glob("*") if VERSION.fullmatch(path.name)]
    return sorted((path for path in found if path.is_dir()), key=lambda path: int(path.name))


def latest_version(folder: Path) -> Path:
    """Returns the newest published version below a model's folder.

    Raises:
        UserError: If there is none; the message lists the models that there are nearby.
    """
    versions = live_versions(folder)
    if not versions and (folder / MODEL).exists():
        raise UserError(f"{folder} is a version. Name the folder that holds it: {folder.parent}")
    if not versions:
        begun = (folder / "train" / "experiment.json").exists()
        how = (
            f"To export what is trained so far, run dtmt export {shlex.quote(str(folder))}. A "
            "training exports at its end."
            if begun
            else "To make one, run dtmt export with the folder of a trained run."
        )
        refused = sorted(folder.glob(f"{REFUSED}*"), key=lambda path: (len(path.name), path.name))
        if refused:
            again = f"dtmt export {shlex.quote(str(folder))} --force"
            how = f"{refused[-1].name} there was refused; {again} publishes it all the same."
        near = listed(str(folder), map(str, models_near(folder)))
        raise UserError(f"{folder} holds no exported model. {how}{near}")
    return versions[-1]


def find_model(place: Path) -> Path:
    """Returns the folder of an exported version.

    Args:
        place: Such a folder; a run's, whose newest version is taken; or, where neither is there,
            the name of a pre-trained model.

    Raises:
        UserError: If there is none.
    """
    place = pretrained_instead(place, str(place)) or place
    return place if (place / MODEL).exists() else latest_version(place)


def pretrained_instead(place: Path, name: str) -> Path | None:
    """Returns the folder of a pre-trained model where a place holds no model of its own.

    Args:
        place: What comes before pre-trained models.
        name: What a catalogue would call the model.

    Returns:
        The folder; None if the place holds a model or no catalogue is configured.

    Raises:
        UserError: See `dtmt_tf.pretrained.find_pretrained`.
    """
    if (place / MODEL).exists() or live_versions(place):
        return None
    try:
        found = find_pretrained(name, map(str, models_near(place)))
    except UserError:
        if (place / "train" / "experiment.json").exists():  # a run; it is told how to export it
            return None
        raise
    if found and place.exists():
        _log.warning("%s holds no exported model: the pre-trained %s is taken.", place, name)
    return found


def models_near(folder: Path) -> list[Path]:
    """Returns folders with exported versions below a folder, or below the nearest above it.

    Looks at most two folders up, as runs lie at `<folder>/<task>/<name>`. Those may hold anything,
    such as all files of the machine, so only so many names below each are looked at.
    """
    found: set[Path] = set()
    for above in [folder, *folder.parents][:3]:
        for path in itertools.islice(_below(above), MOST_LOOKED_AT):
            if VERSION.fullmatch(path.name) and os.path.exists(path / MODEL):
                found.add(path.parent)
        if found:
            break
    return list(found)


def _below(folder: Path) -> Iterator[Path]:
    """Yields what lies in a folder, then what lies in the folders of it, three deep."""
    places = deque([(folder, 1)])
    while places:
        place, down = places.popleft()
        with contextlib.suppress(OSError):  # it is no folder, may not be read, or vanished
            for path in itertools.islice(place.iterdir(), MOST_IN_A_FOLDER):
                yield path
                if down < 3:
                    places.append((path, down + 1))
