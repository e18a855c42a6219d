"""Measures the cost of rows on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dtmt_tf.experiment import Experiment
from dtmt_tf.planning.dry_run import LENGTH
from dtmt_tf.planning.processes import elsewhere
from dtmt_tf.planning.random_ids import RandomUpdate, training_step, vocabulary_sizes
from pipelines.papers.paper import Row

UPDATES, SECONDS = 3, 30.0  # measured: so many, or as many as begin in this time
WIDTHS = (14, 12, 12, 10)


def show(experiments: Mapping[str, Experiment], rows: Mapping[str, Row], seeds: int) -> None:
    """Prints parameters, updates and hours of each row.

    Args:
        experiments: Settings by row; a row whose updates follow from another's minutes comes later.
        rows: All rows of the paper.
        seeds: How often each is trained.
    """
    print(_line("row", ("parameters", "updates", "s/update", "hours")))
    seconds: dict[str, float | None] = {}
    total = 0.0
    for key, experiment in experiments.items():
        steps = experiment.training.max_steps
        parameters = elsewhere(_parameters, experiment)
        one = seconds[key] = elsewhere(_seconds, experiment)
        updates: int | None = steps
        if rows[key].weights_of:
            updates = 0
        elif rows[key].time_of:
            slow = seconds.get(rows[key].time_of)
            updates = round(steps * slow / one) if slow and one else None
        hours = one * updates / 3600 if one and updates is not None else None
        total += (hours or 0.0) * seeds
        values = (parameters, updates, one, hours)
        forms = ("{:,}", "{:,}", "{:.2f}", "{:.2f}")
        cells = ["-" if v is None else f.format(v) for v, f in zip(values, forms, strict=True)]
        print(_line(key, cells), flush=True)
    print(_line("all, all seeds", ("", "", "", f"{total:.2f}")))
    print(
        f"\nMeasured: up to {UPDATES} updates of random ids, sentences of {LENGTH} sub-words.\n"
        "Validation and scoring come on top. - : does not fit into memory, or follows\n"
        "from a row that is not listed."
    )


def _line(row: str, cells: Any) -> str:
    return f"{row:<24}" + "".join(f"{c:>{w}}" for c, w in zip(cells, WIDTHS, strict=True))


def _parameters(experiment: Experiment) -> int:
    import tensorflow as tf

    with tf.Graph().as_default():  # weights without memory
        model = experiment.model.build(*vocabulary_sizes(experiment), experiment.training)
        return model.count_params()


def _seconds(experiment: Experiment) -> float | None:
    """Returns the seconds of the fastest update; none if memory does not suffice."""
    import tensorflow as tf

    from dtmt_tf.training.memory import no_more_than_there_is

    data = experiment.data
    sizes = vocabulary_sizes(experiment)
    times: list[float] = []
    try:
        with no_more_than_there_is():
            step = training_step(experiment, sizes)
            length = min(LENGTH, data.max_length)
            sentences = data.batch_size(length) * step.slices
            update = RandomUpdate(step, sizes, sentences, length)
            update.seconds()
            while len(times) < UPDATES and sum(times) < SECONDS:
                times.append(update.seconds())
    except (MemoryError, tf.errors.ResourceExhaustedError):
        return None
    return min(times)
