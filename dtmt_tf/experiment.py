"""An experiment: a task's and a preset's settings put together, changed, saved and shown."""

from __future__ import annotations

import dataclasses
import json
import textwrap
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dtmt_tf.config import (
    DataConfig,
    DecodingConfig,
    EvaluationConfig,
    ExportConfig,
    ModelConfig,
    Task,
    TrainingConfig,
)
from dtmt_tf.errors import DAMAGED, UserError, hint
from dtmt_tf.languages import check_language
from dtmt_tf.settings import about, as_override, other_side
from dtmt_tf.settings_file import MODEL_NAME, TASK, SettingsFile, as_yaml


@dataclass(frozen=True)
class Experiment:
    """All settings of one run."""

    task: str
    model_name: str
    model: ModelConfig
    data: DataConfig
    training: TrainingConfig
    decoding: DecodingConfig
    export: ExportConfig
    evaluation: EvaluationConfig


KINDS: dict[str, Any] = {
    "data": DataConfig,
    "training": TrainingConfig,
    "decoding": DecodingConfig,
    "export": ExportConfig,
    "evaluation": EvaluationConfig,
}
SECTIONS = ("model", *KINDS)
LATER = ("export",)  # sections that runs of version 0.1 do not have
NOTHING = ("none", "null", "~")
Change = tuple[str, Any, str]  # a setting, its value and where that comes from


def resolve(
    task: Task,
    model_name: str,
    model: ModelConfig,
    overrides: Iterable[str] = (),
    file: SettingsFile | None = None,
    sized: Iterable[Change] = (),
    options: Iterable[Change] = (),
) -> tuple[Experiment, dict[str, str]]:
    """Puts an experiment together.

    With `data.reverse`, source and target are exchanged last, so that what comes out, is saved and
    goes with an exported model states the direction in which it translates.

    Args:
        task: The task.
        model_name: Name of the preset.
        model: The preset's settings.
        overrides: `section.name=value` texts, applied in order.
        file: What a file sets; overrides come after it.
        sized: What the text's size sets; all others come after it.
        options: What other options set, between the file and the overrides.

    Returns:
        The experiment, and for each setting where its value comes from.

    Raises:
        UserError: See `with_overrides`; or if a language is unknown.
    """
    sections: dict[str, Any] = {name: getattr(task, name) for name in SECTIONS[1:]}
    sections["model"] = model
    if file and file.of_run:  # what it lacks is what the code did then
        sections = {name: type(section)() for name, section in sections.items()}
    owners = dict.fromkeys(SECTIONS[1:], f"task {task.name}") | {"model": f"model {model_name}"}
    origins = {
        f"{name}.{item.name}": owners[name]
        if getattr(section, item.name) != item.default
        else "default"
        for name, section in sections.items()
        for item in dataclasses.fields(section)
    }
    experiment = Experiment(task=task.name, model_name=model_name, **sections)
    changes = [*sized, *(_read_entries(file, sections) if file else []), *options]
    changes += _read_overrides(overrides, sections)
    experiment, origins = _changed(experiment, origins, changes)
    if experiment.data.corpus != "tfds":  # its data sets call languages as they like
        check_language("data.source_language", experiment.data.source_language)
        check_language("data.target_language", experiment.data.target_language)
    return turned(experiment, origins)


def turned(experiment: Experiment, origins: Mapping[str, str]) -> tuple[Experiment, dict[str, str]]:
    """Exchanges what the settings say of source and target, if they have `data.reverse`."""
    data = experiment.data
    if not data.reverse:
        return experiment, dict(origins)
    pairs = [
        (item.name, other_side(item.name, data.joint_vocabulary))
        for item in dataclasses.fields(data)
    ]
    other = {name: opposite for name, opposite in pairs if name != opposite}
    values: dict[str, Any] = {name: getattr(data, other[name]) for name in other}
    moved = {f"data.{name}": origins[f"data.{other[name]}"] for name in other}
    data = dataclasses.replace(data, **values)
    return dataclasses.replace(experiment, data=data), {**origins, **moved}


def with_overrides(
    experiment: Experiment, origins: Mapping[str, str], overrides: Iterable[str]
) -> tuple[Experiment, dict[str, str]]:
    """Changes settings.

    Args:
        experiment: The settings so far.
        origins: Where each comes from.
        overrides: `section.name=value` texts, applied in order.

    Returns:
        The new experiment and origins.

    Raises:
        UserError: If an override is malformed, unknown or out of range, or settings do not go
            together, such as a model that needs a joint vocabulary and data that has none.
    """
    sections = {name: getattr(experiment, name) for name in SECTIONS}
    return _changed(experiment, origins, _read_overrides(overrides, sections))


