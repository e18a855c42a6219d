"""Trackers of experiments that others keep: MLflow, Weights & Biases.

Neither is needed or installed. A tracker gets what TensorBoard gets as numbers, under the same
names. To add one, write a subclass of `Tracker` and name it in `TRACKERS`.
"""

from __future__ import annotations

import abc
import importlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from dtmt_tf.errors import DAMAGED, UserError
from dtmt_tf.files import write_json

Value = bool | int | float | str
MOST_PARAMETERS = 100  # that MLflow takes at once


class Tracker(abc.ABC):
    """A run as a tracker knows it: begun by the first session, gone on with by later ones.

    Args:
        module: The tracker's package.
        task: Its experiment or project.
        name: The run's name there.
        settings: Of the run, by name.
        kept: What `key` was in the session before; None in the first.
    """

    key: str  # by which the tracker finds the run again

    @abc.abstractmethod
    def __init__(
        self, module: Any, task: str, name: str, settings: Mapping[str, Value], kept: str | None
    ) -> None: ...

    @abc.abstractmethod
    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Takes numbers by name, as they are after an update."""

    @abc.abstractmethod
    def close(self) -> None:
        """Ends the session."""


class MLflow(Tracker):
    """A run of an MLflow experiment, where `MLFLOW_TRACKING_URI` says, else in this folder."""

    def __init__(
        self, module: Any, task: str, name: str, settings: Mapping[str, Value], kept: str | None
    ) -> None:
        self.mlflow = module
        module.set_experiment(task)
        self.key = module.start_run(run_id=kept, run_name=name).info.run_id
        if not kept:  # they cannot be changed
            rows = list(settings.items())
            for k in range(0, len(rows), MOST_PARAMETERS):
                module.log_params(dict(rows[k : k + MOST_PARAMETERS]))

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """See the base class."""
        self.mlflow.log_metrics(dict(values), step=step)

    def close(self) -> None:
        """See the base class."""
        self.mlflow.end_run()


class WandB(Tracker):
    """A run of a Weights & Biases project; `WANDB_MODE=offline` keeps it on this machine."""

    def __init__(
        self, module: Any, task: str, name: str, settings: Mapping[str, Value], kept: str | None
    ) -> None:
        self.run = module.init(
            project=task, name=name, config=dict(settings), id=kept, resume="allow"
        )
        # its own step can not go back, as a training does after bad updates
        self.run.define_metric("update")
        self.run.define_metric("*", step_metric="update")
        self.key = self.run.id

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """See the base class."""
        self.run.log({**values, "update": step})

    def close(self) -> None:
        """See the base class."""
        self.run.finish()


TRACKERS: dict[str, type[Tracker]] = {"mlflow": MLflow, "wandb": WandB}


def open_trackers(
    names: Sequence[str], task: str, name: str, settings: Mapping[str, Value], memory: Path
) -> list[Tracker]:
    """Begins a session with trackers.

    Args:
        names: Of `TRACKERS`.
        task: The run's task.
        name: The run's name.
        settings: Of the run, by name.
        memory: A file of the run that remembers under which key each tracker knows it.

    Raises:
        UserError: If a tracker's package is not installed, or it does not begin; or if the memory
            is damaged.
    """
    keys = _remembered(memory) if names and memory.exists() else {}
    opened: list[Tracker] = []
    for each in dict.fromkeys(names):
        module = _imported(each)
        try:
            tracker = TRACKERS[each](module, task, name, settings, keys.get(each))
        except Exception as error:  # whatever a service and its client have to say
            for other in opened:
                other.close()
            raise UserError(
                f"--track {each} does not begin: {error}. Train without it, or set it up first."
            ) from error
        keys[each] = tracker.key
        opened.append(tracker)
        write_json(memory, keys)  # the next session goes on with it, whatever becomes of others
    return opened


def check_trackers(names: Sequence[str]) -> None:
    """Raises a UserError if the package of one of the trackers is not installed."""
    for each in names:
        _imported(each)


def _remembered(memory: Path) -> dict[str, str]:
    try:
        return {**json.loads(memory.read_text("utf-8"))}
    except DAMAGED as error:
        raise UserError(
            f"{memory} is damaged ({type(error).__name__}: {error}). Remove it: then the trackers "
            "show the rest of the run as a new one."
        ) from error


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UserError(
            f"--track {name} needs the package {name}, which is not installed ({error}): "
            f"pip install {name}."
        ) from error
