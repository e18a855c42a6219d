"""Compares settings, and lists what they mean."""

from __future__ import annotations

import argparse
import dataclasses
import types
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dtmt_tf import startup
from dtmt_tf.commands import common, options
from dtmt_tf.commands.parser import Parser
from dtmt_tf.experiment import KINDS, SECTIONS, to_dict
from dtmt_tf.settings import Section, about, as_lines, as_override, differences
from dtmt_tf.settings_file import read_settings_file

COLUMNS = "| setting | default | values | meaning |\n| --- | --- | --- | --- |"


def command(arguments: Sequence[str] | None = None) -> int:
    """Parses, compares."""
    parser = _parser()
    args = parser.parse_args(arguments)
    if len(args.places) != (2 if args.what == "diff" else 0):
        parser.error("diff takes two runs or files, table takes none")
    startup.start_tensorflow()  # without its lines; presets import it
    if args.what == "table":
        print(table())
        return 0
    first, second = (settings_of(common.find_run(place, args.output_dir)) for place in args.places)
    print(
        "\n".join(_names(first, second) + as_lines(differences(first, second))) or "no difference"
    )
    return 0


def _parser() -> Parser:
    parser = Parser(
        "dtmt config",
        "Compare the settings of two runs or files (diff), or list all settings with their "
        "defaults, values and meanings as Markdown (table).",
        "dtmt config diff saved_models/cldr_ende/a other.yaml",
        "dtmt config diff run.yaml saved_models/cldr_ende/a",
        "dtmt config table",
    )
    parser.add_argument("what", choices=("diff", "table"), help="what to do")
    parser.add_argument(
        "places",
        nargs="*",
        type=Path,
        metavar="PLACE",
        help="with diff: two runs, their folders or names, or files that --config reads",
    )
    options.add_output_dir(parser)
    parser.intermixed = True
    return parser


def settings_of(place: Path) -> dict[str, Any]:
    """Returns the settings that `--config` with a run or a file leads to.

    Raises:
        UserError: If there is neither.
    """
    file = read_settings_file(place, SECTIONS)
    named = argparse.Namespace(task=None, model=None, set=[], config=file)
    return to_dict(common.experiment(named)[0])


def _names(first: dict[str, Any], second: dict[str, Any]) -> list[str]:
    """Lists in what task and model differ."""
    names = ("task", "model_name")
    return [f"{n}: {first[n]} -> {second[n]}" for n in names if first[n] != second[n]]


def table() -> str:
    """Returns SETTINGS.md."""
    from dtmt_tf.models import MODELS

    presets: dict[type[Section], list[str]] = {}
    for name, config in MODELS.items():
        presets.setdefault(type(config), []).append(name)
    lines = [
        "# Settings",
        "",
        "`--set section.name=value` changes a setting. `--config run.yaml` reads any of them from",
        "a file; `dtmt train --show-config` prints such a file with all values. `--config` with a",
        "run's folder trains with all of that run's. A task and a preset override some of the",
        "defaults below.",
        "",
        "This page is the output of `dtmt config table`. `dtmt config diff` compares two runs.",
    ]
    for section, kind in KINDS.items():
        lines += ["", f"## {section}", *_rows(kind)]
    for kind, names in presets.items():
        family = kind.__name__.removesuffix("Config")
        lines += ["", f"## model: {family}", f"Presets: {', '.join(f'`{n}`' for n in names)}."]
        lines += _rows(kind)
    return "\n".join(lines)


def _rows(kind: type[Section]) -> list[str]:
    """Returns the table of one section."""
    types_of = typing.get_type_hints(kind)
    rows = ["", COLUMNS]
    for item in dataclasses.fields(kind):
        known = about(item)
        values = known.allowed or _values(types_of[item.name])
        if isinstance(types_of[item.name], types.UnionType):
            values = f"none, or {values}"
        default = f"`{as_override(item.default)}`" if item.default not in ("", ()) else ""
        cells = f"`{kind.section}.{item.name}`", default, values, known.meaning
        rows.append(
            "| "
            + " | ".join(cell.replace("|", r"\|").replace("<", "&lt;") for cell in cells)
            + " |"
        )
    return rows


def _values(kind: Any) -> str:
    """Returns what may be written for a type."""
    return {bool: "true or false", str: "text"}.get(kind, "names, divided by commas")