def _read_overrides(overrides: Iterable[str], sections: Mapping[str, Any]) -> list[Change]:
    return [(*parse_override(override, sections), "--set") for override in overrides]


def _read_entries(file: SettingsFile, sections: Mapping[str, Any]) -> list[Change]:
    changes = []
    for entry in file.entries:
        try:
            value = _parse_value(entry.key, entry.value, _kind(entry.key, sections))
        except UserError as error:
            raise UserError(f"{entry.place}: {error}") from None
        changes.append((entry.key, value, file.origin))
    return changes


def _changed(
    experiment: Experiment, origins: Mapping[str, str], changes: Iterable[Change]
) -> tuple[Experiment, dict[str, str]]:
    """Returns an experiment with changes, later ones over earlier ones, and the new origins."""
    sections = {name: getattr(experiment, name) for name in SECTIONS}
    origins = dict(origins)
    values: dict[str, dict[str, Any]] = {}
    for key, value, origin in changes:
        section_name, _, name = key.partition(".")
        values.setdefault(section_name, {})[name] = value
        origins[key] = origin
    for section_name, changed in values.items():
        sections[section_name] = dataclasses.replace(sections[section_name], **changed)
    if sections["model"].needs_joint_vocabulary and not sections["data"].joint_vocabulary:
        raise UserError(
            f"One table for both languages (model.tied_embeddings, model {experiment.model_name}) "
            "needs data.joint_vocabulary=true; or set model.tied_embeddings=target."
        )
    data = sections["data"]
    if data.held_out and data.corpus != "files" and not data.train_source:
        raise UserError(
            "`data.held_out` keeps back pairs of files that data.train_source names; "
            f"data.corpus={data.corpus} has validation pairs of its own."
        )
    if sections["data"].vocabulary_kind == "word" and sections["training"].subword_dropout_rate:
        raise UserError("`training.subword_dropout_rate` needs `data.vocabulary_kind=bpe`.")
    if sections["decoding"].replace_unknown and sections["data"].byte_fallback:
        raise UserError(
            "`decoding.replace_unknown` replaces <unk>, which a vocabulary with "
            "`data.byte_fallback` never writes. Leave one of them out."
        )
    if sections["decoding"].dictionary and not sections["decoding"].replace_unknown:
        raise UserError("`decoding.dictionary` is read with `decoding.replace_unknown=true` alone.")
    return dataclasses.replace(experiment, **sections), origins


def parse_override(text: str, sections: Mapping[str, Any]) -> tuple[str, Any]:
    """Reads one `section.name=value` by the type of the setting it names."""
    key, equals, value = text.partition("=")
    if not equals:
        raise UserError(f"--set takes section.name=value. Received: {text!r}.")
    return key, _parse_value(key, value, _kind(key, sections))


def _keys(section: Any) -> list[str]:
    return [f"{section.section}.{item.name}" for item in dataclasses.fields(section)]


def _architectures(config: Any = ModelConfig) -> Iterator[type[ModelConfig]]:
    """Yields the settings of all architectures that are imported."""
    for each in config.__subclasses__():
        yield each
        yield from _architectures(each)


def _kind(key: str, sections: Mapping[str, Any]) -> Any:
    """Returns the type of a setting.

    Raises:
        UserError: If there is no such setting.
    """
    known = [name for section in sections.values() for name in _keys(section)]
    if key not in known:
        if names := [each.__name__ for each in _architectures() if key in _keys(each)]:
            of = " and ".join(name.removesuffix("Config") for name in names)
            raise UserError(
                f"{key} is a setting of {of}, not of this model. --model names another."
            )
        near = hint(key, known, "--show-config lists them all.")
        raise UserError(f"Unknown setting {key!r}. {near}")
    section_name, _, name = key.partition(".")
    return typing.get_type_hints(type(sections[section_name]))[name]


def _parse_value(key: str, value: str | tuple[str, ...], kind: Any) -> Any:
    """Returns a value by the type of its setting; several texts are for one that is a list."""
    if typing.get_origin(kind) is tuple:  # of texts, divided by commas
        texts = value.split(",") if isinstance(value, str) else value
        return () if value in NOTHING else tuple(text for text in texts if text)
    if not isinstance(value, str):
        raise UserError(f"`{key}` should be one value. Received: {', '.join(value)}.")
    if isinstance(kind, types.UnionType):  # such as `int | None`
        if value.lower() in NOTHING:
            return None
        kind = next(option for option in typing.get_args(kind) if option is not type(None))
    try:
        if kind is bool:
            return {"true": True, "1": True, "false": False, "0": False}[value.lower()]
        if kind is int:
            return int(value.replace("_", ""))
        return kind(value)
    except (KeyError, ValueError):
        raise UserError(
            f"`{key}` should be of type {kind.__name__}. Received: {value!r}."
        ) from None


