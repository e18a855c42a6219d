"""Many lines through a server: several requests at once, and again those that found it away."""

from __future__ import annotations

import queue
import random
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from dtmt_tf.client.connections import Connection, LateAnswer, Refusal, TemporaryFailure
from dtmt_tf.errors import UserError
from dtmt_tf.refusals import LIMIT, Refusals
from dtmt_tf.resumable_lines import ResumableLines
from dtmt_tf.terminal import line_bar

_FIRST_WAIT_SECONDS = 0.25  # before a request is sent again; doubled each time
_LONGEST_WAIT_SECONDS = 30.0
_AHEAD = 16  # batches for each connection that may be translated before the first missing line


@dataclass(frozen=True)
class _Answer:
    """The translations of the lines from `start` on, and what they took.

    A line that is refused by itself has an empty one, and what the server said.
    """

    start: int
    translations: list[str]
    seconds: float
    retries: int
    refusal: Refusal | None = None


class _Batches:
    """The lines still to be sent, handed out batch by batch to several threads.

    Args:
        starts: The first line of each batch.
        room: No batch is handed out that begins this many lines behind the first missing one.
    """

    def __init__(self, starts: Iterable[int], room: int) -> None:
        self._starts, self._room, self._end = deque(starts), room, room
        self._changed = threading.Condition()

    def next(self) -> int | None:
        """Waits until there is room; returns the first of the next lines, if any are left."""
        with self._changed:
            self._changed.wait_for(lambda: not self._starts or self._starts[0] < self._end)
            return self._starts.popleft() if self._starts else None

    def make_room(self, written: int) -> None:
        """Tells how many lines are written: the first missing one."""
        with self._changed:
            self._end = written + self._room
            self._changed.notify_all()

    def drop(self) -> None:
        """Hands out no more."""
        with self._changed:
            self._starts.clear()
            self._changed.notify_all()


