"""What the options that commands share come to: the run that they name, and its settings."""

from __future__ import annotations

import argparse
import contextlib
import glob
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from dtmt_tf.config import ModelConfig, Task
from dtmt_tf.errors import UserError, hint
from dtmt_tf.experiment import Experiment, read_settings, resolve
from dtmt_tf.fetch import cache_dir
from dtmt_tf.settings_file import MODEL_NAME, TASK

if TYPE_CHECKING:
    from dtmt_tf.runs import Run

T = TypeVar("T")
DATA_DIR_VARIABLE = "DTMT_DATA_DIR"
DEFAULT_TASK = "cldr_ende"
LONGEST_NAME = 100  # bytes
MODELS_HOLD = "train/experiment.json", "train/*.spm", "saved_model.pb", "*/saved_model.pb"


def refuse_beside(named: str, args: argparse.Namespace) -> None:
    """Raises a UserError if options name a run beside what names one already."""
    for option in ("task", "model", "name"):
        if getattr(args, option) is not None:
            raise UserError(f"{named} and --{option} both name a run. Give one of them.")


def run_folder(args: argparse.Namespace) -> Path:
    """Returns the folder of the run that the arguments name.

    Raises:
        UserError: If they name two, or a folder where a name belongs.
    """
    if folder := getattr(args, "run", None):
        refuse_beside(str(folder), args)
        return named_run(folder, args)
    if hasattr(args, "run"):
        for text in getattr(args, "set", ()):
            if "=" not in text and Path(text).is_dir():
                raise UserError(f"--set {text}: a run's folder comes before --set.")
        for option, text in (("name", args.name or ""), ("model", args.model or "")):
            if os.sep in text and Path(text).is_dir():
                raise UserError(f"--{option} takes a name. Give the folder without it: {text}")
    task, model = task_and_model(args)
    return args.output_dir / task.name / plain_name(model if args.name is None else args.name)


def named_run(place: str | Path, args: argparse.Namespace, elsewhere: bool = True) -> Path:
    """Returns what `find_run` finds, or else where it would be: an error lists the runs there.

    A name stands first for a run of the task that the arguments, or their file of settings, name.
    """
    file = getattr(args, "config", None)
    is_given = args.task is not None or bool(file and TASK in file.names)
    task = task_and_model(args)[0].name if is_given else ""
    found = find_run(place, args.output_dir, task, elsewhere)
    if found.is_dir():
        return found
    if os.sep not in str(place):
        return args.output_dir / task_and_model(args)[0].name / place
    below = args.output_dir / place
    return below if below.parent.exists() else found


def find_run(place: str | Path, folder: Path, task: str = "", elsewhere: bool = True) -> Path:
    """Returns the folder that a path leads to, or a run of that name; the path if there is none.

    Args:
        place: A path, or a name. A text that has a slash, such as ./base, is a path.
        folder: Of all runs.
        task: Whose run a name stands for first.
        elsewhere: Whether it may be a run of another task then.

    Raises:
        UserError: If several tasks have a run of that name.
    """
    is_name = os.sep not in str(place) and str(place) not in (".", "..")
    if task and is_name and (own := folder / task / place).is_dir():
        return own
    place = Path(place)
    if place.is_dir() and (not is_name or any(any(place.glob(each)) for each in MODELS_HOLD)):
        return place.resolve() if place.name in ("", "..") else place
    others = folder.glob(f"*/{glob.escape(str(place))}") if elsewhere else ()
    found = sorted(each for each in [folder / place, *others] if each.is_dir())
    if len(found) > 1:
        raise UserError(f"{place} may be {' or '.join(map(str, found))}. Name one of them.")
    return next(iter(found), place)


def open_run(args: argparse.Namespace, overrides: Sequence[str] = ()) -> Run:
    """Opens the run that the arguments name, with some settings changed.

    Raises:
        UserError: If there is none, or `--model` says another model than its own.
    """
    from dtmt_tf.runs import Run

    run = Run.open(run_folder(args), *places(args), overrides)
    _check_model(args, run.folder, run.experiment.model_name)
    return run


def _check_model(args: argparse.Namespace, folder: Path, own: str | None) -> None:
    """Raises a UserError if `--model`, beside `--name`, says another model than a run's own."""
    if None not in (args.name, args.model, own) and args.model != own:
        raise UserError(f"{folder} is a run of --model {own}, not of {args.model}.")


def _model_of(folder: Path) -> str | None:
    """Returns the model of a run, by what lies in its folder; None if nothing says it."""
    from dtmt_tf.translator.places import live_versions

    for place in (folder / "train", *live_versions(folder)[::-1]):
        with contextlib.suppress(OSError, UserError):
            return str(read_settings(place / "experiment.json")["settings"][MODEL_NAME])
    return None


