"""Options that several commands have."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

from dtmt_tf import caller
from dtmt_tf.commands.common import DATA_DIR_VARIABLE, DEFAULT_TASK, named_data_dir
from dtmt_tf.commands.parser import Once, Parser
from dtmt_tf.experiment import KINDS, SECTIONS
from dtmt_tf.settings_file import read_settings_file

OF_TASK = "a preset of dtmt train --list-models (default: the task's)"
OF_PRESET = "a preset; it also names the run, unless --name does (default: the task's)"
OF_MODEL = "the preset's name"
OF_OWN_TEXT = f"{OF_MODEL}; with --train, the languages, such as en-de"


def run_parser(
    command: str,
    description: str,
    *examples: str,
    model: str = OF_TASK,
    named: str | None = None,
    unnamed: str = OF_MODEL,
) -> Parser:
    """Returns a parser with the arguments that name a run.

    Args:
        command: How the command is called.
        description: What it does.
        examples: Command lines.
        model: What `--model` takes.
        named: Default of `--name`.
        unnamed: What the help says that a run is named after, without such a default.
    """
    result = Parser(command, description, *examples)
    group = result.add_argument_group("which run")
    add_task(group, model)
    name = group.add_argument(
        "--name", default=named, help=f"name of the run (default: {named or unnamed})"
    )
    _complete(name, _names_of_runs)
    add_folders(group)
    return result


def add_task(group: argparse._ActionsContainer, model: str = OF_TASK) -> None:
    """Adds a task and a preset to a parser."""
    add_task_alone(group, DEFAULT_TASK)
    group.add_argument("--model", metavar="NAME", help=model)


def add_task_alone(group: argparse._ActionsContainer, default: str) -> None:
    """Adds a task to a parser; `default` is what no task stands for."""
    from dtmt_tf.tasks import TASKS

    names = ", ".join(TASKS)
    task = group.add_argument("--task", metavar="NAME", help=f"one of {names} (default: {default})")
    _complete(task, lambda **_: list(TASKS))


def add_folders(group: argparse._ActionsContainer) -> None:
    """Adds the folders of runs and of data to a parser."""
    add_output_dir(group)
    add_data_dir(group)


def add_output_dir(group: argparse._ActionsContainer) -> None:
    """Adds the folder of runs to a parser."""
    group.add_argument(
        "--output-dir",
        type=Path,
        default=caller.runs_folder(),
        metavar="DIR",
        help="runs lie at DIR/<task>/<name> (default: saved_models)",
    )


def add_data_dir(group: argparse._ActionsContainer) -> None:
    """Adds the folder of data to a parser."""
    group.add_argument(
        "--data-dir",
        type=Path,
        metavar="DIR",
        default=named_data_dir(),
        help="where your corpora lie; missing public ones are downloaded to ~/.cache/dtmt_tf "
        f"(default: the environment variable {DATA_DIR_VARIABLE})",
    )


def add_run(parser: Parser) -> None:
    """Adds a run that is named by its folder, in place of `--task` and `--name`, to a parser."""
    parser.add_argument(
        "run",
        nargs="?",
        type=Path,
        metavar="RUN",
        help="a run's folder, or its name if only one task has it (default: the run of --task and "
        "--name)",
    )


def add_set(
    group: argparse._ActionsContainer,
    text: str = "change settings; dtmt train --show-config lists them",
    flag: str = "--set",
) -> None:
    """Adds `--set`, or an option like it for some of the trainings, to a parser."""
    option = group.add_argument(
        flag,
        nargs="+",
        default=[],
        metavar="NAME=VALUE" if flag == "--set" else "SETTING",
        help=text,
    )
    _complete(option, _names_of_settings)


def _complete(action: argparse.Action, completer: Callable[..., list[str]]) -> None:
    """Says how a shell may complete an option's value."""
    action.completer = completer  # type: ignore[attr-defined]


def _names_of_runs(parsed_args: argparse.Namespace, **_: object) -> list[str]:
    folder = parsed_args.output_dir / (parsed_args.task or DEFAULT_TASK)
    return [path.parents[1].name for path in folder.glob("*/train/experiment.json")]


def _names_of_settings(**_: object) -> list[str]:
    """Returns settings of all sections but the model's, which depend on the preset."""
    return [f"{section}.{item.name}=" for section, kind in KINDS.items() for item in fields(kind)]


def add_config(group: argparse._ActionsContainer) -> None:
    """Adds `--config` to a parser."""
    group.add_argument(
        "--config",
        action=Once,
        type=lambda text: read_settings_file(Path(text), SECTIONS),
        metavar="FILE|RUN",
        help="a YAML file like the one dtmt train --show-config prints, with any of its settings, "
        "or a run's folder, to copy all settings; --set overrides both, --task and --model only a "
        "YAML file",
    )


def add_devices(group: argparse._ActionsContainer) -> None:
    """Adds `--devices` to a parser."""
    group.add_argument(
        "--devices",
        nargs="+",
        default=[],
        metavar="DEVICE",
        help="devices to train on, such as GPU:0 GPU:1; CPU:0 CPU:1 gives each half of the cores "
        "(default: all GPUs, or the CPU)",
    )