class Sending:
    """Lines on their way through a server.

    Each connection has one request under way at a time, and takes the next lines when it is done;
    nothing waits in between. But a server may join requests, and refuse them for what they are
    together. So a line that is beyond a limit is sent again while no other request is under way.
    Batches that a server is too slow for are divided. Nothing is sent that lies far beyond the
    first missing line, so little waits to be written.

    Args:
        batch_size: Lines in a request.
        retries: How often a request is sent again, after waits that double.
        refusals: Is told of lines that the server refuses, once those before them are written.

    Attributes:
        sent: Number of lines translated.
        latencies: Seconds of each request that was answered, without those sent in vain.
        retried: How many requests were sent again.
        seconds: What the whole took.
    """

    def __init__(self, batch_size: int, retries: int, refusals: Refusals) -> None:
        self.sent = 0
        self.latencies: list[float] = []
        self.retried = 0
        self.seconds = 0.0
        self._batch_size, self._retries, self._refusals = batch_size, retries, refusals
        self._door = threading.Lock()  # a request begins while it is open
        self._changed = threading.Condition()
        self._under_way = 0  # requests
        self._stopped = threading.Event()

    def version(self, connection: Connection) -> str:
        """Returns the version that answers, "" if the server does not tell; asks like a request.

        Raises:
            UserError: If the server stays away.
        """
        retry = 0
        while True:
            try:
                return connection.version()
            except TemporaryFailure as failure:
                self._wait(retry, failure)
                retry += 1

    def run(
        self, lines: Sequence[str], connections: Sequence[Connection], output: ResumableLines
    ) -> None:
        """Has lines translated, showing a progress bar; closes the connections.

        Args:
            lines: Source text.
            connections: To the server.
            output: Gets translations in the lines' order, as early as that allows.

        Raises:
            UserError: For a request that failed for good; the others are not awaited. For a line
                that is refused by itself, once those before it are written.
        """
        begin = time.monotonic()
        rest = list(output.remaining(lines))
        self._refusals.go_on_after(output.done)
        ahead = _AHEAD * len(connections) * self._batch_size
        batches = _Batches(range(0, len(rest), self._batch_size), ahead)
        answers: queue.Queue[_Answer | Exception] = queue.Queue(len(connections))
        early: dict[int, _Answer] = {}  # to lines before which some are missing
        written = 0
        try:
            for connection in connections:
                # a thread that waits for a server should not keep the process from ending
                arguments = connection, rest, batches, answers
                threading.Thread(target=self._work, args=arguments, daemon=True).start()
            with line_bar(len(lines), "translate", output.done) as bar:
                while self.sent < len(rest):
                    answer = answers.get()
                    if isinstance(answer, Exception):
                        raise answer
                    early[answer.start] = answer
                    while ready := early.pop(written, None):
                        if ready.refusal:
                            self._refusals.note(output.done + 1, ready.refusal)
                        output.write(ready.translations)
                        written += len(ready.translations)
                        batches.make_room(written)
                    self._count(answer)
                    bar.update(len(answer.translations))
        finally:
            self._stopped.set()
            batches.drop()
            for connection in connections:
                connection.close()
        self.seconds = time.monotonic() - begin

    def summary(self) -> str:
        """Returns what there is to tell in the end."""
        count = self.sent
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

    def _count(self, answer: _Answer) -> None:
        self.sent += len(answer.translations)
        if not answer.refusal:
            self.latencies.append(answer.seconds)
        self.retried += answer.retries

    def _work(
        self,
        connection: Connection,
        lines: list[str],
        batches: _Batches,
        answers: queue.Queue[_Answer | Exception],
    ) -> None:
        """Sends one request after the other until there is none left, or one fails."""
        while (start := batches.next()) is not None:
            batch = lines[start : start + self._batch_size]
            try:
                for answer in self._send(connection, start, batch):
                    answers.put(answer)
                    if answer.refusal and self._refusals.ends(answer.refusal):
                        batches.drop()  # of later lines nothing is needed
                        return
            except Exception as error:  # whatever it is, the main thread must hear of it
                answers.put(error)
                return

    def _send(self, connection: Connection, start: int, lines: list[str]) -> Iterator[_Answer]:
        """Sends a request until it is answered; one refused, or late again, in halves."""
        retry, alone, half = 0, False, len(lines) // 2
        while True:
            begin = time.monotonic()
            try:
                translate = self._translate_alone if alone else self._translate
                translations = translate(connection, lines)
            except TemporaryFailure as failure:
                if half and retry and isinstance(failure, LateAnswer):
                    break
                self._wait(retry, failure)
                retry += 1
            except Refusal as refusal:
                if half:
                    break
                if alone or LIMIT not in str(refusal):
                    yield _Answer(start, [""], time.monotonic() - begin, retry, refusal)
                    return
                alone = True
            else:
                yield _Answer(start, translations, time.monotonic() - begin, retry)
                return
        yield from self._send(connection, start, lines[:half])
        yield from self._send(connection, start + half, lines[half:])

    def _wait(self, retry: int, failure: TemporaryFailure) -> None:
        """Waits before another try; raises a UserError if there were enough."""
        wait = min(_FIRST_WAIT_SECONDS * 2**retry, _LONGEST_WAIT_SECONDS)
        # clients that failed together should not come back together
        if retry == self._retries or self._stopped.wait(wait * random.uniform(0.5, 1)):
            raise UserError(f"{failure} Tries: {retry + 1}.") from failure

    def _translate(self, connection: Connection, lines: list[str]) -> list[str]:
        """Sends a request once."""
        with self._door, self._changed:
            self._under_way += 1
        try:
            return connection.translate(lines)
        finally:
            with self._changed:
                self._under_way -= 1
                self._changed.notify_all()

    def _translate_alone(self, connection: Connection, lines: list[str]) -> list[str]:
        """Sends a request once, while no other is under way."""
        with self._door, self._changed:
            self._changed.wait_for(lambda: not self._under_way)
            return connection.translate(lines)
