"""The one form of every command's help."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import textwrap
from typing import Any, NoReturn

from dtmt_tf.caller import COMPLETING, as_called

WIDEST = 80  # columns


class Formatter(argparse.HelpFormatter):
    """Fills paragraphs to at most 80 columns; indented lines, such as examples, stay as they are.

    Commands are shown in the form in which the user called this one.
    """

    def __init__(self, prog: str) -> None:
        columns = min(WIDEST, shutil.get_terminal_size().columns)
        super().__init__(prog, width=columns - 2)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(
            line if line.startswith(" ") else _wrapped(line, width)
            for line in as_called(text).split("\n")
        )

    def _split_lines(self, text: str, width: int) -> list[str]:
        return _wrapped(as_called(text), width).split("\n")


def _wrapped(text: str, width: int) -> str:
    return textwrap.fill(text, width, break_on_hyphens=False)


class Parser(argparse.ArgumentParser):
    """A command's arguments.

    Args:
        command: How the command is called: `dtmt train`, or a script.
        description: What it does: paragraphs, a line each.
        examples: Command lines.
    """

    def __init__(self, command: str, description: str, *examples: str) -> None:
        title = "example:" if len(examples) == 1 else "examples:"
        super().__init__(
            prog=as_called(command),
            description=description,
            epilog="\n".join([title, *(f"  {line}" for line in examples)]),
            formatter_class=Formatter,
        )

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parses arguments; for a shell that asks how they may go on, answers that and ends."""
        if COMPLETING in os.environ:
            import argcomplete

            argcomplete.autocomplete(self)
        return super().parse_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """Ends the process with a message; a setting that stands alone is told its option."""
        settings = re.findall(
            r"(?<!\S)\w+\.\w+=\S*", message.partition("unrecognized arguments:")[2]
        )
        if settings and "--set" in self._option_string_actions:
            message += f"\nSettings go behind --set: --set {' '.join(settings)}"
        super().error(message)
