"""Models as TensorFlow Serving holds them: by name, the newest version of each in a C++ session."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import math
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf
from grpc import StatusCode

from dtmt_tf.errors import UserError
from dtmt_tf.files import system_error
from dtmt_tf.server.batching import Batcher, Batching, Tensors
from dtmt_tf.server.errors import ServingError, invalid
from dtmt_tf.translator import latest_version, live_versions
from dtmt_tf.translator.exported import FOREIGN, TRANSLATE
from dtmt_tf.translator.session import Session, reason
from dtmt_tf.translator.warmup import read_warmup

logger = logging.getLogger(__name__)

FOREVER_SECONDS = 1e6
RETRY_SECONDS = 30.0  # after which a version is tried again that met one of these errors
PASSING = errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC, errno.EIO, errno.ESTALE
Files = dict[Path, tuple[int, int]]  # bytes, and nanoseconds of the last change
_CODES = {code.value[0]: code for code in StatusCode}


class ServedModel:
    """A version of a model.

    It runs in TensorFlow's C++ session, as in the server. Once it is made it has answered the
    warm-up requests of its default signature; the first run of another one takes seconds.
    Several threads may call it at once.

    Args:
        name: The model's name.
        folder: The version's; its name is a number.
        batching: How requests are joined; `None` to run each alone.

    Attributes:
        version: The number of the version.
        signatures: `{name: SignatureDef}`.

    Raises:
        UserError: If it can not be loaded, or fails on a warm-up request.
    """

    def __init__(self, name: str, folder: Path, batching: Batching | None) -> None:
        self.name, self.folder, self.version = name, folder, int(folder.name)
        self._batching = batching
        self._batchers: dict[tuple[str, ...], Batcher] = {}
        self._retired = False
        self._lock = threading.Lock()
        session = None
        try:
            session = self._session = Session(folder)
            self.signatures = session.signatures
            self._warm_up(lambda signature: signature == TRANSLATE)
            most = self._most_lines() if batching else None
        except (*FOREIGN, MemoryError, ServingError) as error:
            if session:
                session.close()
            raise UserError(
                f"{folder} can not be served ({type(error).__name__}: {reason(str(error))}). "
                "dtmt verify says what is damaged; dtmt export makes a new version."
            ) from error
        if batching and most and most < max(batching.sizes):
            session.close()
            raise UserError(
                f"--batch-sizes: {folder} takes at most {most} lines at once (export.max_lines). "
                f"Received: {' '.join(map(str, batching.sizes))}."
            )

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
            raise invalid("inputs that are joined should have equally many rows")
        key = (signature, *sorted(outputs))

        def run(inputs: Tensors, seconds: float) -> Tensors:
            return self._run(signature, inputs, outputs, seconds)

        with self._lock:
            if key not in self._batchers and not self._retired:
                self._batchers[key] = Batcher(run, self._batching)
            answer = self._batchers.get(key, run)
        return answer(inputs, seconds)

    def warm_up(self) -> None:
        """Answers the warm-up requests of the signatures that are not the default."""
        try:
            self._warm_up(lambda signature: signature != TRANSLATE)
        except (*FOREIGN, ServingError) as error:
            if not self._retired:  # else all is closed
                logger.warning(
                    "%s: a warm-up request fails, so TensorFlow Serving would refuse it: %s",
                    self.folder, reason(str(error)),
                )  # fmt: skip

    def retire(self) -> None:
        """Takes no more batches; what runs is answered, and the session goes with the object."""
        with self._lock:
            self._retired = True
            for batcher in self._batchers.values():
                batcher.close()
            self._batchers.clear()  # they hold this object

    def close(self) -> None:
        """Ends the session; what still runs in it fails as cancelled."""
        self.retire()
        self._session.close()

    def _check(self, signature: str, inputs: Tensors, outputs: Sequence[str]) -> None:
        infos = self.signatures[signature]
        if set(inputs) != set(infos.inputs):
            raise invalid(
                f"{signature} takes the inputs {', '.join(sorted(infos.inputs))}. "
                f"Received: {', '.join(sorted(inputs)) or 'none'}"
            )
        for name, array in inputs.items():
            dtype = tf.as_dtype(infos.inputs[name].dtype)
            if array.dtype != dtype.as_numpy_dtype:
                raise invalid(f"input {name} should be {dtype.name}. Received: {array.dtype}")
        if len(set(outputs)) < len(outputs) or not set(outputs) <= set(infos.outputs):
            raise invalid(
                f"{signature} gives {', '.join(sorted(infos.outputs))}, each once. "
                f"Received: {', '.join(outputs)}"
            )

    def _run(
        self, signature: str, inputs: Tensors, outputs: Sequence[str], seconds: float
    ) -> Tensors:
        timeout = max(1, round(1000 * seconds))
        try:
            return self._session.run(signature, inputs, outputs, timeout)
        except tf.errors.OpError as error:
            code = _CODES.get(error.error_code, StatusCode.UNKNOWN)
            raise ServingError(code, reason(error.message)) from error
        except ValueError as error:  # a shape that the signature does not have
            raise invalid(str(error)) from error
        except RuntimeError as error:  # the session was closed
            raise ServingError(StatusCode.CANCELLED, str(error)) from error

    def _most_lines(self) -> int | None:
        """Returns how many lines the model's card says that it takes at once."""
        if "info" not in self.signatures:
            return None
        text = np.array([b""], object)
        (card,) = self._run("info", {"text": text}, (), FOREVER_SECONDS)["info"]
        most: int | None = json.loads(card).get("limits", {}).get("max_lines")
        return most

    def _warm_up(self, wanted: Callable[[str], bool]) -> None:
        """Answers the model's own requests to wanted signatures, so that no user meets it cold."""
        for signature, inputs in read_warmup(self.folder):
            if wanted(signature):
                self._run(signature, inputs, (), FOREVER_SECONDS)


