"""Models as the server holds them: by name and version, in C++ sessions, with requests batched."""

import queue
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import config_pb2, saved_model_pb2

sys.path.insert(0, str(Path(__file__).parents[1] / "export"))  # its modules are scripts

from c_session import CSession, CSessionError  # noqa: E402

Tensors = dict[str, np.ndarray]


class ServingError(Exception):
    """A request that fails.

    Attributes:
        code: TensorFlow's name of the error, such as `"NOT_FOUND"`.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Batching:
    """The server's batching parameters.

    Attributes:
        sizes: Allowed numbers of rows, ascending; the last is the most a batch may hold.
        timeout_seconds: How long the first request of a batch waits for others.
    """

    sizes: Sequence[int]
    timeout_seconds: float


class ServedModel:
    """The newest version below a model's folder.

    Args:
        name: The model's name.
        folder: Holds versions, folders whose names are integers.
        batching: How requests are joined; `None` to run each alone.

    Attributes:
        version: The number of the version.
        signatures: `{name: SignatureDef}`.
    """

    def __init__(self, name: str, folder: Path, batching: Batching | None) -> None:
        self.name = name
        self.version = max(int(path.name) for path in folder.iterdir() if path.name.isdigit())
        path = folder / str(self.version)
        self._session = CSession(path)
        saved = saved_model_pb2.SavedModel.FromString((path / "saved_model.pb").read_bytes())
        (graph,) = (graph for graph in saved.meta_graphs if "serve" in graph.meta_info_def.tags)
        self.signatures = dict(graph.signature_def)
        self._batching = batching
        self._batchers: dict[tuple[str, ...], Batcher] = {}
        self._lock = threading.Lock()

    def predict(
        self, signature: str, inputs: Tensors, outputs: Sequence[str], seconds: float
    ) -> Tensors:
        """Runs a signature that the model has.

        Args:
            signature: Its name.
            inputs: Tensors by name; strings are bytes in an array of objects.
            outputs: The wanted ones; all if empty.
            seconds: How long the answer may take.

        Raises:
            ServingError: With the server's code for whatever is wrong.
        """
        self._check(signature, inputs, outputs)
        rows = {array.shape[:1] for array in inputs.values()}
        if self._batching is None or rows == {(0,)}:  # nothing to pad no rows with: run alone
            return self._run(signature, inputs, outputs, seconds)
        if () in rows or len(rows) != 1:
            raise ServingError("INVALID_ARGUMENT", "batched inputs should share dimension 0")
        key = (signature, *sorted(outputs))
        with self._lock:
            if key not in self._batchers:

                def run(inputs: Tensors, seconds: float) -> Tensors:
                    return self._run(signature, inputs, outputs, seconds)

                self._batchers[key] = Batcher(run, self._batching)
        return self._batchers[key](inputs, seconds)

    def _check(self, signature: str, inputs: Tensors, outputs: Sequence[str]) -> None:
        infos = self.signatures[signature]
        if set(inputs) != set(infos.inputs):
            raise ServingError("INVALID_ARGUMENT", f"inputs should be: {sorted(infos.inputs)}")
        for name, array in inputs.items():
            dtype = tf.as_dtype(infos.inputs[name].dtype)
            if array.dtype != dtype.as_numpy_dtype:
                raise ServingError("INVALID_ARGUMENT", f"input {name} should be {dtype.name}")
        if len(set(outputs)) < len(outputs) or not set(outputs) <= set(infos.outputs):
            raise ServingError("INVALID_ARGUMENT", f"outputs are: {sorted(infos.outputs)}")

    def _run(
        self, signature: str, inputs: Tensors, outputs: Sequence[str], seconds: float
    ) -> Tensors:
        timeout = max(1, round(1000 * seconds))
        options = config_pb2.RunOptions(timeout_in_ms=timeout).SerializeToString()
        lists = {name: array.tolist() for name, array in inputs.items()}
        try:
            results = self._session.run_flat(signature, lists, outputs, options)
        except CSessionError as error:
            raise ServingError(error.code, str(error)) from error
        infos = self.signatures[signature].outputs
        return {
            name: _array(tf.as_dtype(infos[name].dtype), shape, flat)
            for name, (shape, flat) in results.items()
        }


class Batcher:
    """Joins requests into one, as the server does for a set of inputs and outputs.

    Requests are put together along the first dimension while they fit, padded to an allowed size
    with the first row of the last request, and the outputs cut along the first dimension.

    Args:
        run: Runs the joined inputs within some seconds.
        batching: Sizes and waiting time.
    """

    def __init__(self, run: Callable[[Tensors, float], Tensors], batching: Batching) -> None:
        self._run = run
        self._batching = batching
        self._queue: queue.Queue[_Task] = queue.Queue()
        threading.Thread(target=self._work, daemon=True).start()

    def __call__(self, inputs: Tensors, seconds: float) -> Tensors:
        """Adds a request and waits for its outputs."""
        task = _Task(inputs, time.monotonic() + seconds)
        if task.rows > self._batching.sizes[-1]:
            raise ServingError("INVALID_ARGUMENT", f"{task.rows} rows are more than a batch holds")
        self._queue.put(task)
        return task.answer.result()

    def _work(self) -> None:
        """Takes batches from the queue, for ever."""
        held: _Task | None = None
        while True:
            tasks, held = self._next_batch(held or self._queue.get())
            try:
                answers = self._run_joined(tasks)
            except Exception as error:  # whatever it was, the requests must hear of it
                for task in tasks:
                    task.answer.set_exception(error)
            else:
                for task, answer in zip(tasks, answers, strict=True):
                    task.answer.set_result(answer)

    def _next_batch(self, first: "_Task") -> "tuple[list[_Task], _Task | None]":
        """Returns the requests of a batch and the one that did not fit, if any."""
        tasks, rows = [first], first.rows
        end = time.monotonic() + self._batching.timeout_seconds
        while rows < self._batching.sizes[-1]:
            try:
                task = self._queue.get(timeout=max(0, end - time.monotonic()))
            except queue.Empty:
                break
            if rows + task.rows > self._batching.sizes[-1]:
                return tasks, task
            tasks.append(task)
            rows += task.rows
        return tasks, None

    def _run_joined(self, tasks: "list[_Task]") -> list[Tensors]:
        """Returns each request's outputs."""
        bounds = np.cumsum([task.rows for task in tasks]).tolist()
        size = next(size for size in self._batching.sizes if size >= bounds[-1])
        joined = {}
        for name, last in tasks[-1].inputs.items():
            arrays = [task.inputs[name] for task in tasks]
            if len({array.shape[1:] for array in arrays}) > 1:
                raise ServingError("FAILED_PRECONDITION", "rows of unequal shapes")
            joined[name] = np.concatenate([*arrays, *[last[:1]] * (size - bounds[-1])])
        seconds = max(task.deadline for task in tasks) - time.monotonic()
        if seconds <= 0:
            raise ServingError("DEADLINE_EXCEEDED", "the requests waited too long in the queue")
        outputs = self._run(joined, seconds)
        for name, array in outputs.items():
            if array.shape[:1] != (size,):
                raise ServingError("FAILED_PRECONDITION", f"output {name} is not one a row")
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
    answer: "Future[Tensors]" = field(default_factory=Future)

    @property
    def rows(self) -> int:
        return len(next(iter(self.inputs.values())))


def _array(dtype: Any, shape: Sequence[int], flat: Sequence[Any]) -> np.ndarray:
    """Returns elements as an array, text as bytes."""
    if dtype == tf.string:
        flat = [text.encode(errors="surrogateescape") for text in flat]
    return np.array(flat, dtype.as_numpy_dtype).reshape(shape)


class Models:
    """The models of a server, by name."""

    def __init__(self, folders: dict[str, Path], batching: Batching | None) -> None:
        self._models = {
            name: ServedModel(name, folder, batching) for name, folder in folders.items()
        }

    def find(self, name: str, version: int | None = None, label: str = "") -> ServedModel:
        """Returns a model.

        Raises:
            ServingError: If there is none of that name, version or label.
        """
        if not name:
            raise ServingError("INVALID_ARGUMENT", "the request names no model")
        if label:
            raise ServingError("INVALID_ARGUMENT", f"no version has the label {label}")
        model = self._models.get(name)
        if model is None or version not in (None, model.version):
            raise ServingError("NOT_FOUND", f"no model {name}, version {version or 'any'}")
        return model
