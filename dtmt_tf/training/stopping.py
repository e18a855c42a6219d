"""The ends of a training: its settings, a signal, or the time limit."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

from dtmt_tf.config import TrainingConfig

OUT_OF_TIME = 124  # the exit code that `timeout` has
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ONE_STOP_SECONDS = 1.0  # within which signals are one
HALVINGS = "halvings"  # in a history: of the clipping norm, by scores that no longer count
SAVING = "\nThis update or validation ends, then all is saved. Ctrl-C again stops at once.\n"


@dataclass(frozen=True)
class Outcome:
    """How training ended.

    Args:
        step: Updates done.
        exit_code: 0 if it is finished, 128 + the number of a signal, or `OUT_OF_TIME`.
    """

    step: int
    exit_code: int


@dataclass(frozen=True)
class Limits:
    """The limits of one session of training, whatever its experiment.

    Args:
        max_seconds: So long after its first update it stops as if by a signal.
        allow_changes: Settings (`section.name`) in which a checkpoint may differ.
    """

    max_seconds: float = math.inf
    allow_changes: Sequence[str] = ()


class Stop:
    """Within this block, notices a signal or the end of the time.

    The first signal is answered on standard error; a second SIGINT or SIGTERM ends the process at
    once. Signals within a second count as one: a system that shuts down, or a shell and its
    terminal, send several. SIGHUP stays ignored if the process was started so, as by `nohup`. Once
    writing to standard error fails, as to a `tee` that Ctrl-C ended, its output is dropped.

    Args:
        max_seconds: The time limit, from `begin` on.

    Attributes:
        exit_code: 0, or the exit code for the process.
    """

    def __init__(self, max_seconds: float) -> None:
        self.max_seconds = max_seconds
        self.exit_code = 0
        self._end, self._heard = math.inf, -math.inf
        self._former: dict[int, Any] = {}
        self._shown: list[int] = []
        self._stderr: Any = None

    def __enter__(self) -> Stop:
        self._shown = _shown()
        if sys.stderr:
            self._stderr, sys.stderr = sys.stderr, _Lasting(sys.stderr)  # type: ignore[assignment]
        for number in SIGNALS:
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                self._former[number] = signal.signal(number, self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._former.items():
            signal.signal(number, handler)
        sys.stderr = self._stderr

    def begin(self) -> None:
        """Begins to count the time, if nothing has yet."""
        if self._end == math.inf:
            self._end = time.monotonic() + self.max_seconds

    def requested(self) -> int:
        """Returns the exit code once it is time to stop, else 0."""
        if not self.exit_code and time.monotonic() >= self._end:
            self.exit_code = OUT_OF_TIME
        return self.exit_code

    def told(self, codes: int) -> None:
        """Takes over what other workers stop for: the sum of their exit codes."""
        if codes and not self.exit_code:
            out_of_time = codes % OUT_OF_TIME == 0
            self.exit_code = OUT_OF_TIME if out_of_time else 128 + signal.SIGTERM

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            _discard(self._shown)
        if self._heard > -math.inf:
            if number == signal.SIGHUP or time.monotonic() < self._heard + ONE_STOP_SECONDS:
                return
            raise KeyboardInterrupt
        self._heard = time.monotonic()
        self.exit_code = self.exit_code or 128 + number
        with contextlib.suppress(OSError):  # of a closed stream
            os.write(2, SAVING.encode())  # not by Python's stream, which may be in use


class _Lasting:
    """A stream that drops what is written from the first failure on."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Returns how many characters were taken: all."""
        try:
            self._stream.write(text)
        except OSError:
            self._drop()
        return len(text)

    def flush(self) -> None:
        """Writes what waits."""
        try:
            self._stream.flush()
        except OSError:
            self._drop()

    def _drop(self) -> None:
        with contextlib.suppress(OSError):  # it may be no file
            _discard([self._stream.fileno()])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _shown() -> list[int]:
    """Returns the descriptors of output to a terminal, which tells so while it is there alone."""
    streams = sys.__stdout__, sys.__stderr__
    return [each.fileno() for each in streams if each and not each.closed and each.isatty()]


def _discard(descriptors: Sequence[int]) -> None:
    """Discards output for a terminal that is gone, where writing would fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in descriptors:
        os.dup2(nowhere, descriptor)
    os.close(nowhere)


def finished(training: TrainingConfig, step: int, history: Sequence[Mapping[str, Any]]) -> bool:
    """Returns whether all updates are made, or the best score is `patience` validations old.

    Args:
        training: The settings.
        step: Updates done.
        history: One entry for each validation that scored something.
    """
    if step >= training.max_steps:
        return True
    scores, patience = _scores(training, history), training.patience
    if not patience or len(scores) <= patience:
        return False
    return bool(max(scores[-patience:]) <= max(scores[:-patience]))


def validation_is_due(
    training: TrainingConfig, step: int, history: Sequence[Mapping[str, Any]]
) -> bool:
    """Returns whether an update is one after which the model is scored, and it has not been.

    Args:
        training: The settings.
        step: Updates done.
        history: One entry for each validation.
    """
    due = step % training.validation_steps == 0 or step == training.max_steps
    return due and all(entry["step"] != step for entry in history)


def clip_norm(training: TrainingConfig, history: Sequence[Mapping[str, Any]]) -> float:
    """Returns how long a gradient may be.

    With `clip_patience` the bound is halved whenever that many validations in a row, since the
    best or since it was last halved, have no better score (Wang et al., 2017, Section 4.2).

    Args:
        training: The settings.
        history: One entry for each validation.
    """
    return training.clip_norm / 2 ** _halvings(training, history)


def _halvings(training: TrainingConfig, history: Sequence[Mapping[str, Any]]) -> int:
    count = max((entry.get(HALVINGS, 0) for entry in history), default=0)
    best, waited = -math.inf, 0
    for score in _scores(training, history):
        waited = 0 if score > best else waited + 1
        best = max(best, score)
        if training.clip_patience and waited == training.clip_patience:
            count, waited = count + 1, 0
    return count


def without_scores(
    training: TrainingConfig, history: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Returns a history as if nothing had been scored; `clip_norm` stays where scores took it."""
    halved = {HALVINGS: count} if (count := _halvings(training, history)) else {}
    return [{**unscored(entry), **halved} for entry in history]


def unscored(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Returns an entry of a history as if nothing had been scored."""
    return {name: entry[name] for name in ("step", "loss") if name in entry}


def _scores(training: TrainingConfig, history: Sequence[Mapping[str, Any]]) -> list[float]:
    """Returns the scores that patience counts, the higher the better."""
    sign = {"bleu": 1, "cross_entropy": -1}[training.stop_on]
    return [sign * entry[training.stop_on] for entry in history if training.stop_on in entry]
