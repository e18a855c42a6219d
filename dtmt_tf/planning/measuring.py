"""What training costs: measured here for one replica, reckoned for other devices."""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tqdm import tqdm

from dtmt_tf.errors import UserError
from dtmt_tf.experiment import Experiment
from dtmt_tf.planning import flops, processes, random_ids
from dtmt_tf.planning.dry_run import LENGTH, batches_an_update, described
from dtmt_tf.planning.rough import in_unit, product_rate, rough, tokens_of
from dtmt_tf.terminal import bar_columns, bar_interval

UPDATES = 3  # measured of each length; the first makes the graph, too
LONG = 20.0  # seconds of an update after which a third is not waited for

logger = logging.getLogger(__name__)


class Measured(NamedTuple):
    """Updates of full batches of sentences of one length."""

    sentences: int
    length: int
    seconds: float  # of the fastest
    operations: int  # for each target token

    @property
    def rate(self) -> float:
        """Target tokens a second."""
        return self.sentences * self.length / self.seconds


class Measurement(NamedTuple):
    """What was measured, and in which form."""

    updates: list[Measured]  # ordinary sentences last
    pieces: int
    peak: float  # memory, in GiB


def plan(
    experiment: Experiment, pieces: int, devices: Sequence[float] | None, replicas: int = 1
) -> Iterator[str]:
    """Yields what an experiment is, roughly how long it trains, then what its updates take here.

    Args:
        experiment: The settings. What one replica reads in an update is measured.
        pieces: Accumulation steps in which it is read; twice as many until memory suffices.
        devices: Others that it may be trained on: how many, and the target tokens that each of
            them makes in a second.
        replicas: Devices that train: an update reads a batch of each.

    Raises:
        UserError: If a number is not positive, or memory does not suffice for one sentence.
    """
    if not all(0 < number < math.inf for number in (pieces, *(devices or ()))):
        raise UserError("What --plan and --plan-for are given should be positive numbers.")
    model = described(experiment, replicas)
    yield model.text
    yield rough(experiment, model, product_rate(), replicas)
    data = experiment.data
    most = data.batch_size(data.max_length)
    logger.info("Updates are measured in a process of their own.")
    while True:
        if measurement := processes.elsewhere(measure, experiment, min(pieces, most)):
            break
        if pieces >= most:
            raise UserError(
                f"Memory does not suffice for one pair of {data.max_length} sub-words. Lower "
                "data.max_length, or choose a smaller --model."
            )
        pieces *= 2
        logger.info("Memory does not suffice; now in pieces: %s.", min(pieces, most))
    yield report(experiment, measurement, devices, replicas)


def measure(experiment: Experiment, pieces: int) -> Measurement | None:
    """Makes updates of the longest and of ordinary sentences.

    Returns:
        What they take; none if memory does not suffice, unless that ends the process.
    """
    import tensorflow as tf

    from dtmt_tf.quiet import quiet_stderr
    from dtmt_tf.training.memory import no_more_than_there_is

    data = experiment.data
    training = dataclasses.replace(experiment.training, accumulation_steps=pieces)
    sizes = random_ids.vocabulary_sizes(experiment)
    device = "GPU:0" if tf.config.list_physical_devices("GPU") else "CPU:0"
    one = dataclasses.replace(experiment, training=training)
    step = random_ids.training_step(one, sizes, devices=[device])
    model: Any = step.model
    found = []
    lengths = sorted({data.max_length, min(LENGTH, data.max_length)}, reverse=True)
    bar = tqdm(total=UPDATES * len(lengths), unit="update", leave=False, ncols=bar_columns(),
               mininterval=bar_interval())  # fmt: skip
    with bar:
        for length in lengths:
            sentences = data.batch_size(length)
            bar.set_description(f"measure {sentences:,} x {length}")
            update = random_ids.RandomUpdate(step, sizes, sentences, length)
            taken: list[float] = []
            try:
                while len(taken) < UPDATES and not (len(taken) > 1 and taken[-1] > LONG):
                    with no_more_than_there_is(), quiet_stderr():
                        taken.append(update.seconds())
                    bar.update()
            except (MemoryError, tf.errors.ResourceExhaustedError):
                return None
            work = flops.Work(1, length, length, *[length**2] * 3)
            operations = training.passes * flops.training(model, work) // length
            found.append(Measured(sentences, length, min(taken), operations))
    return Measurement(found, pieces, processes.peak_memory())


def report(
    experiment: Experiment,
    measurement: Measurement,
    devices: Sequence[float] | None,
    replicas: int = 1,
) -> str:
    """Returns a table of what was measured, and the hours that follow from it; see `plan`."""
    data, training = experiment.data, experiment.training
    limit, batches = data.batch_limit, batches_an_update(experiment, replicas)
    lines = [
        f"measured here: the batch of one replica, {limit}, in pieces: {measurement.pieces}",
        "  sentences    seconds an update      target tok/s   MFLOP/token    GFLOP/s",
    ]
    for one in measurement.updates:
        million = one.operations / 1e6
        lines.append(
            f"  {f'{one.sentences:,} x {one.length}':<12} {one.seconds:>17.2f} {one.rate:>17,.0f}"
            f" {million:>13,.0f} {million * one.rate / 1e3:>10.1f}"
        )
    ordinary = measurement.updates[-1]
    tokens, text = tokens_of(experiment, replicas)
    hours = [("here, one batch after the other", training.max_steps * batches * ordinary.seconds)]
    if devices:
        number, rate = devices
        hours.append((f"{number:g} devices of {rate:,.0f} target tok/s", tokens / (number * rate)))
    lines += [
        f"  peak memory of the process {measurement.peak:.1f} GiB",
        "",
        text,
    ]
    for name, seconds in hours:
        time, unit = in_unit(seconds)
        lines.append(f"  {name:<44} {time:>12,.1f} {unit}")
    return "\n".join([*lines, "  (validation comes on top)"])
