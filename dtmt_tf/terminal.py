"""How wide what is printed may be, and the bar that counts lines."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

from tqdm import tqdm

T = TypeVar("T")

MAX_COLUMNS = 80
LOG_INTERVAL_SECONDS = 20.0  # from the beginning to a log's first line, and from line to line


def columns() -> int:
    """Returns the columns of what standard output shows, at most 80."""
    return min(MAX_COLUMNS, shutil.get_terminal_size().columns)


def bar_columns() -> int:
    """Returns the columns of a progress bar: standard error's, at most 80, less the cursor's."""
    try:
        wide = os.get_terminal_size(sys.stderr.fileno()).columns
    except (OSError, ValueError, AttributeError):  # no terminal; closed; replaced by a test
        wide = 0
    return min(MAX_COLUMNS, wide or MAX_COLUMNS) - 1


def bar_interval() -> float:
    """Returns the seconds between two states of a progress bar: a log gets few."""
    return 0.2 if sys.stderr.isatty() else LOG_INTERVAL_SECONDS


def line_bar(total: int | None, text: str, done: int = 0) -> tqdm:
    """Returns a bar that counts lines, `done` of them already; none is shown if it says nothing.

    A log gets few lines of it, and of what is soon done none.
    """
    return tqdm(
        total=total,
        initial=done,
        desc=text,
        unit="line",
        disable=not text,
        leave=False,
        ncols=bar_columns(),
        delay=0 if sys.stderr.isatty() else LOG_INTERVAL_SECONDS,
        mininterval=bar_interval(),
    )


def counted(items: Iterable[T], total: int, text: str) -> Iterator[T]:
    """Yields items, one for each line of a text, and shows how many; see `line_bar`."""
    with line_bar(total, text) as bar:
        for item in items:
            yield item
            bar.update()
