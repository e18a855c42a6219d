"""Optimisers that are given gradients already summed over replicas."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import keras
import tensorflow as tf

from dtmt_tf.config import TrainingConfig
from dtmt_tf.training.schedule import SCHEDULES, make_schedule


class Reduced:
    """A Keras optimiser without its own sum over replicas, in one pass over each weight.

    Clipping by the norm of the whole gradient needs the sum first, so the training step makes it;
    Keras would clip each replica's part and then sum. Comes before the Keras class in the bases.

    Args:
        training: Schedule, decay of the averages, and what the subclass reads.
        options: Arguments of the Keras class.

    Attributes:
        averages: With `ema_decay`, the moving average of each weight: after update t, a share
            `min(decay, (1 + t) / (10 + t))` of the old average remains, so that the first weights
            are soon forgotten. Else empty.
        apply_one: Of a subclass: updates weight number k and its moments by one of TensorFlow's
            fused kernels, given (k, gradient, weight, rate, still), where `still` says that the
            rate is 0 and the moments must stay as they are. Returns the operation.
    """

    iterations: Any
    apply_one: Any

    def __init__(self, training: TrainingConfig, **options: Any) -> None:
        options["learning_rate"] = make_schedule(training)
        super().__init__(**options)
        self.decay = training.ema_decay
        self.averages: list[tf.Variable] = []

    def build(self, variables: Sequence[Any]) -> None:
        """Creates the moments and, with `ema_decay`, the averages."""
        super().build(variables)  # type: ignore[misc]
        if self.decay:
            self.averages = [tf.Variable(v.value, trainable=False) for v in variables]

    def update(self, gradients: Sequence[Any], variables: Sequence[Any], rate: Any) -> None:
        """Updates all weights; at rate 0 only the count of updates changes.

        Args:
            gradients: Finite, summed over replicas.
            variables: The weights, as many.
            rate: Learning rate, a scalar.
        """
        self._backend_update_step(gradients, variables, rate)  # type: ignore[attr-defined]
        self.iterations.assign_add(1)

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """Updates one weight, its two moments and its average."""
        k = self._get_variable_index(variable)  # type: ignore[attr-defined]
        still = tf.equal(learning_rate, 0.0)
        applied = self.apply_one(k, gradient, variable, learning_rate, still)
        if self.averages:
            step = tf.cast(self.iterations + 1, tf.float32)
            kept = tf.minimum(self.decay, (1 + step) / (10 + step))
            average = handle(self.averages[k])
            with tf.control_dependencies([applied]):
                new = tf.raw_ops.ReadVariableOp(resource=handle(variable), dtype=tf.float32)
                old = tf.raw_ops.ReadVariableOp(resource=average, dtype=tf.float32)
            share = tf.where(still, 0.0, 1 - kept)
            change = tf.math.multiply_no_nan(new - old, share)
            tf.raw_ops.AssignAddVariableOp(resource=average, value=change)

    def _all_reduce_sum_gradients(self, grads_and_vars: Any) -> Any:
        return grads_and_vars


class ReducedAdam(Reduced, keras.optimizers.Adam):
    """Adam.

    Keras's epsilon is TensorFlow's: added to the uncorrected root,
    `lr sqrt(1 - b2^t) / (1 - b1^t) m / (sqrt(v) + eps)`, as the paper's code has it. With
    `training.adam_epsilon_corrected` it is that of Kingma and Ba (2015), Algorithm 1:
    `lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)`, which counts for less in early updates.
    """

    def __init__(self, training: TrainingConfig) -> None:
        super().__init__(
            training,
            beta_1=training.adam_beta_1,
            beta_2=training.adam_beta_2,
            epsilon=training.adam_epsilon,
        )
        self.is_corrected = training.adam_epsilon_corrected

    def apply_one(self, k: int, gradient: Any, variable: Any, rate: Any, still: Any) -> Any:
        """See `Reduced`."""
        step = tf.cast(self.iterations + 1, tf.float32)
        correction = tf.sqrt(1 - self.beta_2**step) if self.is_corrected else 1.0
        return tf.raw_ops.ResourceApplyAdam(
            var=handle(variable),
            m=handle(self._momentums[k]),
            v=handle(self._velocities[k]),
            beta1_power=self.beta_1**step,
            beta2_power=self.beta_2**step,
            lr=rate,
            beta1=tf.where(still, 1.0, self.beta_1),
            beta2=tf.where(still, 1.0, self.beta_2),
            epsilon=self.epsilon * correction,
            grad=gradient,
        )


class ReducedAdadelta(Reduced, keras.optimizers.Adadelta):
    """Adadelta (Zeiler, 2012): `sqrt(d + eps) / sqrt(v + eps) * gradient`, times the rate.

    v and d are the decaying means of squared gradients and of squared steps. Its authors know no
    rate: `training.schedule=constant training.learning_rate=1`.
    """

    def __init__(self, training: TrainingConfig) -> None:
        super().__init__(training, rho=training.adadelta_rho, epsilon=training.adadelta_epsilon)

    def apply_one(self, k: int, gradient: Any, variable: Any, rate: Any, still: Any) -> Any:
        """See `Reduced`."""
        return tf.raw_ops.ResourceApplyAdadelta(
            var=handle(variable),
            accum=handle(self._accumulated_grads[k]),
            accum_update=handle(self._accumulated_delta_vars[k]),
            lr=rate,
            rho=tf.where(still, 1.0, self.rho),
            epsilon=self.epsilon,
            grad=gradient,
        )


RATE_BETWEEN = 0.1  # of Adam, far above any that trains; of Adadelta, far below its 1
OPTIMIZERS = {"adam": ReducedAdam, "adadelta": ReducedAdadelta}


def make_optimizer(training: TrainingConfig) -> Any:
    """Returns the optimiser that `training.optimizer` names."""
    return OPTIMIZERS[training.optimizer](training)


def strange_rate(training: TrainingConfig) -> str:
    """Returns why the highest rate can not be meant for the optimiser, "" if it can."""
    schedule = make_schedule(training)
    highest = max(float(schedule(step)) for step in (0, *schedule.turns))
    if training.optimizer == "adadelta" and highest < RATE_BETWEEN:
        return (
            f"the rate is {highest:.1e} at most, a factor of Adadelta's own steps. "
            "training.schedule=constant training.learning_rate=1 leaves these as they are"
        )
    if training.optimizer == "adam" and highest > RATE_BETWEEN:
        return f"the rate is {highest:.1e} at most: Adam moves each weight by about that much"
    return ""


def unread(training: TrainingConfig, names: Collection[str]) -> dict[str, str]:
    """Returns those settings that change nothing beside the others, each with the reason."""
    of_others = {name for each in SCHEDULES.values() for name in each.reads}
    of_others -= {*SCHEDULES[training.schedule].reads}
    kinds = OPTIMIZERS.keys() - {training.optimizer}
    why = f"schedule {training.schedule} and optimizer {training.optimizer} do not read it"
    found = {n: why for n in names if n in of_others or n.partition("_")[0] in kinds}
    if "average_count" in names and training.average == "none":
        found["average_count"] = "training.average is none"
    if (
        "r_drop_alpha" in names
        and training.r_drop_alpha
        and not any(
            getattr(training, f"{each}_dropout_rate")
            for each in ("word", "embedding", "output", "candidate")
        )
    ):
        found["r_drop_alpha"] = "nothing is dropped, so both readings of a batch are the same"
    return found


def handle(variable: Any) -> Any:
    """The resource behind a variable of Keras or TensorFlow."""
    return (variable.value if isinstance(variable, keras.Variable) else variable).handle
