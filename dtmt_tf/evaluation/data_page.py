"""What a corpus is like, as one page of HTML that needs nothing beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dtmt_tf.evaluation.page import (
    COLOURS,
    INK,
    figure,
    legend,
    listed,
    note,
    quoted,
    subplots,
    svg,
    table,
    whole,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BARS = 40
THOUSANDS = "{x:,.0f}"  # how a count is written
DRAWN_SHARE = 0.995  # of the lines are drawn at their length; longer ones share the last bar


@dataclass(frozen=True)
class CorpusFacts:
    """What a page tells.

    Args:
        title: The corpus.
        facts: What it is, by name.
        sides: Head and rows of a table: figures of each side of each split.
        findings: What the data check found.
        lengths: Lengths of the training lines by side, `[N]` each; names have the unit.
        ratios: How many times longer the source is, of each training pair, `[N]`.
        usual_ratio: Their median.
        max_ratio: How many times more or less than that the filter lets pass.
        filters: Head and rows of a table: what each filter would drop.
        coverage: Head and rows of a table: what the most frequent words cover.
        unseen: Head and rows of a table: what of other splits is not in the training text.
        examples: Source and target of some pairs that each filter would drop.
        samples: Source and target of some training pairs.
    """

    title: str
    facts: Mapping[str, str]
    sides: Sequence[Sequence[str]]
    findings: Sequence[str]
    lengths: Mapping[str, npt.NDArray[np.int32]]
    ratios: npt.NDArray[np.float64]
    usual_ratio: float
    max_ratio: float
    filters: Sequence[Sequence[str]]
    coverage: Sequence[Sequence[str]]
    unseen: Sequence[Sequence[str]]
    examples: Mapping[str, Sequence[tuple[str, str]]]
    samples: Sequence[tuple[str, str]]


def page(corpus: CorpusFacts) -> str:
    """Returns the page."""
    parts = [table(["", ""], corpus.facts.items()), "<h2>Text</h2>", _with_head(corpus.sides)]
    parts.append("<h2>What the data check found</h2>")
    parts.append(listed(corpus.findings) if corpus.findings else note("Nothing."))
    parts += ["<h2>What filters would drop</h2>", _with_head(corpus.filters)]
    parts.append(
        note(
            "Each alone, of the training pairs. Pairs without a side of 20 characters are left to "
            "duplicates. data.filters names those that training is to use."
        )
    )
    parts += ["<h2>Lengths</h2>", svg(lengths(corpus.lengths))]
    parts += ["<h2>Ratio of lengths</h2>"]
    parts.append(svg(ratios(corpus.ratios, corpus.usual_ratio, corpus.max_ratio)))
    parts.append(
        note(
            f"Characters of the source for one of the target; {corpus.usual_ratio:.2f} is usual. "
            "Beyond the dotted lines the filter length_ratio drops pairs of 20 characters and more."
        )
    )
    parts += ["<h2>Words that cover the text</h2>", _with_head(corpus.coverage)]
    if len(corpus.unseen) > 1:
        parts += ["<h2>What the training text has not</h2>", _with_head(corpus.unseen)]
    for name, pairs in corpus.examples.items():
        if pairs:
            parts.append(f"<h2>Would be dropped: {escape(name)}</h2>")
            parts += _quoted(pairs)
    parts += ["<h2>Samples</h2>", *_quoted(corpus.samples)]
    return whole(corpus.title, parts)


def lengths(by_side: Mapping[str, npt.NDArray[np.int32]]) -> Figure:
    """Draws how many lines of each side have which length; a last bar has the longest."""
    drawn = figure(4.8, 2.6)
    (axes,) = subplots(drawn, 1)
    longest = max(int(np.quantile(values, DRAWN_SHARE)) for values in by_side.values())
    edges = np.arange(0, longest + 2, max(1, round(longest / BARS))) - 0.5
    for (name, values), colour in zip(by_side.items(), COLOURS, strict=False):
        shown = np.minimum(values, edges[-1] - 0.1)
        axes.hist(shown, edges, histtype="stepfilled", alpha=0.25, color=colour)
        axes.hist(shown, edges, histtype="step", lw=1.4, color=colour, label=name)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.yaxis.set_major_formatter(THOUSANDS)
    axes.set_xlabel("length", color=INK)
    axes.set_ylabel("lines", color=INK)
    legend(axes)
    return drawn


def ratios(values: npt.NDArray[np.float64], usual: float, limit: float) -> Figure:
    """Draws how many pairs have which ratio of lengths, and between which limits they pass."""
    drawn = figure(4.8, 2.6)
    (axes,) = subplots(drawn, 1)
    width = 1.5 * np.log2(limit)
    edges = np.linspace(-width, width, BARS + 1)
    shown = np.clip(np.log2(values / usual), -width, width)
    axes.hist(shown, edges, color=COLOURS[0], rwidth=0.9, log=True)
    axes.minorticks_off()
    axes.yaxis.set_major_formatter(THOUSANDS)
    for end in (-1, 1):
        axes.axvline(end * np.log2(limit), color=COLOURS[1], ls=":", lw=1.6)
    ticks = np.arange(-int(width), int(width) + 1)
    axes.set_xticks(ticks, [f"{usual * 2.0**tick:.2g}" for tick in ticks])
    axes.set_xlabel("source characters for one of the target", color=INK)
    axes.set_ylabel("pairs", color=INK)
    return drawn


def _with_head(rows: Sequence[Sequence[str]]) -> str:
    return table(rows[0], rows[1:])


def _quoted(pairs: Sequence[tuple[str, str]]) -> list[str]:
    return [quoted([("source", source), ("target", target)]) for source, target in pairs]
