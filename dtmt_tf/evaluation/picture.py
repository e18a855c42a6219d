"""Pictures: their files, in the format that their name asks for, and their error bars."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dtmt_tf.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def as_label(name: str) -> str:
    """Returns a name for a legend: one that begins with `_` would be left out, `$` be read."""
    return f"{' ' * name.startswith('_')}{name}".replace("$", r"\$")


def save(figure: Figure, path: Path) -> None:
    """Writes a figure; the file's end says which kind."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=path.suffix[1:])
    write_atomically(path, buffer.getvalue())


def error_bars(
    values: Sequence[float], intervals: Sequence[tuple[float, float]]
) -> tuple[list[float], list[float]]:
    """Returns how far below and above its value each interval ends, as `Axes.errorbar` wants it."""
    ends = list(zip(values, intervals, strict=True))
    return (
        [max(value - low, 0) for value, (low, _) in ends],
        [max(high - value, 0) for value, (_, high) in ends],
    )
