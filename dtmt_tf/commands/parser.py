"""The one form of every command's help."""

from __future__ import annotations

import argparse
import os
import re
import textwrap
from typing import Any, NoReturn

from dtmt_tf.caller import COMPLETING, as_called
from dtmt_tf.terminal import columns

WORD = re.compile(r"""(?:'[^']*'|"[^"]*"|\S)+""")  # of a shell
EXAMPLES = ("example:", "examples:")
INDENT = re.compile(r" +(?:\w+ +)?")  # and a name that the line explains
CONTINUED = re.compile(r" \\\n *")


HOME = re.compile(r"(^|[=,])~(/|$)")  # as shells leave it behind --option= and in quotes
TEXTS = ("sentence", "tag")  # arguments that may hold it


class Formatter(argparse.HelpFormatter):
    """Fills paragraphs to the columns there are, 80 at most; examples are command lines.

    Commands are shown in the form in which the user called this one.
    """

    def __init__(self, prog: str) -> None:
        super().__init__(f"{prog} [options]", width=columns() - 2)

    def add_usage(self, usage: Any, actions: Any, groups: Any, prefix: Any = None) -> None:
        """Names what has to be given; the options follow below, each with its meaning."""
        one_of = {id(each) for group in groups if group.required for each in group._group_actions}
        named = [
            action
            for action in actions
            if action.required or not action.option_strings or id(action) in one_of
        ]
        super().add_usage(usage, named, groups, prefix)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        fill = _continued if text.startswith(EXAMPLES) else _wrapped
        return "\n".join(fill(line, width) for line in as_called(text).split("\n"))

    def _split_lines(self, text: str, width: int) -> list[str]:
        return _wrapped(as_called(text), width).split("\n")


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _wrapped(text: str, width: int) -> str:
    indent = INDENT.match(text)
    hanging = " " * len(indent[0]) if indent else ""
    return textwrap.fill(text, width, break_on_hyphens=False, subsequent_indent=hanging)


def _continued(line: str, width: int) -> str:
    """Breaks a command line that is too long between its words, as a shell takes it."""
    if len(line) <= width + 2:
        return line
    parts: list[list[str]] = [[]]  # a command and its arguments, then each option with its values
    for word in WORD.findall(line):
        if word.startswith(("-", "<", ">", "|")):
            parts.append([])
        parts[-1].append(word)
    lines = [" "]
    for words in parts:
        whole = len(" ".join(words)) <= width - 6  # together, if they fit into a line
        for part in [" ".join(words)] if whole else words:
            if len(f"{lines[-1]} {part} \\") > width + 2 and lines[-1].strip():
                lines.append("     ")
            lines[-1] += f" {part}"
    return " \\\n".join(lines)


class Given(argparse._StoreAction):
    """An option's value; where it takes several, those of each time that it is given."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        """Keeps the value."""
        if self.nargs == "+":
            before = getattr(namespace, self.dest)
            values = [*([] if before is self.default else before), *values]
        setattr(namespace, self.dest, values)


class Once(Given):
    """An option's value, where a second one would not be a change of mind."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        """Keeps the value, if it is the first."""
        if getattr(namespace, self.dest) is not self.default:
            parser.error(f"{option_string} is given twice. Give it once.")
        super().__call__(parser, namespace, values, option_string)


class Parser(argparse.ArgumentParser):
    """A command's arguments.

    Args:
        command: How the command is called: `dtmt train`, or a script.
        description: What it does: paragraphs, a line each.
        examples: Command lines.

    Attributes:
        intermixed: Whether options may stand between words, where one word is followed by many.
    """

    def __init__(self, command: str, description: str, *examples: str) -> None:
        self.intermixed = False
        title = EXAMPLES[len(examples) > 1]
        super().__init__(
            prog=as_called(command),
            description=description,
            epilog=CONTINUED.sub(" ", "\n".join([title, *(f"  {line}" for line in examples)])),
            formatter_class=Formatter,
            allow_abbrev=False,  # messages repeat a command less some option
        )
        self.register("action", None, Given)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parses arguments; for a shell that asks how they may go on, answers that and ends."""
        if COMPLETING in os.environ:
            import argcomplete
            from argcomplete.finders import safe_actions

            safe_actions.update((Given, Once))  # what it takes while it looks for an answer
            argcomplete.autocomplete(self)
        parsed = super().parse_args(args, namespace)
        for name, value in vars(parsed).items():  # paths may be any bytes, texts may not
            for text in value if isinstance(value, list) else [value]:
                if isinstance(text, str) and not _is_utf8(text):
                    self.error(f"--{name.replace('_', '-')}: {text!r} is not UTF-8.")
        return parsed

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parses arguments; returns also those that it does not know."""
        if not self.intermixed:
            return super().parse_known_args(args, namespace)
        self.intermixed = False  # what follows may come back here
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self.intermixed = True

    def _get_values(self, action: argparse.Action, arg_strings: Any) -> Any:
        """Refuses what a path would make another folder of: an empty word, and ~ as it stands."""
        name = max(action.option_strings, key=len, default=action.metavar or action.dest)
        if "" in arg_strings:
            self.error(
                f"{name} has an empty value. Give it one, or leave it out: was a variable of the "
                "shell not set?"
            )
        for word in arg_strings if action.dest not in TEXTS else ():
            if HOME.search(word):
                self.error(
                    f"{name}: the shell has left the ~ of {word} as it is. Write $HOME. A folder "
                    "of that name is ./~"
                )
        return super()._get_values(action, arg_strings)  # type: ignore[misc]

    def error(self, message: str) -> NoReturn:
        """Ends the process with a message; a setting that stands alone is told its option."""
        settings = re.findall(
            r"(?<!\S)\w+\.\w+=\S*", message.partition("unrecognized arguments:")[2]
        )
        if settings and "--set" in self._option_string_actions:
            message += f"\nSettings go behind --set: --set {' '.join(settings)}"
        elif message.startswith("unrecognized arguments:"):
            message += f"\n{self.prog} --help lists the options."
        elif counted := re.fullmatch(r"argument (\S+): expected \d+ arguments", message):
            named = self._option_string_actions[counted[1]].metavar
            message += f": {' '.join(named)}" if isinstance(named, tuple) else ""
        elif missing := message.partition("arguments are required: ")[2]:
            for action in self._actions:
                if (name := argparse._get_action_name(action)) in missing.split(", "):
                    meaning = self._get_formatter()._expand_help(action)
                    message += "\n" + _wrapped(as_called(f"{name}: {meaning}"), columns())
        super().error(message)
