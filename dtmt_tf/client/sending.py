"""Many lines through a server: several requests at once, and again those that found it away."""

from __future__ import annotations

import queue
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
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
        lines: These, read as there is room for them.
        size: Lines of a batch; it has fewer where the next can not be had without waiting.
        ready: Whether it can.
        room: No batch is handed out that begins this many lines behind the first missing one.
    """

    def __init__(
        self, lines: Iterable[str], size: int, ready: Callable[[], bool], room: int
    ) -> None:
        self._lines, self._size, self._ready = iter(lines), size, ready
        self._room, self._end = room, room
        self._start = 0  # of the next batch
        self._dropped = False
        self._reading = threading.Lock()  # one thread at a time; the others may go on
        self._changed = threading.Condition()

    def next(self) -> tuple[int, list[str]]:
        """Waits until there is room; returns the next lines, if any, and which the first is."""
        with self._reading:
            with self._changed:
                self._changed.wait_for(lambda: self._dropped or self._start < self._end)
            batch: list[str] = []
            while not self._dropped and len(batch) < self._size and (not batch or self._ready()):
                if (line := next(self._lines, None)) is None:
                    break
                batch.append(line)
            self._start += len(batch)
            return self._start - len(batch), batch

    def make_room(self, written: int) -> None:
        """Tells how many lines are written: the first missing one."""
        with self._changed:
            self._end = written + self._room
            self._changed.notify_all()

    def drop(self) -> None:
        """Hands out no more."""
        with self._changed:
            self._dropped = True
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
        self,
        lines: Iterable[str],
        connections: Sequence[Connection],
        output: ResumableLines,
        ready: Callable[[], bool] = lambda: True,
        total: int | None = None,
        title: str = "",
    ) -> None:
        """Has lines translated, showing a progress bar; closes the connections.

        Args:
            lines: Source text; read little by little, by threads of its own.
            connections: To the server.
            output: Gets translations in the lines' order, as early as that allows.
            ready: Whether the next line can be had without waiting; if not, those that were read
                are sent.
            total: How many lines there are, if that is known.
            title: What the bar is called; none is shown without.

        Raises:
            UserError: For a request that failed for good; the others are not awaited. For a line
                that is refused by itself, once those before it are written.
        """
        begin = time.monotonic()
        rest = output.remaining(lines)
        self._refusals.go_on_after(output.done)
        ahead = _AHEAD * len(connections) * self._batch_size
        batches = _Batches(rest, self._batch_size, ready, ahead)
        answers: queue.Queue[_Answer | Exception | None] = queue.Queue(len(connections))
        early: dict[int, _Answer] = {}  # to lines before which some are missing
        written, working = 0, len(connections)
        try:
            for connection in connections:
                # a thread that waits for a server should not keep the process from ending
                arguments = connection, batches, answers
                threading.Thread(target=self._work, args=arguments, daemon=True).start()
            with line_bar(total, title, output.done) as bar:
                while working:
                    answer = answers.get()
                    if isinstance(answer, Exception):
                        raise answer
                    if answer is None:
                        working -= 1
                        continue
                    early[answer.start] = answer
                    while following := early.pop(written, None):
                        if following.refusal:
                            self._refusals.note(output.done + 1, following.refusal)
                        output.write(following.translations)
                        written += len(following.translations)
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
        batches: _Batches,
        answers: queue.Queue[_Answer | Exception | None],
    ) -> None:
        """Sends one request after the other until there is none left, or one fails."""
        try:
            while (work := batches.next())[1]:
                for answer in self._send(connection, *work):
                    answers.put(answer)
                    if answer.refusal and self._refusals.ends(answer.refusal):
                        batches.drop()  # of later lines nothing is needed
                        break
            answers.put(None)
        except Exception as error:  # whatever it is, the main thread must hear of it
            answers.put(error)

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
