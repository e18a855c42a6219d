"""Adam that is given gradients already summed over replicas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from dtmt_tf.config import TrainingConfig
from dtmt_tf.training.schedule import DTMTSchedule


class ReducedAdam(keras.optimizers.Adam):
    """Keras's Adam without its own sum over replicas, in one pass over each weight.

    Clipping by the norm of the whole gradient needs the sum first, so the training step makes it;
    Keras would clip each replica's part and then sum. Keras's epsilon is TensorFlow's: added to the
    uncorrected root, `lr sqrt(1 - b2^t) / (1 - b1^t) m / (sqrt(v) + eps)`, as the paper's code has
    it.

    Attributes:
        averages: With `ema_decay`, the moving average of each weight: after update t, a share
            `min(decay, (1 + t) / (10 + t))` of the old average remains, so that the first weights
            are soon forgotten. Else empty.
    """

    def __init__(self, training: TrainingConfig) -> None:
        super().__init__(
            learning_rate=DTMTSchedule(training),
            beta_1=training.adam_beta_1,
            beta_2=training.adam_beta_2,
            epsilon=training.adam_epsilon,
        )
        self.decay = training.ema_decay
        self.averages: list[tf.Variable] = []

    def build(self, variables: Sequence[Any]) -> None:
        """Makes the moments, and the averages if there are to be any."""
        super().build(variables)
        if self.decay:
            self.averages = [tf.Variable(v.value, trainable=False) for v in variables]

    def update(self, gradients: Sequence[Any], variables: Sequence[Any], rate: Any) -> None:
        """Updates all weights; at rate 0 nothing but the count of updates changes.

        Args:
            gradients: Finite, summed over replicas.
            variables: The weights, as many.
            rate: Learning rate, a scalar.
        """
        self._backend_update_step(gradients, variables, rate)
        self._iterations.assign_add(1)

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """Updates one weight, its two moments and its average by TensorFlow's fused kernels."""
        k = self._get_variable_index(variable)
        step = tf.cast(self.iterations + 1, tf.float32)
        still = tf.equal(learning_rate, 0.0)
        applied = tf.raw_ops.ResourceApplyAdam(
            var=_handle(variable),
            m=_handle(self._momentums[k]),
            v=_handle(self._velocities[k]),
            beta1_power=self.beta_1**step,
            beta2_power=self.beta_2**step,
            lr=learning_rate,
            beta1=tf.where(still, 1.0, self.beta_1),
            beta2=tf.where(still, 1.0, self.beta_2),
            epsilon=self.epsilon,
            grad=gradient,
        )
        if self.averages:
            kept = tf.minimum(self.decay, (1 + step) / (10 + step))
            average = _handle(self.averages[k])
            with tf.control_dependencies([applied]):
                new = tf.raw_ops.ReadVariableOp(resource=_handle(variable), dtype=tf.float32)
                old = tf.raw_ops.ReadVariableOp(resource=average, dtype=tf.float32)
            share = tf.where(still, 0.0, 1 - kept)
            change = tf.math.multiply_no_nan(new - old, share)
            tf.raw_ops.AssignAddVariableOp(resource=average, value=change)

    def _all_reduce_sum_gradients(self, grads_and_vars: Any) -> Any:
        return grads_and_vars


def _handle(variable: Any) -> Any:
    """The resource behind a variable of Keras or TensorFlow."""
    return (variable.value if isinstance(variable, keras.Variable) else variable).handle
