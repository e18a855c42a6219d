"""The command `dtmt`: names its commands, and imports the one that is asked for."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Sequence
from typing import NoReturn

from dtmt_tf.caller import COMMANDS
from dtmt_tf.errors import hint


def main() -> NoReturn:
    """Runs the command that the first argument names; ends the process."""
    name, *arguments = sys.argv[1:] or [""]
    if name in ("", "-h", "--help", "help"):
        print(overview(), file=sys.stdout if name else sys.stderr)
        sys.exit(0 if name else 2)
    if name not in COMMANDS:
        print(f"error: {unknown(name)}", file=sys.stderr)
        sys.exit(2)
    run(name, arguments)


def run(name: str, arguments: Sequence[str]) -> NoReturn:
    """Runs a command with its arguments; ends the process."""
    from dtmt_tf.commands import common

    module = importlib.import_module(f"dtmt_tf.commands.{name}")
    common.main(functools.partial(module.command, arguments))


def overview() -> str:
    """Returns what `dtmt --help` prints."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {text}" for name, text in COMMANDS.items()]
    return "\n".join(
        [
            "usage: dtmt COMMAND ...",
            "",
            "Train recurrent translation models and translate with them. Runs lie in",
            "./saved_models unless --output-dir says otherwise.",
            "",
            "commands:",
            *lines,
            "",
            "dtmt COMMAND --help explains each and gives examples.",
        ]
    )


def unknown(name: str) -> str:
    """Returns what to say of a command that there is not."""
    near = hint(name, COMMANDS, f"There are {', '.join(COMMANDS)}.")
    return f"Unknown command {name!r}. {near}"
