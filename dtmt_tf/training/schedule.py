"""Learning-rate schedules."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from dtmt_tf.config import TrainingConfig


class Schedule(keras.optimizers.schedules.LearningRateSchedule, abc.ABC):
    """The rate of each update, t, counted from 0.

    Args:
        training: The settings, `training.*`.

    Attributes:
        reads: Names of the settings that the rate depends on, first the one that it grows with.
    """

    reads: tuple[str, ...]

    def __init__(self, training: TrainingConfig) -> None:
        self.training = training

    @abc.abstractmethod
    def __call__(self, step: Any) -> Any:
        """Returns the rate of update `step`, a float32 scalar."""

    @property
    @abc.abstractmethod
    def turns(self) -> Sequence[int]:
        """Updates between which the rate rises, stays or falls; none if it is the same at all."""

    def phases(self) -> str:
        """Describes the schedule in half a line."""
        rates = [f"{float(self(step)):.1e} at {step:,}" for step in sorted(self.turns)]
        return ", ".join(rates) or f"{float(self(0)):.1e}"


class DTMTSchedule(Schedule):
    """Linear warm-up, plateau, exponential decay; made for n synchronous replicas.

        lr(t) = lr0 * min(1 + t (n - 1) / (n p),  n,  n (2n)^((s - n t) / (e - s)))

    (Meng and Zhang, 2019, Eq. (17).) The peak n lr0 is reached at t = n p, decay starts at
    t = s / n and passes lr0 / 2 at t = e / n. n is a setting of its own: it keeps the paper's rates
    on whatever number of devices is present. Below `learning_rate_floor` the rate does not fall.
    """

    reads = (
        *("learning_rate", "learning_rate_floor", "schedule_replicas", "schedule_warmup"),
        *("schedule_decay_start", "schedule_decay_end"),
    )

    def __call__(self, step: Any) -> Any:
        """Returns the rate of update `step`, a float32 scalar."""
        t = ops.cast(step, "float32")
        n = float(self.training.schedule_replicas)
        p = float(self.training.schedule_warmup)
        s = float(self.training.schedule_decay_start)
        e = float(self.training.schedule_decay_end)
        warmup = 1 + t * (n - 1) / (n * p)
        decay = n * ops.power(2 * n, (s - n * t) / (e - s))
        rate = self.training.learning_rate * ops.minimum(ops.minimum(warmup, n), decay)
        return ops.maximum(rate, self.training.learning_rate_floor)

    @property
    def turns(self) -> Sequence[int]:
        """Updates 0, n p, s / n, e / n."""
        training, n = self.training, self.training.schedule_replicas
        start, end = training.schedule_decay_start, training.schedule_decay_end
        return 0, n * training.schedule_warmup, start // n, end // n


class ConstantSchedule(Schedule):
    """`learning_rate` at every update."""

    reads = ("learning_rate",)

    def __call__(self, step: Any) -> Any:
        """Returns the rate of update `step`, a float32 scalar."""
        return ops.convert_to_tensor(self.training.learning_rate, "float32")

    @property
    def turns(self) -> Sequence[int]:
        """None."""
        return ()


class InverseSqrtSchedule(Schedule):
    """Linear warm-up, then decay by the root of the number of updates.

        lr(t) = peak * min((t + 1) / w,  sqrt(w / (t + 1)))

    (Vaswani et al., 2017, Eq. (3), whose `d^-0.5 w^-0.5` is the peak.)
    """

    reads = ("peak_learning_rate", "warmup_updates")

    def __call__(self, step: Any) -> Any:
        """Returns the rate of update `step`, a float32 scalar."""
        update = ops.cast(step, "float32") + 1
        w = float(self.training.warmup_updates)
        return self.training.peak_learning_rate * ops.minimum(update / w, ops.sqrt(w / update))

    @property
    def turns(self) -> Sequence[int]:
        """Updates w, and 4 w, where the rate is half of its peak."""
        return self.training.warmup_updates, 4 * self.training.warmup_updates


class PeakSchedule(Schedule):
    """Linear warm-up in w updates, plateau, exponential decay from update s to update e.

    lr(t) = peak * min((t + 1) / w,  (final / peak)^(clip((t - s) / (e - s), 0, 1)))
    """

    reads = (
        *("peak_learning_rate", "warmup_updates", "decay_start_updates", "decay_end_updates"),
        "final_learning_rate",
    )

    def __call__(self, step: Any) -> Any:
        """Returns the rate of update `step`, a float32 scalar."""
        training, t = self.training, ops.cast(step, "float32")
        s, e = float(training.decay_start_updates), float(training.decay_end_updates)
        warmup = (t + 1) / float(training.warmup_updates)
        ratio = training.final_learning_rate / training.peak_learning_rate
        decay = ops.power(ratio, ops.clip((t - s) / (e - s), 0.0, 1.0))
        return training.peak_learning_rate * ops.minimum(warmup, decay)

    @property
    def turns(self) -> Sequence[int]:
        """Updates w, s, e."""
        training = self.training
        return training.warmup_updates, training.decay_start_updates, training.decay_end_updates


SCHEDULES: dict[str, type[Schedule]] = {
    "dtmt": DTMTSchedule,
    "constant": ConstantSchedule,
    "inverse_sqrt": InverseSqrtSchedule,
    "peak": PeakSchedule,
}


def make_schedule(training: TrainingConfig) -> Schedule:
    """Returns the schedule that `training.schedule` names."""
    return SCHEDULES[training.schedule](training)