def to_dict(experiment: Experiment) -> dict[str, Any]:
    """Returns the experiment as the plain values that JSON would give back."""
    values: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(experiment)))
    return values


def defaults(model_class: type[ModelConfig]) -> dict[str, Any]:
    """Returns every setting's default, as `to_dict` writes settings.

    They stand for settings that a run of an earlier version did not have: a new setting's default
    is what the code did before.
    """
    kinds = {**KINDS, "model": model_class}
    values = {name: dataclasses.asdict(kind()) for name, kind in kinds.items()}
    return dict(json.loads(json.dumps(values)))


def read_settings(path: Path) -> dict[str, Any]:
    """Returns what a run's `experiment.json` holds: `settings`, `origins` and more.

    Raises:
        UserError: If it is damaged.
    """
    try:
        saved: dict[str, Any] = json.loads(path.read_text("utf-8"))
        if type(saved["settings"]["model_name"]) is not str or type(saved["origins"]) is not dict:
            raise TypeError("model_name should be a text, and origins an object")
    except DAMAGED as error:
        raise UserError(
            f"{path} is damaged ({type(error).__name__}: {error}). The command that made the run "
            "writes it anew when it goes on."
        ) from error
    return saved


def from_dict(values: Mapping[str, Any], model_class: type[ModelConfig]) -> Experiment:
    """Rebuilds what `to_dict` took apart; settings that are missing have their defaults.

    Raises:
        UserError: If a setting is unknown, as in a file of a later version.
    """
    values = {**{name: {} for name in LATER}, **values}
    try:
        sections: dict[str, Any] = {
            name: kind(**{key: _frozen(value) for key, value in values[name].items()})
            for name, kind in {**KINDS, "model": model_class}.items()
        }
        return Experiment(task=values["task"], model_name=values["model_name"], **sections)
    except (KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f"The saved settings do not fit this version: {error}. Use the version of "
            "dtmt_tf that trained the run."
        ) from error


def _frozen(value: Any) -> Any:
    """Returns lists, which JSON makes of tuples, as tuples."""
    return tuple(value) if isinstance(value, list) else value


def show(experiment: Experiment, origins: Mapping[str, str]) -> str:
    """Returns all settings as a file that `--config` reads: meaning, value, origin.

    With `data.reverse`, source and target stand as they were given, or they would be exchanged
    once more.
    """
    experiment, origins = turned(experiment, origins)
    named = f"  # {origins[MODEL_NAME]}" if MODEL_NAME in origins else ""
    lines = [
        "# All settings; --config reads this again, or any part of it. Behind each value",
        "# stands where it comes from.",
        f"{TASK}: {as_yaml(experiment.task)}",
        f"{MODEL_NAME}: {as_yaml(experiment.model_name)}{named}",
    ]
    for name in SECTIONS:
        section = getattr(experiment, name)
        lines += ["", f"{name}:"]
        for item in dataclasses.fields(section):
            if meaning := about(item).meaning:
                lines.append(f"  # {meaning}")
            lines += _entry(item.name, getattr(section, item.name), origins[f"{name}.{item.name}"])
    return "\n".join(lines)


def presets(models: Mapping[str, ModelConfig]) -> str:
    """Returns presets by architecture, each with the settings that are not its defaults."""
    blocks = []
    for kind in dict.fromkeys(map(type, models.values())):
        usual = dataclasses.asdict(kind())
        head = (kind.__doc__ or kind.__name__).partition("\n")[0].removeprefix("Settings of ")
        lines = [head[:1].upper() + head[1:]]
        own = {name: model for name, model in models.items() if type(model) is kind}
        width = max(map(len, own))
        for name, model in own.items():
            changed = {k: v for k, v in dataclasses.asdict(model).items() if v != usual[k]}
            text = " ".join(f"{key}={as_override(value)}" for key, value in changed.items())
            lines += textwrap.wrap(
                text or "the defaults",
                width=79,
                initial_indent=f"  {name:<{width}}  ",
                subsequent_indent=" " * (width + 4),
            )
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def _entry(name: str, value: Any, origin: str) -> list[str]:
    """Returns the lines of a setting: one, or of several files one each."""
    if isinstance(value, tuple) and len(value) > 1:
        return [f"  {name}:  # {origin}", *(f"    - {as_yaml(item)}" for item in value)]
    text = as_yaml(list(value) if isinstance(value, tuple) else value)
    return [f"  {name}: {text}  # {origin}"]