def model_place(args: argparse.Namespace) -> Path:
    """Returns the folder of the run, exported version or pre-trained model that `--model` names."""
    if args.name is not None and os.sep in (args.model or ""):
        raise UserError(f"--model {args.model} and --name both name a model. Give one of them.")
    if args.model is None or args.name is not None:
        folder = run_folder(args)
        _check_model(args, folder, _model_of(folder))
        return folder
    return named_model(args.model, args, elsewhere=args.task is None)


def named_model(text: str, args: argparse.Namespace, elsewhere: bool = True) -> Path:
    """Returns the folder of what `named_run` finds, or else of a pre-trained model."""
    from dtmt_tf.translator.places import pretrained_instead

    return pretrained_instead(found := named_run(text, args, elsewhere), text) or found


def task_and_model(args: argparse.Namespace) -> tuple[Task, str]:
    """Returns the task and the name of the preset, from arguments, file or by default.

    Raises:
        UserError: If there is no such task.
    """
    from dtmt_tf.tasks import TASKS

    file = getattr(args, "config", None)
    asked = (TASK, args.task), (MODEL_NAME, args.model)
    given = {name: value for name, value in asked if value is not None}
    names = {TASK: DEFAULT_TASK, **(file.with_names(given) if file else given)}
    task = choose(names["task"], TASKS, "task", _place(args, TASK, args.task))
    return task, names.get("model_name", task.model)


def plain_name(name: str) -> str:
    """Returns the name of a run if it is one: a folder's own name, of printable characters.

    Raises:
        UserError: If it is empty, a path, hidden, or looks like an option.
    """
    plain = name and name == name.strip() and name.isprintable() and name[0] not in ".-"
    if not plain or {"/", "\\", os.sep} & set(name) or len(name.encode()) > LONGEST_NAME:
        raise UserError(
            f"A run's name is a plain name, such as base-2, at most {LONGEST_NAME} bytes long, "
            f"without slashes or a dot or dash before it. Received: {name!r}. --output-dir says "
            "where runs lie."
        )
    return name


def named_data_dir() -> Path | None:
    """Returns the folder of data that the environment names."""
    named = os.environ.get(DATA_DIR_VARIABLE)
    return Path(named) if named else None  # empty: not set


def data_dir(args: argparse.Namespace) -> Path | None:
    """Returns the data directory, if one is named.

    Raises:
        UserError: If it does not exist.
    """
    if args.data_dir is None:
        return None
    folder = Path(args.data_dir)
    if not folder.is_dir():
        raise UserError(f"--data-dir (or {DATA_DIR_VARIABLE}): {folder} is not a directory.")
    return folder


def places(args: argparse.Namespace) -> tuple[Path | None, Path]:
    """Returns the data directory, if one is named, and where downloads go; see `data_dir`."""
    return data_dir(args), cache_dir()


def experiment(args: argparse.Namespace) -> tuple[Experiment, dict[str, str]]:
    """Resolves task, model and `--set` into settings and their origins."""
    task, name = task_and_model(args)
    return resolve(task, name, preset(args, name), args.set, getattr(args, "config", None))


def preset(args: argparse.Namespace, name: str) -> ModelConfig:
    """Returns the settings of a preset by its name, which `task_and_model` found.

    Raises:
        UserError: If there is none.
    """
    from dtmt_tf.models import MODELS

    return choose(name, MODELS, "model", _place(args, MODEL_NAME, args.model))


def _place(args: argparse.Namespace, name: str, given: str | None) -> str:
    """Returns file and line where `--config` names a task or a model, if no option does."""
    file = getattr(args, "config", None)
    return file.places.get(name, "") if file and given is None else ""


def check_range(args: argparse.Namespace, name: str, least: float, most: float) -> None:
    """Raises a UserError if a number among the arguments is given and out of range, or NaN."""
    value = getattr(args, name)
    if value is not None and not least <= value <= most:
        raise UserError(
            f"--{name.replace('_', '-')} should be at least {least:,} and at most {most:,}. "
            f"Received: {value}."
        )


def choose(name: str, choices: Mapping[str, T], kind: str, place: str) -> T:
    """Returns what a name stands for.

    Args:
        name: The name.
        choices: What there is.
        kind: What it is one of, such as a task.
        place: File and line of the name; empty if it is from none.

    Raises:
        UserError: If it stands for nothing.
    """
    if name not in choices:
        near = hint(name, choices, f"Choose one of {', '.join(choices)}.")
        raise UserError(f"{f'{place}: u' if place else 'U'}nknown {kind} {name!r}. {near}")
    return choices[name]
