"""Checkpoints: one file with everything, complete or absent."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import logging
import os
import re
import struct
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np

from dtmt_tf.errors import UserError
from dtmt_tf.files import clear_leftovers, write_atomically
from dtmt_tf.training.stopping import unscored

META = "meta"
NAME = re.compile(r"step-([0-9]{8,})\.npz")
DAMAGED_ENDING = ".damaged"
END = b"PK\5\6"  # begins the last record of an archive; the size of a comment is its end
END_SIZE = 22
COMMENT_SIZE = hashlib.sha256().digest_size
READ_BYTES = 2**20
# what reading an archive of an earlier version, which has no checksum of the whole, can end in
BROKEN = (EOFError, KeyError, TypeError, ValueError, RuntimeError, struct.error, zipfile.BadZipFile)
PASSING = (errno.ESTALE, errno.EIO, errno.EAGAIN, errno.ETIMEDOUT)  # errors that may not come again
WAITS = (0.2, 1.0, 5.0)  # seconds before each new try to read

TRIES = 10  # to read checkpoints of a run that goes on and removes them

T = TypeVar("T")
logger = logging.getLogger(__name__)


class Damaged(UserError):
    """A checkpoint whose content is not what was written."""


class Gone(UserError):
    """A checkpoint that was there and is not any more, as of a run that is in training."""


def read_again(read: Callable[[], T]) -> T:
    """Returns what a function reads of checkpoints, called again if one goes meanwhile."""
    for _ in range(TRIES):
        with contextlib.suppress(Gone):
            return read()
    return read()


@dataclass(frozen=True)
class Checkpoint:
    """What a run needs to go on.

    Args:
        step: Updates done.
        weights: The weights that translate, by path: moving averages, where there are some.
        optimizer: Optimiser variables, in its order; after moving averages, the raw weights too.
        history: One record for each validation so far: step, bleu and more.
        settings: The experiment, as plain values.
        seconds: Time spent in updates so far.
        tokens: Target tokens seen so far.
        rate_factor: What the schedule's rate is multiplied by.
        bad_steps: Updates in a row, up to this one, that were not finite.
        loss: That of the last update.
    """

    step: int
    weights: Mapping[str, np.ndarray]
    optimizer: Sequence[np.ndarray]
    history: Sequence[Mapping[str, Any]]
    settings: Mapping[str, Any]
    seconds: float = 0.0
    tokens: int = 0
    rate_factor: float = 1.0
    bad_steps: int = 0
    loss: float = float("nan")


class CheckpointFolder:
    """The checkpoints of a run, `step-00002000.npz` and so on.

    Args:
        folder: Where they lie.
        keep_last: How many of the newest that were validated are kept.
        keep_best: How many of those with the best validation BLEU are kept besides.

    Attributes:
        vocabulary: Hash of the sub-words that all checkpoints must belong to; any, if empty. Those
            of earlier versions do not say to which they belong.
    """

    def __init__(self, folder: Path, keep_last: int, keep_best: int) -> None:
        self.vocabulary = ""
        self.folder = folder
        self.keep_last = keep_last
        self.keep_best = keep_best

    def path(self, step: int) -> Path:
        """File of a step."""
        return self.folder / f"step-{step:08d}.npz"

    def steps(self) -> list[int]:
        """Steps that have a checkpoint, oldest first."""
        found = (NAME.fullmatch(path.name) for path in self.folder.glob("step-*.npz"))
        return sorted(int(name[1]) for name in found if name)

    def save(self, checkpoint: Checkpoint) -> Path:
        """Writes a checkpoint, then removes those that are neither new nor good enough.

        Where its last updates were not finite, the newest one before them stays: see `newest`.

        Raises:
            UserError: If there is no room.

        Side effects:
            Files in the folder. A crash leaves the older checkpoints as they were.
        """
        names = {field.name for field in fields(Checkpoint)} - {"weights", "optimizer"}
        meta = {name: getattr(checkpoint, name) for name in sorted(names)}
        arrays = {f"model/{name}": value for name, value in checkpoint.weights.items()}
        arrays |= {f"optimizer/{k:04d}": value for k, value in enumerate(checkpoint.optimizer)}
        arrays[META] = np.frombuffer(json.dumps(meta).encode(), np.uint8)

        def write(file: BinaryIO) -> None:
            np.savez(file, **arrays)  # type: ignore[arg-type]
            _seal(file)

        clear_leftovers(self.folder)
        path = self.path(checkpoint.step)
        write_atomically(path, write)
        steps = self.steps()
        before = [step for step in steps if step <= checkpoint.step - checkpoint.bad_steps]
        last = self.last(self.keep_last, checkpoint.history)
        best = self.best(self.keep_best, checkpoint.history)
        for step in {*steps} - {steps[-1], *before[-1:], *last, *best}:
            self.path(step).unlink()
        return path

    def glance(self) -> Checkpoint | None:
        """Returns the newest checkpoint without its arrays; none if no update is kept."""

        def read() -> Checkpoint | None:
            steps = self.steps()[-1:]
            return self.load(steps[0], arrays=False) if any(steps) else None

        return read_again(read)

    def newest(self, at_most: int | None = None) -> Checkpoint | None:
        """Reads the newest sound checkpoint; none if there is no checkpoint at all.

        Args:
            at_most: Its step, where later ones do not count.

        Raises:
            UserError: If all are damaged, or one that is newer can not be read.

        Side effects:
            Damaged ones that are newer are renamed, so that they no longer count.
        """
        damaged: list[Path] = []
        steps = [step for step in self.steps() if at_most is None or step <= at_most]
        for step in reversed(steps):
            path = self.path(step)
            try:
                checkpoint = self.load(step)
            except Damaged:
                damaged.append(path)
                continue
            for other in damaged:
                aside = other.with_name(other.name + DAMAGED_ENDING)
                with contextlib.suppress(FileNotFoundError):  # another worker was faster
                    other.rename(aside)
                logger.warning(
                    "%s is damaged. It is kept as %s; %s is used.", other, aside.name, path.name
                )
            return checkpoint
        if damaged:
            raise UserError(
                f"All checkpoints in {self.folder} are damaged: "
                f"{', '.join(path.name for path in damaged)}. Put back a copy of one, or start "
                "over with --restart."
            )
        return None

    def forget(self, after: int) -> None:
        """Removes the checkpoints after a step, from which training goes on in another way."""
        for step in self.steps():
            if step > after:
                self.path(step).unlink()

    def last(self, count: int, history: Sequence[Mapping[str, Any]]) -> list[int]:
        """The newest validated steps, of those that have a checkpoint.

        A checkpoint made by a signal does not count, so that a run that was stopped ends with the
        same weights as one that was not.
        """
        present = set(self.steps())
        return sorted(record["step"] for record in history if record["step"] in present)[-count:]

    def best(self, count: int, history: Sequence[Mapping[str, Any]]) -> list[int]:
        """The steps with the best validation BLEU, of those that have a checkpoint.

        If none was scored, the newest ones.
        """
        present = set(self.steps())
        there = [record for record in history if record["step"] in present]
        scored = [record for record in there if "bleu" in record] or there
        scored.sort(key=lambda record: (record.get("bleu", 0.0), record["step"]), reverse=True)
        return sorted(record["step"] for record in scored[:count])

    def load(self, step: int, arrays: bool = True) -> Checkpoint:
        """Reads the checkpoint of a step.

        Args:
            step: Its number of updates.
            arrays: Whether weights and optimiser state are wanted; else both are empty.

        Raises:
            UserError: If the file is damaged, gone (`Gone`), can not be read, or is of other
                sub-words or of a version with other fields.
        """
        found, meta = self._read(step, ("model/", "optimizer/") if arrays else ())
        weights = {
            name.removeprefix("model/"): value
            for name, value in found.items()
            if name.startswith("model/")
        }
        places = (name for name in found if name.startswith("optimizer/"))
        optimizer = [found[name] for name in sorted(places, key=lambda name: (len(name), name))]
        meta["history"] = [_as_noted(entry) for entry in meta["history"]]
        try:
            return Checkpoint(weights=weights, optimizer=optimizer, **meta)
        except TypeError as error:
            raise UserError(
                f"{self.path(step)} is of another version of dtmt_tf ({error}). Use the version "
                "that wrote it."
            ) from error

    def average(self, steps: Sequence[int]) -> dict[str, np.ndarray]:
        """Returns mean weights of several checkpoints, float32 by path; raises as `load` does."""
        total: dict[str, np.ndarray] = {}
        for step in steps:
            arrays, _ = self._read(step, ("model/",))
            for path, value in arrays.items():
                name = path.removeprefix("model/")
                total[name] = total.get(name, 0.0) + value.astype(np.float64)
        return {name: (value / len(steps)).astype(np.float32) for name, value in total.items()}

    def _read(
        self, step: int, prefixes: tuple[str, ...]
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Returns the arrays whose names begin so, and the rest of the checkpoint.

        Only a file whose content fails verification is damaged; what the system can not read is
        tried again where that may help, and else told.
        """
        path = self.path(step)
        for wait in (*WAITS, None):
            try:
                arrays, meta = _content(path, prefixes)
                break
            except (*BROKEN, OSError) as error:
                # errors without a number, and EINVAL: what is read points to nowhere
                if not isinstance(error, OSError) or error.errno in (None, errno.EINVAL):
                    raise Damaged(
                        f"{path} is damaged ({error}). Move it elsewhere to use the others."
                    ) from error
                if wait is None or error.errno not in PASSING:
                    kind = Gone if error.errno == errno.ENOENT else UserError
                    raise kind(
                        f"{path} could not be read: {error.strerror or error}. Nothing was "
                        "changed. Once the system lets it be read, the same command goes on."
                    ) from error
                time.sleep(wait)
        theirs = meta["settings"].get("conditions", {}).get("vocabulary")
        if self.vocabulary and theirs not in (None, self.vocabulary):
            raise UserError(
                f"{path} was trained with other sub-words than those in {self.folder.parent} "
                "(source.spm, target.spm). Put back the files that it was trained with."
            )
        return arrays, meta


