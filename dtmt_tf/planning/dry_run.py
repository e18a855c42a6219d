"""The cost of an experiment, told without its corpus."""

from __future__ import annotations

import textwrap
from typing import NamedTuple

import tensorflow as tf

from dtmt_tf.data.batch import bucket_bounds
from dtmt_tf.experiment import Experiment
from dtmt_tf.planning import flops
from dtmt_tf.planning.random_ids import vocabulary_sizes
from dtmt_tf.tasks import TASKS
from dtmt_tf.terminal import columns
from dtmt_tf.training import make_schedule

BYTES = 4  # float32
LENGTH = 24  # sub-words of an ordinary sentence


class Described(NamedTuple):
    """What a model is, before any of it is in memory."""

    text: str
    operations: int  # of its training for each target token, passes included


def batches_an_update(experiment: Experiment, replicas: int) -> int:
    """Returns the batches of an update: those the task is meant for, or more if it reads more.

    Args:
        experiment: The settings.
        replicas: Devices that train.
    """
    return max(TASKS[experiment.task].replicas, replicas * experiment.training.accumulation_steps)


def described(experiment: Experiment, replicas: int) -> Described:
    """Builds the model and describes it.

    The text tells parameters by part, memory for weights and optimiser, sentences in a batch by
    bucket, and the phases of the learning rate.

    Args:
        experiment: The settings.
        replicas: Devices that train.
    """
    data, training = experiment.data, experiment.training
    batches = batches_an_update(experiment, replicas)
    source_size, target_size = vocabulary_sizes(experiment)
    with tf.Graph().as_default():  # weights without memory
        model = experiment.model.build(source_size, target_size, training)
        counts = model.parameter_counts()
        operations = flops.training(model, flops.Work(1, LENGTH, LENGTH, *[LENGTH**2] * 3))
        bounds = bucket_bounds(data.max_length)
        largest: dict[str, int] = {}
        for bound in bounds:
            sentences = training.passes * data.batch_size(bound)
            for name, elements in model.largest_tensors(sentences, bound).items():
                largest[name] = max(elements, largest.get(name, 0))
    total = sum(counts.values())
    lines = [
        *textwrap.wrap(
            f"{experiment.task}, {experiment.model_name}, vocabularies {source_size:,} and "
            f"{target_size:,}",
            columns(),
            subsequent_indent="  ",
        ),
        "",
        "parameters",
    ]
    lines += [f"  {name:<20} {count:>13,}" for name, count in counts.items()]
    lines += [f"  {'total':<20} {total:>13,}", "", "memory of each replica"]
    copies_of_weights = {
        "weights": 1,
        f"{training.optimizer.capitalize()} moments": 2,
        "gradients": 1 + (training.accumulation_steps > 1),  # and their sum
    }
    copies_of_weights |= {"moving average": 1} if training.ema_decay else {}
    for name, copies in copies_of_weights.items():
        lines.append(f"  {name:<20} {copies * total * BYTES / 2**30:>9.2f} GiB")
    for name, elements in largest.items():
        lines.append(f"  {name:<20} {elements * BYTES / 2**30:>9.2f} GiB")
    kept = training.keep_last + training.keep_best + 3  # the newest two, and one that is written
    each = (3 + bool(training.ema_decay)) * total * BYTES / 2**30  # weights, moments, average
    lines += [
        f"  (the last {len(largest)}: worst bucket; smaller activations on top)",
        "",
        "disk of the run",
        f"  {'checkpoints':<20} {kept * each:>9.2f} GiB, at most {kept} of {each:.2f} GiB",
        "",
        f"a batch of {data.batch_limit}, each replica and micro-batch",
        "  longest sentence " + " ".join(f"{bound:>5}" for bound in bounds[::4]),
        "  sentences        " + " ".join(f"{data.batch_size(bound):>5}" for bound in bounds[::4]),
        f"  an update is meant to read {batches}, devices x A, with",
        f"  --set training.accumulation_steps=A (now A = {training.accumulation_steps})",
        "",
        f"updates: {training.max_steps:,}, validation every {training.validation_steps:,}",
        *textwrap.wrap(
            f"rate {make_schedule(training).phases()}",
            columns(),
            initial_indent="  ",
            subsequent_indent="       ",
        ),
    ]
    return Described("\n".join(lines), training.passes * operations // LENGTH)
