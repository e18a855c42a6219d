"""Chooses the devices that train together."""

from __future__ import annotations

import hashlib
import json
import signal
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from dtmt_tf.errors import UserError


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
        former = signal.getsignal(signal.SIGTERM)
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
        signal.signal(signal.SIGTERM, former)  # TensorFlow takes it to itself, and drops it
        return strategy
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


def several_workers(strategy: tf.distribute.Strategy) -> bool:
    """Whether other processes take part."""
    return bool(strategy.extended._in_multi_worker_mode())


def agree(strategy: tf.distribute.Strategy, values: Mapping[str, Any]) -> None:
    """Returns when all workers have called it and have the same values.

    Args:
        strategy: The devices.
        values: By what they are called; anything that JSON can hold.

    Raises:
        UserError: On each worker whose values are not the first one's, naming the first of them.
    """
    if not several_workers(strategy):
        return
    own = {name: _number(value) for name, value in values.items()}
    for name, number in of_chief(strategy, own).items():
        if number != own[name]:
            raise UserError(
                f"Worker {worker_number(strategy)} and the first one differ in {name}. All need "
                "the same command, the same files, and one output folder that they share."
            )


def _number(value: Any) -> float:
    """Returns a hash of a value that a float64 holds."""
    text = json.dumps(value, sort_keys=True, default=str)
    return float(int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big"))


def wait_for_all(strategy: tf.distribute.Strategy) -> None:
    """Returns when all workers have called it."""
    if several_workers(strategy):
        strategy.reduce("SUM", strategy.run(lambda: tf.constant(1.0)), axis=None)
