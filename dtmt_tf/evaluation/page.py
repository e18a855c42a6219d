"""Pages of HTML that need nothing beside them: their frame, tables, sentences and pictures."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources
from string import Template
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK = "#808080"  # of axes and labels: readable on white and on black
COLOURS = "#3b82f6", "#e8710a", "#159a5b"


def whole(title: str, parts: Iterable[str]) -> str:
    """Returns a page.

    Args:
        title: Plain text.
        parts: HTML, one below the other.
    """
    template = resources.files(__package__).joinpath("page.html").read_text("utf-8")
    return Template(template).substitute(title=escape(title), body="\n".join(parts))


def table(head: Sequence[str], rows: Iterable[Sequence[str]], safe: bool = False) -> str:
    """Returns a table that scrolls sideways where it is too wide.

    Args:
        head: Titles of the columns; none is shown if all are empty.
        rows: Cells.
        safe: Whether cells are HTML, not plain text.
    """
    titles = "".join(f"<th>{escape(title)}</th>" for title in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{cell if safe else escape(cell)}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    top = f"<thead><tr>{titles}</tr></thead>" if any(head) else ""
    return f'<div class="wide"><table>{top}<tbody>{body}</tbody></table></div>'


def listed(lines: Iterable[str]) -> str:
    """Returns lines of plain text as a list."""
    return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"


def note(text: str) -> str:
    """Returns a remark in plain text."""
    return f'<p class="note">{escape(text)}</p>'


def quoted(lines: Iterable[tuple[str, str]], safe: bool = False) -> str:
    """Returns texts that belong together, each with a name.

    Args:
        lines: Names and texts.
        safe: Whether texts are HTML, not plain text.
    """
    items = "".join(
        f'<div><dt>{escape(name)}</dt><dd dir="auto">{text if safe else escape(text)}</dd></div>'
        for name, text in lines
    )
    return f'<dl class="triple">{items}</dl>'


def figure(width: float, height: float) -> Figure:
    """Returns an empty picture of a size in inches, readable in light and dark."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained", facecolor="none")


def subplots(drawn: Figure, columns: int) -> list[Any]:
    """Returns the axes of a picture, one a column."""
    all_axes = list(drawn.subplots(1, max(columns, 1), squeeze=False).flat)
    for axes in all_axes:
        axes.set_facecolor("none")
        axes.grid(lw=0.4, color=INK, alpha=0.4)
        axes.set_axisbelow(True)
        axes.tick_params(colors=INK)
        for spine in axes.spines.values():
            spine.set_color(INK)
    return all_axes


def legend(axes: Any) -> None:
    """Adds a legend."""
    axes.legend(frameon=False, labelcolor=INK)


def svg(drawn: Figure) -> str:
    """Returns a picture as an element of the page; the same picture is the same text."""
    import matplotlib as mpl

    output = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "dtmt", "svg.fonttype": "none"}):
        with warnings.catch_warnings():  # what shows the page has the letters
            warnings.filterwarnings("ignore", message="Glyph .* missing from")
            drawn.savefig(output, format="svg", metadata={"Date": None})
    text = output.getvalue()
    return text[text.index("<svg") :]
