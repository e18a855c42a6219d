"""Training on the user's own text: files and languages as options, everything else sized."""

from __future__ import annotations

import argparse
import dataclasses
import operator
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dtmt_tf import startup
from dtmt_tf.commands import common
from dtmt_tf.config import DataConfig, Task
from dtmt_tf.errors import UserError
from dtmt_tf.experiment import (
    Change,
    Experiment,
    from_dict,
    read_settings,
    resolve,
    turned,
)
from dtmt_tf.machine import multiplies_bfloat16
from dtmt_tf.settings import is_built_in
from dtmt_tf.settings_file import MODEL_NAME
from dtmt_tf.sizing import RULES, SIZED, Sized, preset, size
from dtmt_tf.terminal import columns

TASK = "custom"
SPLITS = {"train": "train", "dev": "validation", "test": "test"}  # option and what settings say
SIDES = {"from_language": "source", "to_language": "target"}


def add_own_text(parser: argparse.ArgumentParser) -> None:
    """Adds the options that name files and languages to a parser."""
    group = parser.add_argument_group(
        "your own text",
        "--train, --from and --to are enough: they imply --task custom, and the settings are sized "
        "from the text. --set changes any of them; --show-config prints each with its reason.",
    )
    what = {
        "train": "sentences and their translations, line by line; plain, .gz or .xz; give it again "
        "for more files",
        "dev": "the same for validation; without it, a tenth of the training pairs, at most 1,000, "
        "is kept back: every n-th, the same ones every time",
        "test": "the same for the scores at the end",
    }
    for name, text in what.items():
        group.add_argument(
            f"--{name}", nargs=2, action="append", metavar=("SOURCE", "TARGET"), help=text
        )
    for name, side in SIDES.items():
        group.add_argument(
            _flag(name),
            dest=name,
            metavar="CODE",
            help=f"language of the {side}, such as en or pt-BR",
        )


def is_named(args: argparse.Namespace) -> bool:
    """Whether the arguments name the user's own training text; then the task is `custom`.

    Raises:
        UserError: If they name it in part, or for another task.
    """
    given = [f"--{name}" for name in SPLITS if getattr(args, name)]
    given += [_flag(name) for name in SIDES if getattr(args, name) is not None]
    if not given:
        return False
    if not args.train:
        raise UserError(f"{given[0]} goes with --train SOURCE TARGET.")
    in_file = args.config.names.get("task") if args.config else None
    for place, task in ("--task", args.task), ("--config", in_file):
        if task not in (None, TASK) and not (place == "--config" and args.task):
            raise UserError(
                f"--train is for text of your own, --task {TASK}; {place} names {task!r}, which "
                "has text of its own. Leave out one of them."
            )
    args.task = TASK
    return True


def _options(args: argparse.Namespace) -> list[Change]:
    """Returns what the options set."""
    changes: list[Change] = []
    for name, split in SPLITS.items():
        if files := getattr(args, name):
            for side, paths in zip(("source", "target"), zip(*files, strict=True), strict=True):
                changes.append((f"data.{split}_{side}", tuple(paths), f"--{name}"))
    for name, side in SIDES.items():
        if (code := getattr(args, name)) is not None:
            changes.append((f"data.{side}_language", code, _flag(name)))
    return changes


def experiment(args: argparse.Namespace) -> tuple[Experiment, dict[str, str]]:
    """Returns the settings for the text that the arguments name, sized, and their origins.

    A run that has begun keeps the sizes it began with, whatever became of the text; training then
    refuses another text. `--restart` sizes anew. Without `--name` a run is named by its languages.

    Raises:
        UserError: If a language is missing, or files of a new run are named after each other's; or
            see `text_facts`, `sizing.size` and `resolve`.
    """
    plain, origins = unsized(args)
    task, name = common.task_and_model(args)
    sizes = _kept(common.run_folder(args)) if not args.restart else None
    if sizes is None:
        from dtmt_tf.data.own_files import check_names

        check_names(_as_given(plain, origins)[0])
        sizes = _sized(args, task, plain, origins)
    about_model = {}
    if sizes.model and not _names_model(args):
        name, about_model[MODEL_NAME] = sizes.model
    changes = sizes.changes
    if _names_model(args):  # those of a begun run may be of another kind of model
        changes = [change for change in changes if not change[0].startswith("model.")]
    sized, origins = _resolved(args, task, name, changes)
    return sized, {**origins, **about_model}


