"""Adam that is given gradients already summed over replicas."""

from __future__ import annotations

from typing import Any

import keras

from dtmt_tf.config import TrainingConfig
from dtmt_tf.training.schedule import DTMTSchedule


class ReducedAdam(keras.optimizers.Adam):
    """Keras's Adam without its own sum over replicas.

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

    def _all_reduce_sum_gradients(self, grads_and_vars: Any) -> Any:
        return grads_and_vars
