"""Adam that is given gradients already summed over replicas."""

from __future__ import annotations

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
    """

    def __init__(self, training: TrainingConfig) -> None:
        super().__init__(
            learning_rate=DTMTSchedule(training),
            beta_1=training.adam_beta_1,
            beta_2=training.adam_beta_2,
            epsilon=training.adam_epsilon,
        )

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """Updates one weight and its two moments by TensorFlow's fused kernel."""
        k = self._get_variable_index(variable)
        step = tf.cast(self.iterations + 1, tf.float32)
        tf.raw_ops.ResourceApplyAdam(
            var=_handle(variable),
            m=_handle(self._momentums[k]),
            v=_handle(self._velocities[k]),
            beta1_power=self.beta_1**step,
            beta2_power=self.beta_2**step,
            lr=learning_rate,
            beta1=self.beta_1,
            beta2=self.beta_2,
            epsilon=self.epsilon,
            grad=gradient,
        )

    def _all_reduce_sum_gradients(self, grads_and_vars: Any) -> Any:
        return grads_and_vars


def _handle(variable: Any) -> Any:
    """The resource behind a variable of Keras or TensorFlow."""
    return (variable.value if isinstance(variable, keras.Variable) else variable).handle
