"""Two systems side by side on one page: their scores, and the sentences that differ most."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dtmt_tf.evaluation.page import (
    COLOURS,
    INK,
    figure,
    note,
    quoted,
    subplots,
    svg,
    table,
    whole,
)
from dtmt_tf.evaluation.scores import SystemScore
from dtmt_tf.evaluation.sentences import sentence_chrf

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = 12  # sentences, of gains and of losses
WIDTH = 5  # chrF2 points of a bar


@dataclass(frozen=True)
class Compared:
    """What a page tells of systems on one test set.

    Args:
        scores: What `compare_systems` returned, the baseline first.
        translations: Of each system, in the same order; the first are the baseline's.
        references: One or several translations of each sentence.
        sources: The source lines; empty if they are not at hand.
        lowercase: Whether case is ignored.
    """

    scores: Sequence[SystemScore]
    translations: Sequence[Sequence[str]]
    references: Sequence[Sequence[str]]
    sources: Sequence[str] = ()
    lowercase: bool = False


def page(found: Compared) -> str:
    """Returns the page: a part for each system but the baseline."""
    names = [system.name for system in found.scores]
    parts = ["<h2>Scores</h2>", _scores(found.scores)]
    baseline = sentence_scores(found, 0)
    for k, name in enumerate(names[1:], start=1):
        changes = sentence_scores(found, k) - baseline
        better, worse = int((changes > 0).sum()), int((changes < 0).sum())
        parts += [
            f"<h2>{escape(name)} against {escape(names[0])}</h2>",
            note(
                f"By chrF2, {better:,} sentences are better than the baseline's, {worse:,} are "
                f"worse, {len(changes) - better - worse:,} equal."
            ),
            svg(bars(changes)),
        ]
        order = np.argsort(changes, kind="stable")
        losses = [row for row in order[:SHOWN] if changes[row] < 0]
        gains = [row for row in order[::-1][:SHOWN] if changes[row] > 0]
        for title, rows in (("Most gained", gains), ("Most lost", losses)):
            if rows:
                parts.append(f"<h2>{title}</h2>")
                parts += [_sentence(found, k, row, changes[row]) for row in rows]
    return whole(" and ".join(names), parts)


def sentence_scores(found: Compared, system: int) -> npt.NDArray[np.float64]:
    """Returns chrF2 of each sentence of a system, 0 to 100, `[N]`."""
    return sentence_chrf(found.translations[system], *found.references, lowercase=found.lowercase)


def bars(changes: npt.NDArray[np.float64]) -> Figure:
    """Draws how many sentences change by how much chrF2; those that do not change are left out.

    Args:
        changes: Of each sentence, `[N]`.
    """
    drawn = figure(4.8, 2.5)
    (axes,) = subplots(drawn, 1)
    top = WIDTH * np.ceil(max(np.abs(changes).max(), WIDTH) / WIDTH)
    edges = np.arange(-top, top + WIDTH, WIDTH)
    for kept, colour in ((changes < 0, COLOURS[1]), (changes > 0, COLOURS[0])):
        axes.hist(changes[kept], edges, color=colour, rwidth=0.9)
    axes.set_xlabel("change of chrF2", color=INK)
    axes.set_ylabel("sentences", color=INK)
    return drawn


def marked(text: str, other: str) -> str:
    """Returns a text as HTML whose words that another has not, in that order, are marked.

    Of texts without blanks it is characters.
    """
    blank = " " if " " in text or " " in other else ""
    words, theirs = (each.split() if blank else list(each) for each in (text, other))
    matcher = difflib.SequenceMatcher(a=theirs, b=words, autojunk=False)
    shown = []
    for kind, _, _, first, last in matcher.get_opcodes():
        part = escape(blank.join(words[first:last]))
        if part:
            shown.append(part if kind == "equal" else f"<mark>{part}</mark>")
    return blank.join(shown)


def _scores(systems: Sequence[SystemScore]) -> str:
    rows = []
    for system in systems:
        cells = [system.name]
        for each in system.metrics.values():
            p_value = "" if each.p_value is None else f", p = {each.p_value:.4f}"
            interval = f"± {each.confidence_interval:.2f}{p_value}".replace(
                " ", "\N{NO-BREAK SPACE}"
            )
            cells.append(f"{each.score:.2f} ({interval})")
        rows.append(cells)
    metrics = systems[0].metrics
    signatures = "; ".join(each.signature for each in metrics.values())
    about = "95 % intervals and p-values against the first, by paired bootstrap. Signatures: "
    return table(["system", *metrics], rows) + note(f"{about}{signatures}")


def _sentence(found: Compared, system: int, row: int, change: float) -> str:
    """Returns a sentence with both translations; words that only one of them has are marked."""
    baseline, other = (found.translations[k][row] for k in (0, system))
    lines = [("source", escape(found.sources[row]))] if found.sources else []
    lines += [("reference", escape(reference[row])) for reference in found.references]
    lines += [
        ("baseline", marked(baseline, other)),
        ("new", marked(other, baseline)),
        ("chrF2", f"{change:+.1f}, line {row + 1:,}"),
    ]
    return quoted(lines, safe=True)
