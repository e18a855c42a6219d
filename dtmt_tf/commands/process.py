"""A command as a process: its streams, its errors without a traceback, its exit code."""

from __future__ import annotations

import io
import logging
import os
import re
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from dtmt_tf import caller
from dtmt_tf.errors import UserError
from dtmt_tf.files import is_of_full_disk, system_error

NO_MEMORY = (
    "Memory does not suffice. Lower data.max_tokens_per_batch in training, "
    "--batch-size or decoding.batch_size elsewhere."
)
LOOP = "Symlink loop"  # how pathlib tells of links that lead to themselves, before Python 3.13
OF_TENSORFLOW = re.compile(r"\{\{\w+ \S+\}\} | \[Op:\w+\].*")  # where in its graph it failed


def main(command: Callable[[], int | None]) -> NoReturn:
    """Runs a command; mistakes of the user end with exit code 2 and no traceback."""
    told = logging.StreamHandler()
    told.setFormatter(_AsCalled("%(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[told])
    logging.getLogger("absl").setLevel(logging.ERROR)
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    for name in ("sacrebleu", "matplotlib", "tensorboard"):
        logging.getLogger(name).setLevel(logging.WARNING)
    code: Any
    try:
        _prepare_streams()
        try:
            code = command() or 0
        except SystemExit as end:  # argparse's, after help or a mistake
            code = end.code
        sys.stdout.flush()
    except UserError as error:
        _flush_or_discard()
        code = _failed(caller.as_called(str(error)))
    except BrokenPipeError:  # the reader of our output left
        _flush_or_discard()
        code = 141
    except KeyboardInterrupt:
        _flush_or_discard()
        print("Stopped.", file=sys.stderr)
        code = 130
    except MemoryError:
        code = _failed(NO_MEMORY)
    except UnicodeEncodeError as error:
        code = _failed(f"{_not_utf8(error)} is not UTF-8. Rename it.")
    except Exception as error:
        if system_error(error) is None and not isinstance(error, OSError):
            if type(error).__name__ == "ResourceExhaustedError":  # TensorFlow's, as on a GPU
                sys.exit(_failed(NO_MEMORY))
            if str(error).startswith(LOOP):
                sys.exit(_failed(f"{error}. Name another place."))
            raise
        _flush_or_discard()
        code = _failed(OF_TENSORFLOW.sub("", str(error).partition("\n")[0]))
        if is_of_full_disk(error):
            print("Make room and run the same command again.", file=sys.stderr)
    sys.exit(code)


class _AsCalled(logging.Formatter):
    """Names commands as the user does."""

    def format(self, record: logging.LogRecord) -> str:
        return caller.as_called(super().format(record))


def _not_utf8(error: UnicodeEncodeError) -> str:
    """Returns the argument that is not UTF-8; if all are, the text around what is not."""
    around = error.object[max(0, error.start - 40) : error.end + 10]
    words = (word for word in sys.argv[1:] if error.object[error.start] in word)
    return next((repr(os.fsencode(word)) for word in words), repr(around))


def _failed(text: str) -> int:
    """Tells of an error; returns the exit code."""
    print(f"error: {text}", file=sys.stderr)
    return 2


def _prepare_streams() -> None:
    """Makes standard output and errors take any text; files and pipes of output get UTF-8.

    Raises:
        UserError: If standard output is closed.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:  # else a file that is opened later would be taken for it
            os.open(os.devnull, os.O_RDWR)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")
    if sys.stdout is None:
        raise UserError("Standard output is closed. Send it to a file, or to /dev/null.")
    for stream in (sys.stdout, sys.stderr):  # of whatever encoding
        if isinstance(stream, io.TextIOWrapper):
            to_file = stream is sys.stdout and not stream.isatty()
            stream.reconfigure(encoding="utf-8" if to_file else None, errors="backslashreplace")


def _flush_or_discard() -> None:
    """Flushes standard output; if that fails, has Python's last attempt at it go nowhere."""
    try:
        if sys.stdout:
            sys.stdout.flush()
    except OSError:
        if sys.__stdout__ and sys.stdout is sys.__stdout__:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno())
