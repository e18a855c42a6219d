"""The training loop: updates, validation, checkpoints, and a clean way to stop."""

from __future__ import annotations

import math
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy as np
from tqdm import tqdm

from dtmt_tf.config import TrainingConfig, differences
from dtmt_tf.data.batch import BatchPlan
from dtmt_tf.data.pipeline import TrainingSet
from dtmt_tf.errors import UserError
from dtmt_tf.training.checkpoint import Checkpoint, CheckpointFolder
from dtmt_tf.training.step import TrainingStep
from dtmt_tf.training.summaries import Summaries

Samples = list[tuple[str, str, str]]  # source, reference, translation


@dataclass(frozen=True)
class Outcome:
    """How training ended.

    Args:
        step: Updates done.
        signal: The signal that stopped it, or 0.
    """

    step: int
    signal: int


class Trainer:
    """Trains until `max_steps`, early stopping or a signal, and resumes where it stopped.

    Args:
        step: Makes the updates.
        training_set: Gives the batches.
        checkpoints: Where state is kept.
        summaries: Where TensorBoard reads.
        validate: Returns scores (with "bleu") and sample translations of the present weights.
        inspect: Writes gate statistics and attention of the present weights for a step.
        settings: The whole experiment as plain values; a run resumes only under equal ones.
        defaults: What stands for those that a checkpoint of an earlier version does not have.
        max_length: Longest training pair, in sub-words.
        max_tokens: Padded positions of one slice of a batch.
    """

    def __init__(
        self,
        step: TrainingStep,
        training_set: TrainingSet,
        checkpoints: CheckpointFolder,
        summaries: Summaries,
        validate: Callable[[], tuple[dict[str, float], Samples]] | None,
        inspect: Callable[[int], None],
        settings: Mapping[str, Any],
        defaults: Mapping[str, Any],
        max_length: int,
        max_tokens: int,
    ) -> None:
        self.update = step
        self.training_set = training_set
        self.training: TrainingConfig = step.training
        self.checkpoints = checkpoints
        self.summaries = summaries
        self.validate = validate
        self.inspect = inspect
        self.plan = BatchPlan(
            training_set.lengths, max_length, max_tokens, step.slices, self.training.seed
        )
        # What the position in the data stands on, beside the settings.
        conditions = {"slices": step.slices, "corpus": training_set.fingerprint}
        self.settings = {**settings, "conditions": conditions}
        self.defaults = defaults
        self.history: list[dict[str, Any]] = []
        self.step = 0
        self._clock = _Clock()
        self._signal = 0

    def restore(self) -> int:
        """Loads the newest checkpoint, if there is one; returns the number of updates done.

        Raises:
            UserError: If the checkpoint was made under other settings, listing the differences.
        """
        steps = self.checkpoints.steps()
        if not steps:
            return 0
        checkpoint = self.checkpoints.load(steps[-1])
        saved = dict(checkpoint.settings)
        for section, values in self.defaults.items():
            saved[section] = {**values, **saved[section]}
        changes = differences(saved, self.settings)
        if changes:
            raise UserError(
                f"{self.checkpoints.folder} holds a run with other settings:\n  "
                + "\n  ".join(changes)
                + "\nGive this run a name of its own with --name, or start over with --restart."
            )
        load_weights(self.update.model, checkpoint.weights)
        for variable, value in zip(
            self.update.optimizer.variables, checkpoint.optimizer, strict=True
        ):
            variable.assign(value)
        self.history = [dict(record) for record in checkpoint.history]
        self.step = checkpoint.step
        self._clock = _Clock(checkpoint.seconds, checkpoint.tokens)
        return self.step

    def save(self) -> None:
        """Writes a checkpoint of the present state."""
        self.checkpoints.save(
            Checkpoint(
                self.step,
                {v.path: v.numpy() for v in self.update.model.trainable_variables},
                [variable.numpy() for variable in self.update.optimizer.variables],
                self.history,
                self.settings,
                self._clock.seconds,
                self._clock.tokens,
            )
        )

    def run(self) -> Outcome:
        """Trains from the present step.

        Side effects:
            Writes checkpoints and summaries. SIGINT and SIGTERM end the loop after the update or
            validation in flight, with a checkpoint; a second one ends the process at once.
        """
        former = {number: signal.signal(number, self._stop) for number in STOPPING}
        try:
            return self._loop()
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        if self._signal:
            raise KeyboardInterrupt
        self._signal = number

    def _loop(self) -> Outcome:
        training = self.training
        batches = iter(
            self.training_set.batches(self.plan, self.step, training.max_steps).as_numpy_iterator()
        )
        clock = self._clock
        clock.resume()
        with tqdm(
            total=training.max_steps,
            initial=self.step,
            desc="train",
            unit="step",
            ncols=79,
            mininterval=0.5 if sys.stderr.isatty() else 20.0,
            bar_format="{desc} {percentage:3.0f}%|{bar}|{n_fmt}/{total_fmt} "
            "{elapsed}<{remaining}{postfix}",
        ) as bar:
            if self.step and self._validation_is_due():  # stopped between saving and scoring
                self._validate(bar, float("nan"))
                clock.resume()
            while self.step < training.max_steps and not self._finished() and not self._signal:
                batch = next(batches)
                update = self.update(*batch)
                loss, norm = float(update.loss), float(np.linalg.norm(update.gradient_norms))
                if not (math.isfinite(loss) and math.isfinite(norm)):
                    raise UserError(
                        f"Update {self.step + 1} has loss {loss} and gradient norm {norm}. The "
                        "last checkpoint is sound; try a lower training.learning_rate under "
                        "another --name."
                    )
                self.step += 1
                clock.count(int(update.tokens))
                bar.set_postfix_str(
                    f"loss {loss:.3f} lr {float(update.learning_rate):.1e} {clock.rate:.0f} tok/s",
                    refresh=False,
                )
                bar.update()
                if self.step % training.log_steps == 0:
                    self.summaries.update(self.step, update, clock.rate)
                if self._validation_is_due():
                    self.save()
                    self._validate(bar, loss)
                    clock.resume()
        if self._signal and self.checkpoints.steps()[-1:] != [self.step]:
            self.save()
        return Outcome(self.step, self._signal)

    def _validation_is_due(self) -> bool:
        """Whether this step is one of those scored, and has not been."""
        training = self.training
        due = self.step % training.validation_steps == 0 or self.step == training.max_steps
        return due and all(record["step"] != self.step for record in self.history)

    def _validate(self, bar: tqdm, loss: float) -> None:
        record: dict[str, Any] = {"step": self.step, "loss": loss, "bleu": 0.0}
        if self.validate is not None:
            scores, samples = self.validate()
            record |= scores
            self.summaries.validation(self.step, scores, samples)
            lines = [", ".join(f"{name} {value:.2f}" for name, value in scores.items())]
            for source, reference, translation in samples[:2]:
                lines += [
                    f"  source      {source}",
                    f"  reference   {reference}",
                    f"  translation {translation}",
                ]
            bar.write(f"step {self.step}: " + "\n".join(lines), file=sys.stderr)
        self.history.append(record)
        self.inspect(self.step)
        self.save()

    def _finished(self) -> bool:
        """Whether the best score is `patience` validations old."""
        patience = self.training.patience
        if not patience or self.validate is None or len(self.history) <= patience:
            return False
        scores = [record["bleu"] for record in self.history]
        return max(scores[-patience:]) <= max(scores[:-patience])


