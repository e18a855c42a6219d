"""What is measured on: Multi30k where it is at hand, else random ids as long as its sentences."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

import common
import numpy as np

from dtmt_tf.errors import UserError
from dtmt_tf.experiment import Experiment

if TYPE_CHECKING:
    from dtmt_tf.data.pipeline import TrainingSet
    from dtmt_tf.run import Run

RANDOM = "random ids"
# Source and target length with <eos> of every 242nd pair of multi30k_ende's training set in 8,000
# joint sub-words, sorted; means 15.3 and 15.9, of the whole set 15.3 and 15.8
LENGTHS = """
7-9 8-8 8-10 9-8 9-9 9-9 9-10 9-12 10-8 10-9 10-10 10-10 10-11 10-12 10-13 11-8 11-9 11-10 11-10
11-11 11-11 11-12 11-12 11-13 11-15 12-9 12-10 12-11 12-11 12-12 12-12 12-12 12-13 12-13 12-14 12-15
12-16 13-10 13-11 13-12 13-12 13-13 13-13 13-13 13-14 13-15 13-15 13-16 13-18 14-11 14-12 14-13
14-13 14-14 14-14 14-15 14-15 14-16 14-17 14-18 15-11 15-13 15-13 15-14 15-15 15-15 15-16 15-16
15-17 15-18 15-21 16-13 16-14 16-15 16-15 16-16 16-17 16-18 16-19 16-20 17-12 17-15 17-16 17-17
17-18 17-19 17-20 17-22 18-14 18-16 18-17 18-18 18-19 18-21 18-25 19-16 19-18 19-19 19-21 19-23
20-16 20-19 20-20 20-22 20-31 21-20 21-22 21-25 22-19 22-22 22-26 23-22 23-26 24-23 24-31 25-27
26-27 27-30 29-31 33-41
"""
PAIRS = 12_000


def open_run(options: Namespace) -> Run | None:
    """Returns the run that `--run` names, else a new one over the data directory, if there is one.

    A new run's sub-words are kept in a folder named after the preset, below the other runs.
    """
    from dtmt_tf.run import Run

    data_dir, cache_dir = common.data_dir(options), common.cache_dir()
    if options.run:
        return Run.open(options.run, data_dir, cache_dir, options.set)
    if not data_dir:
        return None
    experiment, origins = common.experiment(options)
    folder = options.output_dir / options.task / f"benchmark_{options.preset.rstrip('+')}"
    return Run(experiment, folder, data_dir, cache_dir, origins)


def need_run(options: Namespace) -> Run:
    """Returns what `open_run` does.

    Raises:
        UserError: If there is nothing to read.
    """
    run = open_run(options)
    if run is None:
        raise UserError(
            "This reads text. Name the folder above multi30k with --data-dir, or a trained run "
            "with --run."
        )
    return run


def sizes(experiment: Experiment) -> tuple[int, int]:
    """Returns the sizes of both vocabularies, as the settings have them."""
    data = experiment.data
    source = data.source_vocab_size
    return source, source if data.joint_vocabulary else data.target_vocab_size


def training_set(experiment: Experiment, run: Run | None, copies: int = 1) -> TrainingSet:
    """Returns the training pairs of a run, or random ones.

    Args:
        experiment: The settings.
        run: Where text comes from, if it does.
        copies: How often the pairs are repeated.
    """
    from dtmt_tf.data.pipeline import TrainingSet

    data, training = experiment.data, experiment.training
    if run is None:
        return random_set(experiment, PAIRS * copies)
    source, target = run.splits["train"]
    return TrainingSet(
        source * copies,
        target * copies,
        run.vocabulary.source.encode,
        run.vocabulary.target.encode,
        data.max_length,
        run.vocabulary.samplers(training.subword_dropout_rate),
        training.seed,
    )


def random_set(experiment: Experiment, pairs: int) -> TrainingSet:
    """Returns pairs of random ids, their lengths those of `LENGTHS` in turn."""
    import tensorflow as tf

    from dtmt_tf.config import EOS_ID, UNK_ID
    from dtmt_tf.data.pipeline import TrainingSet

    def numbers(texts: tf.Tensor) -> tf.RaggedTensor:
        ids = tf.strings.to_number(tf.strings.split(texts), tf.int32)
        return tf.concat([ids, tf.fill([ids.nrows(), 1], EOS_ID)], axis=1)

    random = np.random.default_rng(0)
    lengths = [tuple(map(int, pair.split("-"))) for pair in LENGTHS.split()]
    sides: list[list[str]] = []
    for side, size in enumerate(sizes(experiment)):
        rows = (
            random.integers(UNK_ID + 1, size, lengths[k % len(lengths)][side] - 1)
            for k in range(pairs)
        )
        sides.append([" ".join(map(str, row)) for row in rows])
    source, target = sides
    return TrainingSet(source, target, numbers, numbers, experiment.data.max_length)
