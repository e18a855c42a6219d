"""A run: one experiment's folder, its settings, its corpus and its sub-words."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

from dtmt_tf import folders
from dtmt_tf.config import Task
from dtmt_tf.data.check import format_findings
from dtmt_tf.data.corpus import Corpus, load_corpus
from dtmt_tf.data.filtered import format_dropped
from dtmt_tf.data.pipeline import TrainingSet
from dtmt_tf.data.shards import Preparation, Shards, preparation
from dtmt_tf.data.statistics import table
from dtmt_tf.errors import DAMAGED, UserError
from dtmt_tf.experiment import Experiment, from_dict, read_settings, to_dict, with_overrides
from dtmt_tf.export import sample_pairs
from dtmt_tf.files import write_json
from dtmt_tf.machine import machine
from dtmt_tf.models import MODELS, TranslationModel
from dtmt_tf.runs.former import ASIDE, CHECKPOINTS
from dtmt_tf.runs.near import no_run
from dtmt_tf.runs.noted_texts import NOTED, noted
from dtmt_tf.runs.subwords import made_from, subwords_of
from dtmt_tf.tasks import TASKS
from dtmt_tf.text import Vocabulary
from dtmt_tf.training import Checkpoint, CheckpointFolder, unread
from dtmt_tf.training.stopping import finished, validation_is_due

logger = logging.getLogger(__name__)

PACKAGES = ("tensorflow", "tensorflow-text", "keras", "sentencepiece", "sacrebleu", "babel")
MOST_SHOWN = 10_000  # pairs that samples are chosen from
AVERAGES = "training.average"  # settings of how checkpoints are averaged
REMEDIES = {
    "samples.json": "The command that made the run writes it anew when it goes on.",
    "scores.json": "Remove it, and run dtmt evaluate again.",
}
CHANGEABLE = ("decoding.", "export.", "evaluation.", AVERAGES, "data.extra_tests")  # when trained


class Run:
    """One experiment below `saved_models/<task>/<name>/`.

    `train/` holds settings, sub-words, checkpoints and scores; TensorBoard's records lie beside it,
    as do numbered folders: exported models, as TensorFlow Serving wants them.

    Args:
        experiment: The settings.
        folder: Where the run lives.
        data_dir: Where the user keeps data sets.
        cache_dir: Where downloads go.
        origins: Where each setting comes from, for the record.
        members: Runs that predict together in place of this one's own model: an ensemble.
        init_from: A trained run whose sub-words and weights this one begins with.
    """

    def __init__(
        self,
        experiment: Experiment,
        folder: Path,
        data_dir: Path | None,
        cache_dir: Path,
        origins: Mapping[str, str] | None = None,
        members: Sequence[Run] = (),
        init_from: Run | None = None,
    ) -> None:
        self.experiment = experiment
        self.folder = folder
        self.data_dir = data_dir
        self.cache_dir = cache_dir
        self.origins = origins or {}
        self.members = members
        self.init_from = init_from
        self.work = folder / "train"
        training = experiment.training
        self.checkpoints = CheckpointFolder(
            self.work / "checkpoints", training.keep_last, training.keep_best
        )

    @classmethod
    def open(
        cls, folder: Path, data_dir: Path | None, cache_dir: Path, overrides: Sequence[str] = ()
    ) -> Run:
        """Opens a run that was begun before, with its own settings.

        Args:
            folder: The run's folder.
            data_dir: Where the user keeps data sets.
            cache_dir: Where downloads go.
            overrides: `section.name=value` texts that change how its weights are averaged, how
                they decode, what an export keeps, or how and on what they are scored.

        Raises:
            UserError: If there is none, or an override is about anything else.
        """
        path = folder / "train" / "experiment.json"
        if (folder / ASIDE).exists() and not any(folder.glob(f"train/{CHECKPOINTS}")):
            raise UserError(
                f"{folder} is being trained anew with --restart. If that was killed, the same "
                "command without --restart puts back what was there."
            )
        if not path.exists():
            raise no_run(folder)
        record = read_settings(path)
        values = record["settings"]
        if values["model_name"] not in MODELS:
            raise UserError(f"{path}: this version has no model {values['model_name']!r}.")
        try:
            experiment = from_dict(values, type(MODELS[values["model_name"]]))
        except UserError as error:
            raise UserError(f"{path}: {error}") from error
        if experiment.task not in TASKS:
            raise UserError(f"{path}: this version has no task {experiment.task!r}.")
        for override in overrides:
            if not override.startswith(CHANGEABLE):
                raise UserError(
                    f"{override}: the run is trained; only decoding.*, export.*, "
                    "evaluation.*, training.average* and data.extra_tests can still be set."
                )
        experiment, origins = with_overrides(experiment, record["origins"], overrides)
        given = [override.partition("=")[0].removeprefix("training.") for override in overrides]
        for name, reason in unread(experiment.training, given).items():
            logger.warning("training.%s changes nothing: %s.", name, reason)
        place = data_dir, cache_dir
        averages = [text for text in overrides if text.startswith(AVERAGES)]  # each member's own
        names = record.get("members", [])
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise UserError(f"{path} is damaged: members should be places. Received: {names!r}.")
        places = [folder.parent.resolve() / name for name in names]
        for member in places:
            named = member / "train" / "experiment.json"
            if named.exists() and "members" in read_settings(named):
                raise UserError(f"{path} names a member that is an ensemble itself, {member}.")
        members = [cls.open(member, *place, averages) for member in places]
        return cls(experiment, folder, *place, origins, members)

    @contextlib.contextmanager
    def claimed(self) -> Iterator[None]:
        """Keeps the run's folder for this process, and marks it as one that this program made.

        Raises:
            UserError: If another process has it, or it holds what this program did not make.
        """
        known = self.check_place()
        with folders.claimed(self.folder):
            folders.mark(self.folder, known)
            yield

    def check_place(self) -> bool:
        """Sees to it that the folder is this program's, or may become so.

        Returns:
            Whether a version that made no marks has been there.

        Raises:
            UserError: If it holds what this program did not make.
        """
        known = self._began_unmarked()
        if not known:
            folders.check_free(self.folder)
        return known

    def _began_unmarked(self) -> bool:
        """Whether a version that made no marks began, prepared or exported a run in the folder."""
        if folders.is_ours(self.folder):
            return False
        for path in self.folder.glob("*/experiment.json"):
            read_settings(path)  # what is damaged may be somebody else's
            return True
        return made_from(self.work) is not None

    @property
    def task(self) -> Task:
        """The run's task."""
        return TASKS[self.experiment.task]

    @property
    def description(self) -> str:
        """The task's description; for the user's own text, its languages."""
        if not self.experiment.data.train_source or self.experiment.task != "custom":
            return self.task.description
        return f"Parallel text of the user's own, {'-'.join(self.languages)}"

    @property
    def languages(self) -> tuple[str, str]:
        """The codes of source and target; "" if the settings do not say."""
        data = self.experiment.data
        return data.source_language, data.target_language

    @cached_property
    def corpus(self) -> Corpus:
        """The corpus, checked; findings are logged."""
        corpus = load_corpus(self.experiment.data, self.task, self.data_dir, self.cache_dir)
        sizes = ", ".join(f"{size:,} {split}" for split, size in corpus.sizes.items())
        logger.info("Pairs: %s", sizes)
        if corpus.dropped:
            left = corpus.sizes["train"]
            level = logging.WARNING if sum(corpus.dropped.values()) > left else logging.INFO
            logger.log(level, "%s", format_dropped(corpus.dropped, left))
        if corpus.findings:
            logger.warning("The data check found:\n%s", format_findings(corpus.findings))
        return corpus

    @property
    def scored_splits(self) -> list[str]:
        """The splits a trained model is scored on: all tests, or validation if there are none."""
        tests = [name for name in self.corpus.sizes if name not in ("train", "validation")]
        return tests or [name for name in self.corpus.sizes if name == "validation"]

    @property
    def shown_split(self) -> str:
        """The split that examples are taken from."""
        return "validation" if "validation" in self.corpus.sizes else "train"

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The sub-words, see `subwords_of`."""
        return subwords_of(self)

    @cached_property
    def shards(self) -> Shards:
        """The training split in sub-words, prepared on first use.

        Raises:
            UserError: If a file of an earlier preparation is damaged.
        """
        return Shards(self.prepare())

    def prepare(self, write: Callable[[Preparation, list[int]], None] | None = None) -> Path:
        """Makes what is missing of `shards`; returns their folder.

        Args:
            write: What writes them, see `Preparation.run`.
        """
        with_text = self.experiment.training.subword_dropout_rate > 0
        maker = preparation(self.cache_dir, self.corpus, self.vocabulary, with_text)
        maker.run(write)
        return maker.folder

    def training_set(self) -> TrainingSet:
        """Returns the training pairs that are short enough."""
        training = self.experiment.training
        return TrainingSet(
            self.shards,
            self.experiment.data.max_length,
            self.vocabulary.samplers(training.subword_dropout_rate),
            training.seed,
        )

    @property
    def member_paths(self) -> list[str]:
        """The place of each member, as seen from beside the run, past what links name."""
        beside = self.folder.parent.resolve()
        folders = [each.folder.parent.resolve() / each.folder.name for each in self.members]
        return [os.path.relpath(folder, beside) for folder in folders]

    def write_settings(self, trained: bool = False) -> None:
        """Writes `samples.json`, and settings, their origins, versions, machine: `experiment.json`.

        The samples are pairs that an exported model is warmed up with; export needs no corpus. If
        all updates are made (`trained`), versions and machine stay those that made them.
        """
        versions = {"python": platform.python_version()}
        versions |= {name: metadata.version(name) for name in PACKAGES}
        present = {"versions": versions, "machine": machine()}
        former = self.former_settings() if trained else {}
        record = {**self.settings(), **present, **{k: former[k] for k in present if k in former}}
        began = self.former_settings().get("init_from") if self.checkpoints.steps() else None
        if began := began or self.beginning():
            record["init_from"] = began
        if self.members:
            record["members"] = self.member_paths
        else:
            record["vocabulary"] = self.vocabulary.fingerprint
            record[NOTED] = noted(self)
        write_json(self.work / "experiment.json", record)
        write_json(self.work / "samples.json", {"pairs": self.samples()})

    @property
    def events(self) -> Path:
        """Where TensorBoard's files go: by the place of its folder it calls a run `task/name`."""
        former = self.work / "tensorboard"  # of a run that an earlier version began
        return former if former.exists() else self.folder

    def settings(self) -> dict[str, Any]:
        """Returns the settings as plain values, and where each comes from."""
        return {"settings": to_dict(self.experiment), "origins": dict(self.origins)}

    def samples(self) -> list[tuple[str, str]]:
        """Returns pairs that show what the run translates."""
        try:
            return sample_pairs(*self.corpus.lines(self.shown_split, MOST_SHOWN))
        except UserError:  # each has a blank side: an earlier version held out such pairs
            return sample_pairs(*self.corpus.lines("train", MOST_SHOWN))

    def statistics(self) -> str:
        """Returns a table of the corpus in sub-words."""
        return table(self.corpus, self.shards, self.vocabulary, self.languages)

    def build_model(self) -> TranslationModel:
        """Returns the model with fresh weights, the same for the same seed."""
        # Every initialiser has its own seed. tf.random.set_seed is not for us: it empties
        # TensorFlow's kernel cache, and with it goes the sub-word models' resource.
        sizes = self.vocabulary.source.size, self.vocabulary.target.size
        model: TranslationModel = self.experiment.model.build(*sizes, self.experiment.training)
        return model

    def beginning(self) -> dict[str, str] | None:
        """Returns what `experiment.json` says of the run whose weights this one began with."""
        if not self.init_from:
            return None
        return {"run": "/".join(self.init_from.folder.resolve().parts[-2:])}

    def record(self) -> dict[str, Any]:
        """Returns what `experiment.json` holds, nothing if it is not there; see `read_settings`."""
        path = self.work / "experiment.json"
        return read_settings(path) if path.exists() else {}

    def former_settings(self) -> dict[str, Any]:
        """Returns `record`; nothing if it is damaged, as it is written anew."""
        with contextlib.suppress(UserError):
            return self.record()
        return {}

    def finished(self, newest: Checkpoint | None = None) -> bool:
        """Returns whether the run has come to its end: all updates made, or stopped early.

        It has not if it was killed before its last update was scored.

        Args:
            newest: What `newest` returned, if it was called before.
        """
        training, newest = self.experiment.training, newest or self.newest()
        if validation_is_due(training, newest.step, newest.history):
            return False
        return finished(training, newest.step, newest.history)

    def check_finished(self) -> None:
        """Raises a UserError if the run has not come to its end."""
        if not self.finished():
            step, most = self.newest().step, self.experiment.training.max_steps
            left = ": its last validation is missing" if step == most else ""
            raise UserError(
                f"{self.folder} has made {step:,} of {most:,} updates. Let it end first{left}."
            )

    def check_trained(self) -> None:
        """Raises a UserError if it has no checkpoint, or a member has not come to its end."""
        for member in self.members:
            member.check_finished()
        if not self.members:
            self.newest()

    def newest(self) -> Checkpoint:
        """Returns the newest checkpoint without its arrays.

        Raises:
            UserError: If there is none.
        """
        if found := self.checkpoints.glance():
            return found
        raise UserError(f"{self.checkpoints.folder} holds no checkpoint. Train first.")

    def read(self, name: str, folder: Path | None = None) -> dict[str, Any]:
        """Returns `samples.json` or `scores.json`; nothing if it is not there.

        Args:
            name: The file's.
            folder: Where it lies; by default `work`.

        Raises:
            UserError: If it is damaged.
        """
        path = (folder or self.work) / name
        try:
            found = json.loads(path.read_text("utf-8")) if path.exists() else {}
        except DAMAGED as error:
            raise UserError(f"{path} is damaged ({error}). {REMEDIES[name]}") from error
        if not isinstance(found, dict):
            raise UserError(f"{path} is damaged: it holds no object. {REMEDIES[name]}")
        if name == "scores.json" and not all(isinstance(each, dict) for each in found.values()):
            raise UserError(f"{path} is damaged: a split has no scores. {REMEDIES[name]}")
        return found
