"""Updates of models with fresh weights, on random ids."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dtmt_tf.config import UNK_ID
from dtmt_tf.experiment import Experiment

if TYPE_CHECKING:
    from dtmt_tf.training import TrainingStep


def vocabulary_sizes(experiment: Experiment) -> tuple[int, int]:
    """Returns the sizes of both vocabularies by the settings."""
    data = experiment.data
    source = data.source_vocab_size
    return source, source if data.joint_vocabulary else data.target_vocab_size


def training_step(
    experiment: Experiment,
    sizes: tuple[int, int],
    devices: Sequence[str] = (),
    build: Callable[..., Any] | None = None,
) -> TrainingStep:
    """Returns the training step of a model with fresh weights.

    Args:
        experiment: The settings.
        sizes: Of both vocabularies.
        devices: Those that train; all GPUs, or the CPU, by default.
        build: What makes another model, from the model's settings, both sizes, and the settings of
            training.
    """
    from dtmt_tf.training import TrainingStep, make_strategy

    training = experiment.training
    strategy = make_strategy(multiworker=False, devices=devices or None)
    with strategy.scope():
        if build:
            model = build(experiment.model, *sizes, training)
            model.build()
        else:
            model = experiment.model.build(*sizes, training)
    return TrainingStep(model, training, strategy)


class RandomUpdate:
    """An update that is repeated on sentences of random ids, all of one length.

    Args:
        step: Makes it.
        sizes: Of both vocabularies.
        sentences: In the batch.
        length: Of each, with <eos>.
    """

    def __init__(
        self, step: TrainingStep, sizes: tuple[int, int], sentences: int, length: int
    ) -> None:
        random = np.random.default_rng(0)
        self.step = step
        self.batch: Any = [
            random.integers(UNK_ID + 1, size, (sentences, length), dtype=np.int32) for size in sizes
        ]

    def seconds(self) -> float:
        """Makes the update and returns its seconds. The first one also builds the graph."""
        start = time.perf_counter()
        float(self.step(*self.batch).loss)
        return time.perf_counter() - start
