"""Shared by all measurements: a process for each subject, windows in turn, medians, memory."""

from __future__ import annotations

import contextlib
import logging
import os
import statistics
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from dtmt_tf.errors import UserError
from dtmt_tf.planning import processes

logger = logging.getLogger(__name__)

Subject = Callable[[Namespace, float], Any]  # made of the options and the time its process began


class Elsewhere:
    """A subject in its own process, so that it shares no threads and no memory.

    Args:
        subject: A class; the process constructs it from the options and its own start time.
        options: The command's.

    Raises:
        UserError: If the system kills the process, usually because memory ran out.
    """

    def __init__(self, subject: Subject, options: Namespace) -> None:
        began = time.time()
        with _environment(options.env):
            self._pool = processes.process(options.threads, options.devices)
        self._run(_make, subject, options, began)

    def ask(self, method: str, *arguments: Any) -> Any:
        """Calls a method of the subject and returns its result."""
        return self._run(_ask, method, *arguments)

    def close(self) -> None:
        """Ends the process."""
        self._pool.shutdown()

    def _run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return self._pool.submit(function, *arguments).result()
        except BrokenProcessPool as error:
            raise UserError("A measuring process was ended; memory may have run out.") from error


@contextlib.contextmanager
def _environment(changes: Sequence[str]) -> Iterator[None]:
    """Sets `NAME=VALUE` texts for processes that begin in this block."""
    before = dict(os.environ)
    for change in changes:
        name, _, value = change.partition("=")
        os.environ[name] = value
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


_subjects: list[Any] = []  # of this process


def _make(subject: Subject, options: Namespace, began: float) -> None:
    _subjects.append(subject(options, began))


def _ask(method: str, *arguments: Any) -> Any:
    return getattr(_subjects[0], method)(*arguments)


class Laps:
    """Seconds from one event to the next, since a process began."""

    def __init__(self, began: float) -> None:
        self.seconds: dict[str, float] = {}
        self._last = began

    def end(self, name: str) -> None:
        """Ends a lap."""
        now = time.time()
        self.seconds[name] = round(now - self._last, 3)
        self._last = now


def in_turn(subjects: Mapping[str, Any], windows: int) -> dict[str, list[Any]]:
    """Runs the windows of all subjects, one of each in turn, in changing order."""
    found: dict[str, list[Any]] = {name: [] for name in subjects}
    for k in range(windows):
        logger.info("Window %d of %d", k + 1, windows)
        for name in list(subjects)[:: -1 if k % 2 else 1]:
            found[name].append(subjects[name].ask("window"))
    return found


def spread(values: Sequence[float]) -> dict[str, float]:
    """Returns median, largest and smallest."""
    return {"median": statistics.median(values), "best": max(values), "worst": min(values)}


def seconds_of(function: Callable[[], Any], times: int) -> float:
    """Returns the median seconds of a call, after one that does not count."""
    seconds = []
    for _ in range(times + 1):
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds[1:])
