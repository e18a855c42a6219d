"""The versions of a model: numbered folders; a server takes the one with the highest number."""

from __future__ import annotations

import contextlib
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from dtmt_tf.files import flush
from dtmt_tf.translator.places import VERSION

WITHDRAWN = "withdrawn-"  # of one that was; SERVING.md says how to go back
PRIVATE = ".export-"  # of a folder that a version is built in
USED = re.compile(f"(?:{WITHDRAWN})?({VERSION.pattern})")


def next_version(folder: Path) -> int:
    """Returns 1 more than the highest version below a folder, published or withdrawn."""
    names = [USED.fullmatch(path.name) for path in folder.glob("*")]
    return max((int(name[1]) for name in names if name), default=0) + 1


@contextlib.contextmanager
def private_folder(folder: Path) -> Iterator[Path]:
    """Makes a folder beside the versions that no server looks at; it is gone in the end.

    The caller has claimed the model's folder, so that what a killed process left is removed too.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for left in folder.glob(f"{PRIVATE}*"):
        shutil.rmtree(left)
    place = Path(tempfile.mkdtemp(prefix=PRIVATE, dir=folder))
    try:
        place.chmod(0o755)  # a server may be another user
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def move(place: Path, version: Path) -> None:
    """Gives a complete folder its name, for good."""
    place.rename(version)
    flush(version.parent)
