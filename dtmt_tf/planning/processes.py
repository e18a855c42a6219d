"""Processes for measurements."""

from __future__ import annotations

import logging
import multiprocessing
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from dtmt_tf import startup

Threads = tuple[int, int] | None


def process(threads: Threads = None, devices: Sequence[str] = ()) -> ProcessPoolExecutor:
    """Returns a process that has started TensorFlow; see `startup.start_tensorflow`.

    Raises:
        UserError: If one of the devices is not there.
    """
    spawn = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(1, spawn)
    # an initializer could not say why it fails
    pool.submit(start_quietly, threads, devices).result()
    return pool


def elsewhere(function: Callable[..., Any], *arguments: Any) -> Any:
    """Runs a function in a `process`; returns its value, or None if the process is killed."""
    with process() as pool:
        try:
            return pool.submit(function, *arguments).result()
        except BrokenProcessPool:
            return None


def start_quietly(threads: Threads, devices: Sequence[str]) -> None:
    """Starts TensorFlow in a process whose log nobody reads.

    Ctrl-C ends the process at once, and so does the end of the one that started it, however that
    ends: it would wait for work forever.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    logging.getLogger("dtmt_tf").setLevel(logging.ERROR)
    startup.start_tensorflow(devices, threads)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent:
        parent.join()
        os._exit(1)


def peak_memory() -> float:
    """Returns the peak memory (RSS) of this process, in GiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**30 if sys.platform == "darwin" else 2**20)
