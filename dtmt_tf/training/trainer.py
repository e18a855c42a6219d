"""The training loop: updates, validation, checkpoints, and a clean way to stop."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from dtmt_tf.config import UNK_ID, TrainingConfig
from dtmt_tf.data.batch import Batch, BatchPlan
from dtmt_tf.data.pipeline import TrainingSet
from dtmt_tf.errors import UserError
from dtmt_tf.files import write_json
from dtmt_tf.settings import as_lines, differences
from dtmt_tf.terminal import LOG_INTERVAL_SECONDS, bar_columns
from dtmt_tf.training.changes import (
    END_SETTINGS,
    check_names,
    moves_scores,
    reasons,
    refuse_fixed,
    refuse_late,
)
from dtmt_tf.training.checkpoint import Checkpoint, CheckpointFolder
from dtmt_tf.training.clock import Clock
from dtmt_tf.training.diagnosis import first_non_finite
from dtmt_tf.training.memory import no_more_than_there_is
from dtmt_tf.training.schedule import SCHEDULES
from dtmt_tf.training.step import TrainingStep, Update
from dtmt_tf.training.stopping import (
    Limits,
    Outcome,
    Stop,
    clip_norm,
    finished,
    validation_is_due,
    without_scores,
)
from dtmt_tf.training.strategy import of_chief, worker_number
from dtmt_tf.training.summaries import Summaries
from dtmt_tf.training.validator import Validator

logger = logging.getLogger(__name__)

ROOMY = 72  # columns of a bar that also shows the learning rate
LOWER_RATE = 0.5  # after `max_bad_steps`
SMALLER = (
    "Halve data.max_tokens_per_batch (or data.sentences_per_batch, if that is set) and double "
    "training.accumulation_steps: an update reads as much, in less memory. Or lower "
    "data.max_length."
)
BETTER = {"bleu": "BLEU", "cross_entropy": "cross entropy"}


class Trainer:
    """Trains until `max_steps`, early stopping, a signal or a time, and resumes where it stopped.

    Several workers make the same updates and validations, and go by the chief's scores; the chief
    alone writes, but for `bad-step-*.json`.

    Args:
        step: Makes the updates.
        training_set: Gives the batches.
        plan: Their order.
        checkpoints: Where state is kept.
        validator: Scores and shows the present weights.
        settings: The whole experiment as plain values; a run resumes only under equal ones.
        defaults: What stands for those that a checkpoint of an earlier version does not have.
        summaries: Where TensorBoard reads; none on workers that are not the chief.
        limits: Of this session.
    """

    def __init__(
        self,
        step: TrainingStep,
        training_set: TrainingSet,
        plan: BatchPlan,
        checkpoints: CheckpointFolder,
        validator: Validator,
        *,
        settings: Mapping[str, Any],
        defaults: Mapping[str, Any],
        summaries: Summaries | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.training_step = step
        self.training_set = training_set
        self.training: TrainingConfig = step.training
        self.plan = plan
        self.checkpoints = checkpoints
        self.validator = validator
        self.summaries = summaries
        self.limits = limits or Limits()
        # What the position in the data stands on, beside the settings.
        conditions = {"slices": step.slices, "corpus": training_set.fingerprint}
        if checkpoints.vocabulary:
            conditions["vocabulary"] = checkpoints.vocabulary
        if validator.fingerprint:  # scores on another text do not compare
            conditions["validation"] = validator.fingerprint
        self.settings = {**settings, "conditions": conditions}
        self.defaults = defaults
        self.history: list[dict[str, Any]] = []
        self.step = self.bad_steps = 0
        self.rate_factor = 1.0
        self.loss = float("nan")
        self._clock = Clock()
        self._saved_at = time.monotonic()

    def restore(self) -> int:
        """Loads the newest sound checkpoint, if there is one; returns the number of updates done.

        Raises:
            UserError: If the checkpoint was made under other settings, listing the differences.
        """
        checkpoint = self.checkpoints.newest()
        if checkpoint is None:
            return 0
        saved = dict(checkpoint.settings)
        for section, values in self.defaults.items():
            saved[section] = {**values, **saved.get(section, {})}
        # Checkpoints of earlier versions lack some. Other sub-words were refused by now.
        known = {"validation": self.validator.fingerprint} | saved["conditions"]
        known |= {"vocabulary": self.checkpoints.vocabulary}
        saved["conditions"] = {name: value for name, value in known.items() if value}
        check_names(self.limits.allow_changes, saved, self.settings)
        changes = differences(saved, self.settings)
        refuse_fixed(changes)
        allowed = self.limits.allow_changes
        refused = {name: changes[name] for name in changes if name not in allowed}
        if refused:
            raise UserError(
                f"{self.checkpoints.folder} holds a run with other settings:\n  "
                + "\n  ".join(as_lines(refused))
                + "".join(f"\n{reason}" for reason in reasons(refused, saved, self.settings))
                + "\nGive this run a name of its own with --name, start over with --restart, or go "
                f"on all the same with\n  --allow-changes {' '.join([*allowed, *refused])}"
            )
        self._take_over(checkpoint, checkpoint.history)
        moved = any(map(moves_scores, changes))
        ended = self.finished()
        before = replace(self.training, **{name: saved["training"][name] for name in END_SETTINGS})
        if ended and finished(before, self.step, self._scored):
            refuse_late(changes, self.checkpoints.folder)
        for row in as_lines(changes):
            logger.warning("Going on with a change: %s", row)
        if moved and not ended and any("bleu" in entry for entry in self.history):
            logger.warning(
                "Earlier validation scores do not compare with new ones and no longer count: only "
                "new ones decide which checkpoints are the best."
            )
            self.history = without_scores(self.training, self.history)
        return self.step

    def _take_over(self, checkpoint: Checkpoint, history: Sequence[Mapping[str, Any]]) -> None:
        try:
            self.training_step.restore(checkpoint.weights, checkpoint.optimizer)
        except UserError as error:
            raise UserError(
                f"{self.checkpoints.folder}: {error} Give this run a name of its own with --name, "
                "or start over with --restart."
            ) from error
        self.history = [dict(entry) for entry in history]
        self.training_step.clip_norm = clip_norm(self.training, self.history)
        self.step = checkpoint.step
        self.rate_factor, self.bad_steps = checkpoint.rate_factor, checkpoint.bad_steps
        self.loss = checkpoint.loss
        self._clock = Clock(checkpoint.seconds, checkpoint.tokens)

    def save(self) -> None:
        """Writes a checkpoint of the present state."""
        self._saved_at = time.monotonic()
        if self.summaries is None:
            return
        self.checkpoints.save(
            Checkpoint(
                self.step,
                self.training_step.translating_weights,
                self.training_step.state,
                self.history,
                self.settings,
                self._clock.seconds,
                self._clock.tokens,
                self.rate_factor,
                self.bad_steps,
                self.loss,
            )
        )

    def rehearse(self) -> None:
        """Tries an update of each of the largest batches, and leaves all as it was.

        BPE-dropout, which lengthens texts, is not tried. A new run then saves its first state: a
        full disk shows now, and training has a state to go back to.

        Raises:
            UserError: If memory does not suffice, naming the settings to change.
        """
        for size, length in self.plan.largest():
            self._rehearse(size, length)
        if not self.step and not self.checkpoints.steps():
            self.save()

    def _rehearse(self, size: int, length: int) -> None:
        what, rows = f"{size} pairs of {length} sub-words", np.empty(size, np.int8)
        # should the system kill the process, or TensorFlow end it, this is what stays
        logger.info("Rehearsing a largest batch, %s. Too much for memory? %s", what, SMALLER)
        try:
            with no_more_than_there_is():
                ids = tf.fill([len(self.training_step.take(rows)), length], UNK_ID)
                self.training_step.rehearse(ids, ids)
        except (MemoryError, tf.errors.ResourceExhaustedError) as error:
            raise UserError(
                f"Memory does not suffice for a largest batch, {what}: "
                f"{str(error).splitlines()[0]}\n{SMALLER}"
            ) from error

    def run(self) -> Outcome:
        """Trains from the present step.

        Side effects:
            Writes checkpoints and summaries. SIGINT, SIGTERM and SIGHUP, and the end of the time
            there is, end the loop after the update or validation in flight, with a checkpoint; a
            second SIGINT or SIGTERM, over a second later, is a KeyboardInterrupt.

        Raises:
            UserError: If updates stay not finite, see `_goes_back`.
        """
        with Stop(self.limits.max_seconds) as stop:
            self._loop(stop)
        return Outcome(self.step, stop.exit_code)

    def _loop(self, stop: Stop) -> None:
        training = self.training
        batches = self._batches()
        self._clock.resume()
        with tqdm(
            total=training.max_steps,
            initial=self.step,
            desc="train",
            unit="step",
            ncols=bar_columns(),
            mininterval=0.5 if sys.stderr.isatty() else LOG_INTERVAL_SECONDS,
            bar_format="{desc} {percentage:3.0f}%|{bar}|{n_fmt}/{total_fmt} "
            "{elapsed}<{remaining}{postfix}",
            disable=self.summaries is None,
        ) as bar:
            if self.step and self._validation_is_due():  # stopped between saving and scoring
                self._validate(bar)
            stopped = 0
            while not self.finished() and not stopped:
                if stop.requested() and self.training_step.alone:
                    break
                batch = next(batches)
                update = self.training_step(*batch, self.rate_factor, stop.requested())
                self.step += 1
                self._clock.count(int(update.tokens))
                stop.begin()
                stopped = int(update.stops)  # all workers see it after the same update
                stop.told(stopped)
                self.loss = float(update.loss)
                if update.finite:
                    self.bad_steps = 0
                elif self._goes_back(bar, batch):
                    batches = self._batches()
                    bar.update(self.step - bar.n)  # back, so that the time left stays right
                    self._clock.resume()
                    continue
                self._show(bar, update)
                if self._validation_is_due():
                    self.save()
                    self._validate(bar)
                elif self._checkpoint_is_due():
                    self.save()
                    self._clock.resume()
        if stop.exit_code and self.checkpoints.steps()[-1:] != [self.step]:
            self.save()
        if self.finished() and self.step < training.max_steps:
            logger.info(
                "No better %s in %d validations: ended early.",
                BETTER[training.stop_on],
                training.patience,
            )

    def _show(self, bar: tqdm, update: Update) -> None:
        """Tells of an update."""
        rate, speed = float(update.learning_rate), self._clock.rate
        rate_text = f" lr {rate:.1e}" if bar_columns() >= ROOMY else ""
        bar.set_postfix_str(f"loss {self.loss:.3f}{rate_text} {speed:.0f} tok/s", refresh=False)
        bar.update()
        if self.summaries and self.step % self.training.log_steps == 0:
            self.summaries.update(self.step, update, speed)

    def _checkpoint_is_due(self) -> bool:
        """Whether the last checkpoint is `checkpoint_minutes` old."""
        minutes = self.training.checkpoint_minutes
        return bool(minutes) and time.monotonic() - self._saved_at >= 60 * minutes

    def _batches(self) -> Iterator[Batch]:
        dataset = self.training_set.batches(
            self.plan, self.step, self.training.max_steps, self.training_step.take
        )
        return dataset.as_numpy_iterator()  # type: ignore[no-any-return]

    def _goes_back(self, bar: tqdm, batch: Batch) -> bool:
        """Notes an update that was not finite; after some in a row, goes back at half the rate.

        It goes back to before the first of them, though a checkpoint was made since.

        Raises:
            UserError: If the rate was halved before, or nothing is there to go back to.

        Side effects:
            Writes `bad-step-<number>.json` beside the checkpoints' folder; of several workers
            each writes `bad-step-<number>-worker-<worker>.json`, with its own pairs. Checkpoints
            after the one it goes back to are removed.
        """
        tensor = first_non_finite(self.training_step, *batch, self.step - 1)
        number = worker_number(self.training_step.strategy)
        worker = "" if self.training_step.alone else f"-worker-{number}"
        path = self.checkpoints.folder.parent / f"bad-step-{self.step:08d}{worker}.json"
        record = {
            "step": self.step,
            "loss": str(self.loss),
            "first_non_finite": tensor,
            "pairs": self.validator.texts(*batch),
        }
        try:
            write_json(path, record)
        except (OSError, UserError) as error:  # it is no reason to lose a training
            logger.warning("%s could not be written: %s", path, error)
        self.bad_steps += 1
        rate = f"training.{SCHEDULES[self.training.schedule].reads[0]}"
        advice = f"Try a lower {rate} or training.clip_norm under another --name."
        what = f"Skipped update {self.step}: {tensor} is not finite. Its pairs: {path}"
        bar.write(what, file=sys.stderr)
        self._clock.resume()
        if self.bad_steps < self.training.max_bad_steps:
            return False
        if self.rate_factor < 1:
            raise UserError(
                f"{what}\n{self.bad_steps} in a row, and the rate was halved before. "
                f"The last checkpoint is sound. {advice}"
            )
        checkpoint = self.checkpoints.newest(self.step - self.bad_steps)
        if checkpoint is None:
            raise UserError(f"{what}\nThere is no checkpoint to go back to. {advice}")
        # of today's history, as checkpoints keep scores that no longer count
        self._take_over(checkpoint, [e for e in self.history if e["step"] <= checkpoint.step])
        if self.summaries is not None:
            self.checkpoints.forget(self.step)
        self.rate_factor, self.bad_steps = LOWER_RATE, 0
        self.save()  # a stop before the next checkpoint keeps the lower rate
        bar.write(f"Back to update {self.step:,}, at half the rate.", file=sys.stderr)
        return True

    def _validation_is_due(self) -> bool:
        """Whether this step is one of those scored, and has not been."""
        return validation_is_due(self.training, self.step, self.history)

    def _validate(self, bar: tqdm) -> None:
        entry: dict[str, Any] = {"step": self.step, "loss": self.loss}
        if self.validator.scores:
            with self.training_step.averaged():
                scores, samples, faults = self.validator.validate()
            if not self.training_step.alone:  # as each ends and clips by its scores
                scores = of_chief(self.training_step.strategy, scores)
            entry |= scores
            if self.summaries:
                self.summaries.validation(self.step, scores, samples)
            lines = [", ".join(f"{name} {value:.2f}" for name, value in scores.items())]
            for source, reference, translation in samples[:2]:
                lines += [
                    f"  source      {source}",
                    f"  reference   {reference}",
                    f"  translation {translation}",
                ]
            lines += [f"  warning     {fault}" for fault in faults]
            bar.write(f"step {self.step}: " + "\n".join(lines), file=sys.stderr)
        self.history.append(entry)
        self.training_step.clip_norm = clip_norm(self.training, self.history)
        if self.summaries:
            self.summaries.inspection(self.step, *self.validator.inspect())
        self.save()
        self._clock.resume()

    def finished(self) -> bool:
        """Whether all updates are made, or the best score is `training.patience` old."""
        return finished(self.training, self.step, self._scored)

    @property
    def _scored(self) -> list[dict[str, Any]]:
        """The validations that scored something, in a way that compares with later ones."""
        return [entry for entry in self.history if "bleu" in entry] if self.validator.scores else []
