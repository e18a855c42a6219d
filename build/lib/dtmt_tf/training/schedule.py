"""Learning-rate schedule (17) of the paper."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from dtmt_tf.config import TrainingConfig


class DTMTSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """Linear warm-up, plateau, exponential decay; made for n synchronous replicas.

        lr(t) = lr0 * min(1 + t (n - 1) / (n p),  n,  n (2n)^((s - n t) / (e - s)))

    (Meng and Zhang, 2019, Eq. (17).) t counts updates from 0. The peak n lr0 is reached at t = n p,
    decay starts at t = s / n and passes lr0 / 2 at t = e / n. n is a setting of its own: it keeps
    the paper's rates on whatever number of devices is present.

    Args:
        training: lr0, n, p, s, e and the floor below which the rate does not fall.
    """

    def __init__(self, training: TrainingConfig) -> None:
        self.training = training

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
