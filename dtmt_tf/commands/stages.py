"""Commands that make one result together: run in order, each once, however often they are begun."""

from __future__ import annotations

import gc
import importlib
import json
import logging
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from dtmt_tf import caller, files, folders
from dtmt_tf.errors import DAMAGED, UserError
from dtmt_tf.fetch import cache_dir

RECIPE = "recipe"  # folder beside a run's `train/`: how far its stages are, and their texts
STAGES = "stages.json"

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Stage:
    """One command of several.

    The command goes on where it was stopped, and given again after its end changes nothing.

    Args:
        title: What it is for, in some words.
        words: The command as it would be typed, without `dtmt`.
        makes: A file or folder that is there when it is done.
        options: Further words, which are not noted: a stage that is done stays so without them.
        reads: The user's own files that it reads, whose hashes are noted.
        needed: Further files that later stages read, each with what to say if it is not made.
    """

    title: str
    words: tuple[str, ...]
    makes: Path
    options: tuple[str, ...] = ()
    reads: tuple[Path, ...] = ()
    needed: tuple[tuple[Path, str], ...] = ()


class Stages:
    """Stages whose last one makes the run in a folder.

    A file in the folder notes the commands, which of them are done, and hashes of the files they
    read. A stage that is done runs again only if its result is gone. Its command and its files may
    not change; those of later stages may.

    Args:
        stages: The stages in order.
        folder: The run's folder.
        places: Options that all of them are given besides: where data and runs lie.
    """

    def __init__(self, stages: Sequence[Stage], folder: Path, places: Sequence[str] = ()) -> None:
        self.stages = stages
        self.folder = folder
        self.places = tuple(places)
        self.record = folder / RECIPE / STAGES
        self._noted = self._read()

    def listed(self) -> str:
        """Returns the stages, two lines each: what it is, and the command it stands for."""
        return "\n".join(
            f"{self._head(number)}{' (done)' * self._is_done(number)}\n  {self._command(number)}"
            for number in range(len(self.stages))
        )

    def run(self) -> int:
        """Runs what is not done; returns the exit code of the command that ended it.

        Raises:
            UserError: If the folder is in use, holds a run of its own, or was begun by other
                commands or with other files; or if a stage does not make what others need.

        Side effects:
            The folder belongs to this process meanwhile, and is marked as this program's.
        """
        with folders.claimed(self.folder):
            folders.mark(self.folder)
            self._noted = self._read()  # another process may have gone on until now
            self._check()
            for number, stage in enumerate(self.stages):
                if self._is_done(number):
                    logger.info("%s: done before", self._head(number))
                    continue
                logger.info("\n%s\n  %s", self._head(number), self._command(number))
                read = _hashes(stage.reads)  # before it runs: a change meanwhile is noticed later
                if code := self._run(number):
                    return code
                for path, lacking in stage.needed:
                    if not path.exists():
                        raise UserError(f"{self._head(number)}: {lacking}")
                self._noted[number] |= {"done": True, "files": read}
                self._write()
        return 0

    def _run(self, number: int) -> int:
        stage = self.stages[number]
        name, *arguments = stage.words
        module = importlib.import_module(f"dtmt_tf.commands.{name}")
        try:
            return module.command([*arguments, *stage.options, *self.places]) or 0
        except KeyboardInterrupt:
            print(f"Stopped. To go on, run again:\n  {caller.again(without='')}", file=sys.stderr)
            return 130
        except UserError as error:
            raise UserError(
                f"{error}\nThat is {self._head(number)}. Options named above go behind its own "
                f"command:\n  {self._command(number)}\nThen give this command once more."
            ) from error
        finally:
            gc.collect()  # models are large, and hold each other in circles

    def _check(self) -> None:
        """Sees to it that the folder is that of these stages."""
        trained = (self.folder / "train" / "experiment.json").exists()
        if trained and not self.record.parent.exists():
            raise UserError(
                f"{self.folder} holds a run that was made otherwise. Choose another --name."
            )
        done = [entry for entry in self._noted if entry["done"]]
        before = [shlex.join(entry["words"]) for entry in done]
        now = [shlex.join(stage.words) for stage in self.stages]
        for number, (was, would_be) in enumerate(zip_longest(before, now), 1):
            if was not in (None, would_be):
                raise UserError(
                    f"{self.folder} was begun by another command. Its stage {number} was\n"
                    f"  dtmt {was}\nand would be\n  {f'dtmt {would_be}' if would_be else 'none'}\n"
                    f"Choose another --name, or remove {self.record}: then all stages run again; "
                    "those that train go on with what they find."
                )
        for number in range(len(done)):
            for name in self._changed(number):
                raise UserError(
                    f"{name} is no longer what it was when this command read it in "
                    f"{self._head(number)}. Choose another --name, or restore {name}."
                )
        to_come = [{"words": [*stage.words], "done": False, "files": {}} for stage in self.stages]
        self._noted = [*done, *to_come[len(done) :]]
        self._write()

    def _head(self, number: int) -> str:
        return f"Stage {number + 1} of {len(self.stages)}: {self.stages[number].title}"

    def _command(self, number: int) -> str:
        stage = self.stages[number]
        name, *rest = [*stage.words, *stage.options, *self.places]
        return f"{caller.as_called(f'dtmt {name}')} {shlex.join(rest)}"

    def _is_done(self, number: int) -> bool:
        stage = self.stages[number]
        return (
            number < len(self._noted)
            and self._noted[number]["done"]
            and self._noted[number]["words"] == [*stage.words]
            and stage.makes.exists()
            and not self._changed(number)
        )

    def _changed(self, number: int) -> list[str]:
        """Returns the files that are not as they were when the stage read them."""
        noted, now = self._noted[number]["files"], _hashes(self.stages[number].reads)
        moved = [noted[name] for name in noted if name not in now]
        return [
            name
            for name, found in now.items()
            if (found != noted[name] if name in noted else moved and found not in moved)
        ]

    def _read(self) -> list[dict[str, Any]]:
        if not self.record.exists():
            return []
        try:
            entries = json.loads(self.record.read_text("utf-8"))["stages"]
            for each in entries:
                shlex.join(each["words"])  # fails unless these are texts
            return [
                {"words": each["words"], "done": each["done"], "files": {**each.get("files", {})}}
                for each in entries
            ]
        except DAMAGED as error:
            raise UserError(
                f"{self.record} is damaged ({type(error).__name__}: {error}). Remove it: then all "
                "stages are run again, each with what there is."
            ) from error

    def _write(self) -> None:
        files.write_json(self.record, {"stages": self._noted})


def _hashes(paths: Sequence[Path]) -> dict[str, str]:
    """Returns the SHA-256 of the files that are there, unpacked, by name."""
    from dtmt_tf.data.own_files import known_texts

    known = known_texts(cache_dir())
    return {str(path): known(path).sha256 for path in paths if path.is_file()}
