"""The hours of a training, reckoned at once from its arithmetic and the machine's products."""

from __future__ import annotations

import time

import tensorflow as tf

from dtmt_tf.experiment import Experiment
from dtmt_tf.planning.dry_run import LENGTH, Described, batches_an_update

SIZE = 1024  # rows and columns of the square product
SECONDS = 0.3  # for which it is repeated
# Shares of the square product's rate that trainings reach: SPEED.md, "of the square product's"
LOWEST_SHARE, HIGHEST_SHARE = 0.4, 0.75
FILL = 0.9  # of a batch's positions that are target tokens: lengths of Multi30k in their buckets


def product_rate() -> float:
    """Measures a square product in float32, for half a second or so.

    Returns:
        Operations a second, multiplications and additions, of the fastest.
    """
    square = tf.random.stateless_uniform([SIZE, SIZE], [0, 0])
    fastest, end = float("inf"), time.perf_counter() + SECONDS
    while fastest == float("inf") or time.perf_counter() < end:
        start = time.perf_counter()
        tf.matmul(square, square).numpy()
        fastest = min(fastest, time.perf_counter() - start)
    return 2 * SIZE**3 / fastest


def tokens_of(experiment: Experiment, replicas: int) -> tuple[float, str]:
    """Returns the target tokens that as many devices read at most, and how they are reckoned."""
    data, training = experiment.data, experiment.training
    batches = batches_an_update(experiment, replicas)
    tokens_a_batch, filled = data.max_tokens_per_batch * FILL, f"{FILL:.0%} of them target tokens"
    if data.sentences_per_batch:
        length = min(LENGTH, data.max_length)
        tokens_a_batch = data.sentences_per_batch * length
        filled = f"{length} target tokens in each"
    tokens = training.max_steps * batches * tokens_a_batch
    return tokens, (
        f"{training.max_steps:,} updates of {batches} x {data.batch_limit}, {filled}: "
        f"{tokens:.2e} tokens"
    )


def in_unit(seconds: float) -> tuple[float, str]:
    """Returns a time in hours, or in minutes if it is less than one."""
    return (seconds / 3600, "hours") if seconds >= 3600 else (seconds / 60, "minutes")


def rough(experiment: Experiment, described: Described, rate: float, replicas: int = 1) -> str:
    """Returns the hours between which a training here probably takes, before it is measured.

    Args:
        experiment: The settings.
        described: The model.
        rate: What `product_rate` returned.
        replicas: Devices that train.
    """
    tokens, text = tokens_of(experiment, replicas)
    seconds = tokens * described.operations / rate
    longest, unit = in_unit(seconds / LOWEST_SHARE)
    shortest = longest * LOWEST_SHARE / HIGHEST_SHARE
    return "\n".join(
        [
            "roughly, before updates are measured",
            f"  {text}",
            f"  {described.operations / 1e6:,.0f} MFLOP a token; a square product makes "
            f"{rate / 1e9:,.0f} GFLOP/s here,",
            f"  of which trainings reach {LOWEST_SHARE:.0%} to {HIGHEST_SHARE:.0%}",
            f"  {'here, one batch after the other':<33} {shortest:>10,.1f} to "
            f"{longest:,.1f} {unit}",
        ]
    )
