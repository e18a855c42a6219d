"""Many lines through a server: several requests at once, and again those that found it away."""

from __future__ import annotations

import queue
import random
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from tqdm import tqdm

from dtmt_tf.client.connections import Connection, TemporaryFailure
from dtmt_tf.errors import UserError

_FIRST_WAIT_SECONDS = 0.25  # before a request is sent again; doubled each time
_LONGEST_WAIT_SECONDS = 30.0


@dataclass(frozen=True)
class _Answer:
    """The translations of the lines from `start` on, and what they took."""

    start: int
    translations: list[str]
    seconds: float
    retries: int


class Sending:
    """Lines on their way through a server.

    Each connection has one request under way at a time, and takes the next lines when it is done;
    nothing waits in between.

    Args:
        lines: Source text.
        batch_size: Lines in a request.
        retries: How often a request is sent again, after waits that double.

    Attributes:
        translations: One for each line; complete when `run` returns.
        done: Number of lines translated so far.
        latencies: Seconds of each request that was answered, without those sent in vain.
        retried: How many requests were sent again.
        seconds: What the whole took.
    """

    def __init__(self, lines: Sequence[str], batch_size: int, retries: int) -> None:
        self.translations = [""] * len(lines)
        self.done = 0
        self.latencies: list[float] = []
        self.retried = 0
        self.seconds = 0.0
        self._lines, self._batch_size, self._retries = lines, batch_size, retries
        self._starts = iter(range(0, len(lines), batch_size))
        self._lock = threading.Lock()
        self._stopped = threading.Event()

    def run(self, connections: Sequence[Connection]) -> None:
        """Has all lines translated, showing a progress bar; closes the connections.

        Raises:
            UserError: For a request that failed for good; the others are not awaited.
        """
        start = time.monotonic()
        answers: queue.Queue[_Answer | Exception] = queue.Queue(len(connections))
        try:
            for connection in connections:
                # a thread that waits for a server should not keep the process from ending
                threading.Thread(target=self._work, args=(connection, answers), daemon=True).start()
            with _progress_bar(len(self._lines)) as bar:
                while self.done < len(self._lines):
                    answer = answers.get()
                    if isinstance(answer, Exception):
                        raise answer
                    self._take(answer)
                    bar.update(len(answer.translations))
        finally:
            self._stopped.set()
            for connection in connections:
                connection.close()
        self.seconds = time.monotonic() - start

    def summary(self) -> str:
        """Returns what there is to tell in the end."""
        count = len(self._lines)
        rate = f", {count / self.seconds:.1f} sentences/s" if count else ""
        text = f"{count:,} lines in {self.seconds:.1f} s{rate}"
        if self.latencies:
            import numpy as np

            parts = np.percentile(self.latencies, [50, 95, 99])
            p50, p95, p99 = (f"{part:.3f}" for part in parts)
            text += (
                f"\n{len(self.latencies):,} requests: latency p50 {p50} s, p95 {p95} s, "
                f"p99 {p99} s; {self.retried:,} retries"
            )
        return text

    def _take(self, answer: _Answer) -> None:
        end = answer.start + len(answer.translations)
        self.translations[answer.start : end] = answer.translations
        self.done += len(answer.translations)
        self.latencies.append(answer.seconds)
        self.retried += answer.retries

    def _work(self, connection: Connection, answers: queue.Queue[_Answer | Exception]) -> None:
        """Sends one request after the other until there is none left, or one fails."""
        while not self._stopped.is_set():
            with self._lock:
                start = next(self._starts, None)
            if start is None:
                return
            try:
                answers.put(self._send(connection, start))
            except Exception as error:  # whatever it is, the main thread must hear of it
                answers.put(error)
                return

    def _send(self, connection: Connection, start: int) -> _Answer:
        """Sends a request until it is answered."""
        lines = list(self._lines[start : start + self._batch_size])
        retry, wait = 0, _FIRST_WAIT_SECONDS
        while True:
            begin = time.monotonic()
            try:
                translations = connection.translate(lines)
                return _Answer(start, translations, time.monotonic() - begin, retry)
            except TemporaryFailure as failure:
                # clients that failed together should not come back together
                if retry == self._retries or self._stopped.wait(wait * random.uniform(0.5, 1)):
                    raise UserError(f"{failure} Tries: {retry + 1}.") from failure
            retry, wait = retry + 1, min(2 * wait, _LONGEST_WAIT_SECONDS)


def _progress_bar(total: int) -> tqdm:
    terminal = sys.stderr.isatty()
    return tqdm(
        total=total,
        desc="translate",
        unit="line",
        leave=False,
        ncols=79,
        delay=0 if terminal else 20,  # seconds; a log wants few lines
        mininterval=0.2 if terminal else 20,
    )