def _content(path: Path, prefixes: tuple[str, ...]) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    with path.open("rb") as file:
        if not _is_sound(file):
            raise ValueError("its checksum differs")
        file.seek(0)
        with np.load(file) as archive:
            names = [name for name in archive.files if name.startswith(prefixes)]
            arrays = {name: archive[name] for name in names}
            meta: dict[str, Any] = json.loads(archive[META].tobytes())
            _ = meta["step"], meta["settings"], meta["history"]
            return arrays, meta


def _as_noted(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Returns an entry of a history; of an earlier version a BLEU of 0 alone was no score."""
    was_none = not entry.get("bleu") and entry.keys() <= {"step", "loss", "bleu"}
    return unscored(entry) if was_none else dict(entry)


def _seal(file: BinaryIO) -> None:
    """Gives an archive its checksum, the SHA-256 of all before it, as a comment."""
    file.seek(-2, os.SEEK_END)
    file.write(COMMENT_SIZE.to_bytes(2, "little"))
    file.seek(0)
    file.write(hashlib.file_digest(file, "sha256").digest())  # type: ignore[arg-type]


def _is_sound(file: BinaryIO) -> bool:
    """Whether an archive has the right checksum, or, from an earlier version, none."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - END_SIZE))
    end = file.read()
    if end.startswith(END) and end.endswith(b"\0\0"):
        return True
    left = size - COMMENT_SIZE
    digest = hashlib.sha256()
    file.seek(0)
    while left > 0 and (chunk := file.read(min(READ_BYTES, left))):
        digest.update(chunk)
        left -= len(chunk)
    return file.read() == digest.digest()