STOPPING = (signal.SIGINT, signal.SIGTERM)


class _Clock:
    """Time spent in updates, words seen, and words per second lately."""

    def __init__(self, seconds: float = 0.0, tokens: int = 0) -> None:
        self.seconds = seconds
        self.tokens = tokens
        self.rate = 0.0
        self._last = time.perf_counter()

    def count(self, tokens: int) -> None:
        now = time.perf_counter()
        elapsed, self._last = now - self._last, now
        self.seconds += elapsed
        self.tokens += tokens
        rate = tokens / elapsed
        self.rate = 0.9 * self.rate + 0.1 * rate if self.rate else rate

    def resume(self) -> None:
        """Leaves out the time since the last count."""
        self._last = time.perf_counter()


def load_weights(model: Any, weights: Mapping[str, np.ndarray]) -> None:
    """Gives a model the weights of a checkpoint.

    Raises:
        UserError: If names or shapes differ.
    """
    own = {variable.path: variable for variable in model.trainable_variables}
    if set(own) != set(weights):
        odd = sorted(set(own) ^ set(weights))
        raise UserError(f"The checkpoint is of another model: {odd[0]} is on one side only.")
    for name, variable in own.items():
        if tuple(variable.shape) != weights[name].shape:
            raise UserError(
                f"The checkpoint is of another model: {name} has shape {weights[name].shape}, "
                f"the model {tuple(variable.shape)}."
            )
        variable.assign(weights[name])
