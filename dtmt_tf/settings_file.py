"""Files of settings in YAML, or those of a run, read as texts with their lines."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from dtmt_tf.errors import UserError, hint
from dtmt_tf.settings import other_side

TASK, MODEL_NAME, MODEL = "task", "model_name", "model"
NAMES = TASK, MODEL_NAME


@dataclass(frozen=True)
class Entry:
    """One setting of a file.

    Args:
        key: Such as `model.units`, not yet known to exist.
        value: As it is written, or several texts.
        place: File and line.
    """

    key: str
    value: str | tuple[str, ...]
    place: str


@dataclass(frozen=True)
class SettingsFile:
    """What a file sets.

    Args:
        path: The file.
        names: Of the task and of the preset, as far as it names them.
        entries: Its settings.
        places: File and line of each name.
        of_run: Whether it has all settings of a run; one of an earlier version lacks later ones.
        began: The run whose weights that run began with, if there is one.
    """

    path: Path
    names: dict[str, str]
    entries: tuple[Entry, ...]
    places: dict[str, str]
    of_run: bool = False
    began: str = ""

    @property
    def origin(self) -> str:
        """How settings name where they come from."""
        folder = self.path.resolve().parent
        if self.of_run and folder.name == "train":
            return f"run {folder.parent.name}"
        return self.path.name

    def with_names(self, given: Mapping[str, str]) -> dict[str, str]:
        """Returns its names with those that are given over them.

        Raises:
            UserError: If it has a run's settings, which are of its own task and preset.
        """
        for name, value in given.items():
            if self.of_run and value != self.names.get(name):
                raise UserError(
                    f"--config has all settings of {self.origin}, whose {name} is "
                    f"{self.names.get(name)}, not {value}. Leave out {value}; or keep what you "
                    "want of --show-config in a YAML file, and give that."
                )
        return {**self.names, **given}


def read_settings_file(path: Path, sections: Sequence[str]) -> SettingsFile:
    """Reads a file such as `dtmt train --show-config` prints, or any part of one.

    A setting stands below its section or has its whole name, as in `model.units: 512`. Values are
    left as they are written: their settings know how to read them. A run's `experiment.json` has
    them below `settings`; where that run was reversed, source and target change sides once more.

    Args:
        path: A file of YAML, which JSON is, too; or the folder of a run.
        sections: Names of all sections.

    Raises:
        UserError: If it can not be read, or holds anything else, or anything twice.
    """
    if path.is_dir():
        path = path / "train" / "experiment.json"
        if not path.exists():
            raise UserError(f"{path.parents[1]} is neither a file of settings nor a run's folder.")
    try:
        text = path.read_bytes()
        if path.suffix == ".json":  # a tab there is a blank, and YAML refuses to indent by it
            text = text.replace(b"\t", b" ")
        root = yaml.compose(text, Loader=yaml.BaseLoader)
    except OSError as error:
        hint_of_run = "" if path.suffix else " To name a run, give its folder."
        raise UserError(f"Cannot read {path}: {error.strerror}.{hint_of_run}") from error
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # also of escapes: \UFFFFFFFF
        what = "damaged" if path.suffix == ".json" else "no YAML"
        raise UserError(f"{path} is {what}: {_one_line(error)}") from error
    except RecursionError as error:
        raise UserError(f"{path} is no file of settings: it is nested too deeply.") from error
    of_run = _below(root, "settings")  # a run's `experiment.json` has them there
    names: dict[str, str] = {}
    places: dict[str, str] = {}
    entries: dict[str, Entry] = {}
    for name, value, place in _items(of_run or root, f"{path}:1"):
        if name in NAMES:
            if not isinstance(value, yaml.ScalarNode) or not value.value:
                raise UserError(f"{place}: {name} should be a name.")
            if name in names:
                raise UserError(f"{place}: {name} is named twice.")
            names[name], places[name] = value.value, place
        elif name == MODEL and isinstance(value, yaml.ScalarNode) and value.value:
            raise UserError(
                f"{place}: `name: value` should stand here. A preset's name stands behind "
                f"{MODEL_NAME}, as in `{MODEL_NAME}: {value.value}`."
            )
        elif name in sections:
            for setting, inner, inner_place in _items(value, place):
                _add(entries, f"{name}.{setting}", inner, inner_place)
        elif "." in name:
            _add(entries, name, value, place)
        else:
            near = hint(name, [*NAMES, *sections], f"There are {', '.join(sections)}.")
            raise UserError(f"{place}: unknown section {name!r}. {near}")
    found = _turned(entries) if of_run else entries.values()
    began = _below(_below(root, "init_from"), "run", yaml.ScalarNode) if of_run else None
    is_run = of_run is not None
    return SettingsFile(path, names, tuple(found), places, is_run, began.value if began else "")


def _below(
    root: yaml.Node | None, name: str, kind: type[yaml.Node] = yaml.MappingNode
) -> yaml.Node | None:
    """Returns what a mapping has under a name, if it is of a kind."""
    for key, value in root.value if isinstance(root, yaml.MappingNode) else ():
        if key.value == name and isinstance(value, kind):
            return value
    return None


def _turned(entries: Mapping[str, Entry]) -> list[Entry]:
    """Returns the settings of a run as they were given before `data.reverse`."""
    reverse, joint = (
        name in entries and entries[name].value == "true"
        for name in ("data.reverse", "data.joint_vocabulary")
    )
    found = []
    for entry in entries.values():
        section, _, name = entry.key.partition(".")
        if reverse and section == "data":
            entry = dataclasses.replace(entry, key=f"data.{other_side(name, joint)}")
        found.append(entry)
    return found


def _add(entries: dict[str, Entry], key: str, node: yaml.Node, place: str) -> None:
    if key in entries:
        raise UserError(f"{place}: {key} is set twice.")
    entries[key] = Entry(key, _texts(node, place), place)


def _items(node: yaml.Node | None, place: str) -> Iterator[tuple[str, yaml.Node, str]]:
    """Yields names and values of a mapping with their places; an empty one has none."""
    if node is None or (isinstance(node, yaml.ScalarNode) and not node.value):
        return
    file = place.rpartition(":")[0]
    if not isinstance(node, yaml.MappingNode):
        raise UserError(f"{file}:{_line(node)}: `name: value` should stand here.")
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise UserError(f"{file}:{_line(key)}: a name should stand here.")
        yield key.value, value, f"{file}:{_line(key)}"


def _texts(node: yaml.Node, place: str) -> str | tuple[str, ...]:
    """Returns a scalar's text, or those of a list."""
    if isinstance(node, yaml.ScalarNode):
        return str(node.value)
    if isinstance(node, yaml.SequenceNode):
        items = node.value
        if all(isinstance(item, yaml.ScalarNode) for item in items):
            return tuple(item.value for item in items)
    raise UserError(f"{place}: a value or a list of them should stand here.")


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _one_line(error: Exception) -> str:
    """Returns what is wrong and where, without the excerpt that YAML shows."""
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).partition("\n")[0]
    return f"{problem} in line {mark.line + 1}." if mark else f"{problem}."


def as_yaml(value: Any) -> str:
    """Returns a setting's value as YAML in one line; a list has brackets."""
    text: str = yaml.safe_dump(value, default_flow_style=True, width=10_000, allow_unicode=True)
    return text.removesuffix("...\n").strip()
