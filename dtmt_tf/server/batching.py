"""Requests joined into batches, as TensorFlow Serving does with `--enable_batching`."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

import numpy as np
from grpc import StatusCode

from dtmt_tf.server.errors import ServingError, invalid

Tensors = dict[str, np.ndarray]


@dataclass(frozen=True)
class Batching:
    """How requests are joined.

    Attributes:
        sizes: Allowed numbers of rows, ascending; the last is the most a batch may hold.
        timeout_seconds: How long the first request of a batch waits for others.
    """

    sizes: Sequence[int]
    timeout_seconds: float


class Batcher:
    """Joins requests into one, as the server does for a set of inputs and outputs.

    Requests are put together along the first dimension while they fit, padded to an allowed size
    with the first row of the last request, and the outputs cut along the first dimension. If what
    was joined or padded is refused, each request runs alone, and gets its own answer or refusal.

    Args:
        run: Runs the joined inputs within some seconds.
        batching: Sizes and waiting time.
    """

    def __init__(self, run: Callable[[Tensors, float], Tensors], batching: Batching) -> None:
        self._run = run
        self._batching = batching
        self._queue: queue.Queue[_Task | None] = queue.Queue()
        self._lock = threading.Lock()
        self._closed = False
        threading.Thread(target=self._work, daemon=True).start()

    def __call__(self, inputs: Tensors, seconds: float) -> Tensors:
        """Adds a request and waits for its outputs.

        Raises:
            ServingError: If the request has too many rows, waited too long, or fails.
        """
        task = _Task(inputs, time.monotonic() + seconds)
        if task.rows > self._batching.sizes[-1]:
            raise invalid(f"{task.rows} rows are more than the {self._batching.sizes[-1]} that "
                          "a batch may hold")  # fmt: skip
        with self._lock:
            closed = self._closed
            if not closed:
                self._queue.put(task)
        if closed:
            return self._run(inputs, seconds)
        try:
            return task.answer.result(seconds)
        except TimeoutError:  # others of its batch may take longer
            task.answer.cancel()
            raise _late() from None

    def close(self) -> None:
        """Ends when what waits is answered; later requests run alone."""
        with self._lock:
            self._closed = True
            self._queue.put(None)

    def _work(self) -> None:
        """Takes batches from the queue until it is closed."""
        held: _Task | None = None
        while first := held or self._queue.get():
            tasks, held = self._next_batch(first)
            tasks = [task for task in tasks if not self._answer_late(task)]
            if not tasks:
                continue
            try:
                answers = self._run_joined(tasks)
            except Exception as error:  # whatever it was, the requests must hear of it
                padded = tasks[0].rows not in self._batching.sizes
                # an export's limits are those of a batch: the rows of others may be at fault
                alone = _is_refusal(error) and (padded or len(tasks) > 1)
                for task in tasks:
                    if alone:
                        self._answer_alone(task)
                    else:
                        task.answer.set_exception(error)
            else:
                for task, answer in zip(tasks, answers, strict=True):
                    task.answer.set_result(answer)

    def _next_batch(self, first: _Task) -> tuple[list[_Task], _Task | None]:
        """Returns the requests of a batch and the one that did not fit, if any."""
        tasks, rows = [first], first.rows
        end = first.came + self._batching.timeout_seconds
        while rows < self._batching.sizes[-1]:
            try:
                task = self._queue.get(timeout=max(0, end - time.monotonic()))
            except queue.Empty:
                break
            if task is None:  # the last of the queue
                self._queue.put(None)
                break
            if rows + task.rows > self._batching.sizes[-1]:
                return tasks, task
            tasks.append(task)
            rows += task.rows
        return tasks, None

    def _answer_late(self, task: _Task) -> bool:
        """Whether a request waited for too long; it is told so, and costs the others nothing."""
        if not task.answer.set_running_or_notify_cancel():
            return True
        try:
            _rest(task.deadline)
        except ServingError as error:
            task.answer.set_exception(error)
            return True
        return False

    def _answer_alone(self, task: _Task) -> None:
        """Answers a request by itself, without rows that are not its own."""
        try:
            task.answer.set_result(self._run(task.inputs, _rest(task.deadline)))
        except Exception as error:
            task.answer.set_exception(error)

    def _run_joined(self, tasks: list[_Task]) -> list[Tensors]:
        """Returns each request's outputs."""
        bounds = np.cumsum([task.rows for task in tasks]).tolist()
        size = next(size for size in self._batching.sizes if size >= bounds[-1])
        joined = {}
        for name, last in tasks[-1].inputs.items():
            arrays = [task.inputs[name] for task in tasks]
            if len({array.shape[1:] for array in arrays}) > 1:
                raise invalid("rows of unequal shapes")  # each request then runs alone
            joined[name] = np.concatenate([*arrays, *[last[:1]] * (size - bounds[-1])])
        outputs = self._run(joined, _rest(max(task.deadline for task in tasks)))
        for name, array in outputs.items():
            if array.shape[:1] != (size,):
                raise ServingError(
                    StatusCode.FAILED_PRECONDITION, f"output {name} has not one value a row"
                )
        starts = [0, *bounds]
        return [
            {name: array[start:end] for name, array in outputs.items()}
            for start, end in zip(starts, bounds, strict=False)
        ]


@dataclass
class _Task:
    """A request in a queue: its inputs, and until when it may be answered."""

    inputs: Tensors
    deadline: float
    came: float = field(default_factory=time.monotonic)
    answer: Future[Tensors] = field(default_factory=Future)

    @property
    def rows(self) -> int:
        return len(next(iter(self.inputs.values())))


def _rest(deadline: float) -> float:
    """Returns how many seconds are left.

    Raises:
        ServingError: If there are none.
    """
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise _late()
    return seconds


def _late() -> ServingError:
    return ServingError(StatusCode.DEADLINE_EXCEEDED, "the request waited for too long")


def _is_refusal(error: Exception) -> bool:
    return isinstance(error, ServingError) and error.code is StatusCode.INVALID_ARGUMENT