class Models:
    """The models of a server, by name.

    Args:
        folders: Of runs, which hold numbered versions; the newest is served.
        batching: How requests are joined; `None` to run each alone.

    Raises:
        UserError: If one holds no version that can be served.
    """

    def __init__(self, folders: Mapping[str, Path], batching: Batching | None = None) -> None:
        self._folders, self._batching = folders, batching
        # versions that could not be loaded, and when they are tried again unless they change
        self._refused: dict[str, tuple[Files, float]] = {}
        self._models: dict[str, ServedModel] = {}
        self._served: dict[str, Files] = {}  # as they were before they were loaded
        self._retired: weakref.WeakSet[ServedModel] = weakref.WeakSet()  # until their requests end
        for name, folder in folders.items():
            version = latest_version(folder)
            self._served[name] = _files(version)
            self._models[name] = ServedModel(name, version, batching)

    def warm_up(self) -> None:
        """Answers the other warm-up requests in a thread, while models are served."""
        waiting = list(self._models.values())

        def warm_up() -> None:
            for model in waiting:
                model.warm_up()

        threading.Thread(target=warm_up, daemon=True).start()

    def find(self, name: str, version: int | None = None, label: str = "") -> ServedModel:
        """Returns a model.

        Raises:
            ServingError: If there is none of that name, version or label.
        """
        if not name:
            raise invalid("the request names no model")
        if label:
            raise invalid(f"no version has the label {label}")
        model = self._models.get(name)
        if model is None:
            raise ServingError(
                StatusCode.NOT_FOUND, f"no model {name}. There are: {', '.join(self._models)}"
            )
        if version not in (None, model.version):
            raise ServingError(
                StatusCode.NOT_FOUND, f"no version {version} of {name}. There is: {model.version}"
            )
        return model

    def refresh(self) -> None:
        """Loads versions that have become the newest of their folders, and lets the others go.

        One that took the place of the loaded one under its number is loaded likewise.

        Of a version that can not be served it is told, and the one before stays. Once its files
        have changed, as while it is being copied, it is tried again; after a while also where the
        fault may have been the machine's.
        """
        for name, folder in self._folders.items():
            old = self._models[name]
            try:
                versions = live_versions(folder)
            except OSError:
                versions = []
            if not versions:  # moved away, or out of reach now: what is loaded stays
                continue
            newest = versions[-1]
            files = _files(newest)  # as they are before they are read
            if files == self._served[name]:
                self._refused.pop(name, None)  # if what was refused comes back, it is tried again
                continue
            refused, again = self._refused.get(name, (None, 0.0))
            if files == refused and time.monotonic() < again:
                continue
            try:
                model = ServedModel(name, newest, self._batching)
            except UserError as error:
                pause = RETRY_SECONDS if _may_pass(error.__cause__) else math.inf
                self._refused[name] = files, time.monotonic() + pause
                logger.warning("%s stays at version %d: %s", name, old.version, error)
            else:
                model.warm_up()  # while the one before answers
                self._models[name], self._served[name] = model, files
                logger.info("%s: version %d takes the place of %d", name, int(newest.name),
                            old.version)  # fmt: skip
                old.retire()
                self._retired.add(old)

    def close(self) -> None:
        """Ends all sessions; what still runs in them fails."""
        for model in [*self._models.values(), *self._retired]:
            model.close()

    def __iter__(self) -> Iterator[ServedModel]:
        return iter(self._models.values())


def _may_pass(error: BaseException | None) -> bool:
    """Whether an error tells of the machine as it is now, and nothing of the files."""
    if isinstance(error, (MemoryError, tf.errors.ResourceExhaustedError)):
        return True
    return error is not None and system_error(error) in PASSING


def _files(version: Path) -> Files:
    """Returns what tells whether a version's folder is as it was: size and time of each file."""
    found: Files = {version: (0, 0)}
    for place, _, names in os.walk(version):
        for path in (Path(place, name) for name in names):
            with contextlib.suppress(OSError):  # it is gone
                status = path.stat()
                found[path] = status.st_size, status.st_mtime_ns
    return found