def check_same(args: argparse.Namespace, experiment: Experiment) -> None:
    """Refuses to go on with a run that was begun with `--dev` without it.

    Args:
        args: Of the command, which goes on with the run or begins it.
        experiment: What they come to.

    Raises:
        UserError: If so.
    """
    sizes = None if args.restart else _kept(common.run_folder(args))
    if sizes and sizes.dev and not experiment.data.validation_source:
        raise UserError(
            f"{common.run_folder(args)} was begun with {sizes.dev}. Give that again, or start over "
            "with --restart."
        )


def unsized(args: argparse.Namespace) -> tuple[Experiment, dict[str, str]]:
    """Returns what `experiment` does, with the task's values in place of sizes.

    Raises:
        UserError: If a language is missing; or see `resolve`.
    """
    task, name = common.task_and_model(args)
    try:
        plain, origins = _resolved(args, task, name)
    except UserError:  # the schedule `peak`, given by name, does not fit what is yet to be sized
        plain, origins = _resolved(args, task, name, then=["training.schedule=dtmt"])
        origins["training.schedule"] = "default"
    data, _ = _as_given(plain, origins)
    for option, side in SIDES.items():
        if not getattr(data, f"{side}_language"):
            raise UserError(
                f"{_flag(option)} is missing: the language of "
                f"{getattr(data, f'train_{side}')[0]}, such as --from en --to de."
            )
    if args.name is None:
        args.name = f"{data.source_language}-{data.target_language}"
    return plain, origins


def as_words(args: argparse.Namespace) -> list[str]:
    """Returns the options that name files and languages, as they would be typed."""
    files = [
        word
        for name in SPLITS
        for pair in getattr(args, name) or []
        for word in (f"--{name}", *pair)
    ]
    return [
        *files,
        *(
            word
            for name in SIDES
            if (code := getattr(args, name)) is not None
            for word in (_flag(name), code)
        ),
    ]


class _Sizes(NamedTuple):
    """The preset, if it is sized, with its origin; what is sized besides; a begun run's --dev."""

    model: Sized | None
    changes: list[Change]
    dev: str = ""


def _sized(
    args: argparse.Namespace, task: Task, plain: Experiment, origins: Mapping[str, str]
) -> _Sizes:
    """Returns sizes for the text as it is."""
    from dtmt_tf.data.text_facts import text_facts

    places = common.places(args)
    replicas = startup.replicas(args.devices, startup.is_multiworker(args.strategy))
    facts = text_facts(plain.data, task, *places, multiplies_bfloat16(), replicas)
    _, as_given = _as_given(plain, origins)
    given = frozenset(key for key, origin in as_given.items() if not is_built_in(origin))
    sized = size(facts, {key: _value(plain, key) for key in origins}, given)
    sized |= {MODEL_NAME: preset(facts), **_of_other(args, plain, origins)}
    model = sized.pop(MODEL_NAME)
    return _Sizes(
        Sized(model.value, SIZED + model.reason),
        [(key, found.value, SIZED + found.reason) for key, found in sized.items()],
    )


def _names_model(args: argparse.Namespace) -> bool:
    """Whether the arguments, or a file of settings, name a preset."""
    return args.model is not None or bool(args.config and MODEL_NAME in args.config.names)


