"""Chooses the devices that train together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import tensorflow as tf


def make_strategy(
    multiworker: bool, devices: Sequence[str] | None = None
) -> tf.distribute.Strategy:
    """Returns the strategy; with several workers, once all of them are there.

    Args:
        multiworker: Whether TF_CONFIG's workers train together. Then this must be the first that
            TensorFlow is asked for in the process.
        devices: Devices of `tf.distribute.MirroredStrategy`; all GPUs, or the CPU, by default.
    """
    if multiworker:
        return tf.distribute.MultiWorkerMirroredStrategy()
    sums = None
    if devices and all(name.upper().startswith("CPU") for name in devices):
        sums = tf.distribute.ReductionToOneDevice()  # less work than collectives in one memory
    return tf.distribute.MirroredStrategy(devices, sums)


def worker_number(strategy: tf.distribute.Strategy) -> int:
    """Returns the number of this process among all workers, as TensorFlow numbers their replicas.

    A `chief`, where TF_CONFIG has one, comes before the workers.
    """
    resolver = strategy.cluster_resolver
    jobs = resolver.cluster_spec().as_dict() if resolver else {}
    if not jobs:
        return 0
    before = len(jobs.get("chief", ())) if resolver.task_type == "worker" else 0
    return before + int(resolver.task_id)


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Whether this process is the one that writes files."""
    return bool(strategy.extended.should_checkpoint)


def of_chief(strategy: tf.distribute.Strategy, values: Mapping[str, float]) -> dict[str, float]:
    """Returns the chief's values on all workers, which all call it with the same names."""

    def own() -> tf.Tensor:
        found = tf.constant([*values.values()], tf.float64)
        number = tf.distribute.get_replica_context().replica_id_in_sync_group
        return tf.where(number == 0, found, tf.zeros_like(found))

    total = strategy.reduce("SUM", strategy.run(own), axis=None)
    return dict(zip(values, total.numpy().tolist(), strict=True))


def wait_for_all(strategy: tf.distribute.Strategy) -> None:
    """Returns when all workers have called it."""
    if strategy.extended._in_multi_worker_mode():
        strategy.reduce("SUM", strategy.run(lambda: tf.constant(1.0)), axis=None)
