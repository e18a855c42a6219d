"""The command `dtmt`: names its commands, and imports the one that is asked for."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from dtmt_tf.caller import COMMANDS, COMPLETING
from dtmt_tf.errors import hint


def main() -> NoReturn:
    """Runs the command that the first argument names; ends the process."""
    if COMPLETING in os.environ:
        complete()
    name, *arguments = sys.argv[1:] or [""]
    if name == "help" and arguments:
        name, arguments = arguments[0], ["--help"]
    if name in ("", "-h", "--help", "help"):
        tell(overview(), 0 if name else 2)
    if name not in COMMANDS:
        tell(f"error: {unknown(name)}", 2)
    run(name, arguments)


def tell(text: str, code: int) -> NoReturn:
    """Prints a text, to standard error with another code than 0; ends the process with the code.

    What can not be printed ends it as it ends a command.
    """

    def write() -> int:
        print(text, file=sys.stderr if code else sys.stdout, flush=True)
        return code

    with contextlib.suppress(OSError):
        if sys.stdout and sys.stderr:
            sys.exit(write())
    from dtmt_tf.commands import process  # only now: it takes longer than help

    process.main(write)


def complete() -> None:
    """Tells the shell how the line may go on; ends the process if that is asked of a name."""
    import argparse

    import argcomplete

    line, point = os.environ["COMP_LINE"], int(os.environ["COMP_POINT"])
    _, _, _, words, _ = argcomplete.split_line(line, point)
    if len(words) > 1 and words[1] in COMMANDS:
        os.environ[COMPLETING] = "2"  # the second word is the command
        run(words[1], words[2:])
    parser = argparse.ArgumentParser(prog="dtmt")
    parser.add_argument("command", choices=COMMANDS)
    argcomplete.autocomplete(parser)


def run(name: str, arguments: Sequence[str]) -> NoReturn:
    """Runs a command with its arguments; ends the process."""
    start(f"dtmt_tf.commands.{name}", arguments)


def start(module: str, *arguments: Sequence[str]) -> NoReturn:
    """Runs `command` of a module with its arguments; ends the process."""
    try:
        from dtmt_tf.commands import process

        command = importlib.import_module(module).command
    except ModuleNotFoundError as error:
        print(f"error: {missing(error)}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:  # of what is imported
        print("Stopped.", file=sys.stderr)
        sys.exit(130)
    process.main(functools.partial(command, *arguments))


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
            "dtmt COMMAND --help explains each and gives examples. To complete names and",
            'options with the tab key: eval "$(register-python-argcomplete dtmt)"',
        ]
    )


def missing(error: ModuleNotFoundError) -> str:
    """Returns what to do about a package that is not there; raises the error if it is ours."""
    package = (error.name or "").partition(".")[0]
    if package in ("", "dtmt_tf", "pipelines"):
        raise error
    return (
        f"{sys.executable} has no package {package}. In a checkout, run make setup, then source "
        ".venv/bin/activate."
    )


def unknown(name: str) -> str:
    """Returns what to say of a command that there is not."""
    near = hint(name, COMMANDS, f"There are {', '.join(COMMANDS)}.")
    return f"Unknown command {name!r}. {near}"