def _of_other(
    args: argparse.Namespace, plain: Experiment, origins: Mapping[str, str]
) -> dict[str, Sized]:
    """Returns the settings that `--init-from` dictates, so that weights and sub-words fit.

    They are the preset, the number of sub-words, and how text is cut, where that differs from the
    unsized settings or would be sized. Unless a preset is named, also the other run's changed model
    settings.
    """
    from dtmt_tf.models import MODELS
    from dtmt_tf.training.changes import CUTTING, SIZES

    if not args.init_from:
        return {}
    path = common.named_run(args.init_from, args) / "train" / "experiment.json"
    if not path.exists():
        return {}  # which is told when it is opened
    settings = read_settings(path)["settings"]
    found = {MODEL_NAME: settings["model_name"]}
    if named := MODELS.get(settings["model_name"]):
        other = from_dict(settings, type(named))
        data = dataclasses.replace(other.data, reverse=plain.data.reverse)
        given, _ = _as_given(dataclasses.replace(other, data=data), origins)
        found |= {f"data.{name}": getattr(given, name) for name in SIZES}
        pairs: list[tuple[str, str, Any, Any]]
        pairs = [("data", name, other.data, plain.data) for name in CUTTING]
        if not _names_model(args):
            fields = dataclasses.fields(named)
            pairs += [("model", field.name, other.model, named) for field in fields]
        for section, name, theirs, ours in pairs:
            key = f"{section}.{name}"
            if getattr(theirs, name) != getattr(ours, name) or key in RULES:
                found[key] = getattr(theirs, name)
    reason = f"that of --init-from {args.init_from}"
    return {name: Sized(value, reason) for name, value in found.items()}


def _kept(folder: Path) -> _Sizes | None:
    """Returns the sizes of a run that has begun; none if there is no such run."""
    from dtmt_tf.models import MODELS
    from dtmt_tf.runs.former import ASIDE, CHECKPOINTS

    begun = [
        folder / place / "experiment.json"  # as `train` leaves it, or a `--restart` that was killed
        for place in ("train", ASIDE)
        if any((folder / place).glob(CHECKPOINTS))
    ]
    if not (begun and begun[0].exists()):
        return None
    try:
        record = read_settings(begun[0])
    except UserError:  # damaged; it is written anew
        return None
    name = record["settings"]["model_name"]
    if name not in MODELS:
        return None
    saved, origins = turned(from_dict(record["settings"], type(MODELS[name])), record["origins"])
    sized = {
        key: origin if origin.startswith(SIZED) else f"{SIZED}what this run was set to"
        for key, origin in origins.items()
        if origin.startswith(SIZED)
        or (key in RULES and key.startswith("training.") and not is_built_in(origin))
    }
    origin = sized.pop(MODEL_NAME, None)
    files = zip(saved.data.validation_source, saved.data.validation_target, strict=False)
    dev = [f"--dev {source} {target}" for source, target in files]
    return _Sizes(
        Sized(name, origin) if origin else None,
        [(key, _value(saved, key), origin) for key, origin in sized.items()],
        " ".join(dev) if origins.get("data.validation_source") == "--dev" else "",
    )


def table(experiment: Experiment, origins: Mapping[str, str]) -> str:
    """Returns what is sized, a line each: setting, value, reason."""
    sized = {key: origin for key, origin in origins.items() if origin.startswith(SIZED)}
    found = {key: _value(experiment, key) for key in sized}
    values = {k: ",".join(v) if isinstance(v, tuple) else str(v) for k, v in found.items()}
    wrap = textwrap.TextWrapper(columns(), initial_indent="  ", subsequent_indent=" " * 6)
    return "\n".join(
        wrap.fill(f"{key}={values[key]}  {origin.removeprefix(SIZED)}")
        for key, origin in sized.items()
    )


def _value(experiment: Experiment, key: str) -> Any:
    """Returns the value of a setting, or the name of the preset."""
    return operator.attrgetter(key)(experiment)


def _flag(name: str) -> str:
    """Returns the option that an argument is given by."""
    return f"--{name.partition('_')[0]}"


def _resolved(
    args: argparse.Namespace,
    task: Task,
    name: str,
    sized: Sequence[Change] = (),
    then: Sequence[str] = (),
) -> tuple[Experiment, dict[str, str]]:
    preset_of_name, overrides = common.preset(args, name), [*args.set, *then]
    return resolve(task, name, preset_of_name, overrides, args.config, sized, _options(args))


def _as_given(
    experiment: Experiment, origins: Mapping[str, str]
) -> tuple[DataConfig, dict[str, str]]:
    """Returns the data's settings and all origins as they were given, `data.reverse` or not."""
    found, origins = turned(experiment, origins)
    return found.data, origins
