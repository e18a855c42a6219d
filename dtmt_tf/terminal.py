"""How wide what is printed may be."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TextIO

WIDEST = 80  # columns


def columns() -> int:
    """Returns the columns of what standard output shows, at most 80."""
    return min(WIDEST, shutil.get_terminal_size().columns)


def bar_columns(stream: TextIO | None = None) -> int:
    """Returns the columns of a progress bar: a stream's, at most 80, less one for the cursor.

    Args:
        stream: Where the bar is drawn; standard error by default.
    """
    try:
        wide = os.get_terminal_size((stream or sys.stderr).fileno()).columns
    except (OSError, ValueError, AttributeError):  # no terminal; closed; replaced by a test
        wide = 0
    return min(WIDEST, wide or WIDEST) - 1
