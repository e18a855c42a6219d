"""What became of a run, as one page of HTML that needs nothing beside it."""

from __future__ import annotations

import csv
import functools
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

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
from dtmt_tf.evaluation.picture import error_bars
from dtmt_tf.evaluation.scores import SAMPLES, SEED, TOKENIZER
from dtmt_tf.evaluation.sentences import (
    Counts,
    bleu_interval,
    bleu_of,
    count_sentences,
    sentence_chrf,
)
from dtmt_tf.languages import has_blanks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = 8  # sentences, of the best and of the worst
TITLES = {
    "bleu": "validation BLEU",
    "cross_entropy": "validation cross entropy",
    "loss": "training loss",
}
METRICS = {"bleu": "BLEU", "chrf": "chrF2", "ter": "TER"}
WIDTH = 5  # source words of a bin; twice as many characters, where no blanks are between words
MIN_SENTENCES = 20  # of a bin


@dataclass(frozen=True)
class SplitFacts:
    """A split that was translated and scored.

    Args:
        name: Such as `test`.
        scores: What `scores.json` says of it.
        sources: Its source lines; empty if they are not at hand.
        references: As many.
        translations: As many.
        tokenize: Name of the sacreBLEU tokenizer.
        lowercase: Whether case is ignored.
        source_language: Its code; without one, words stand between blanks.
        is_older: Whether other weights translated it than those of the newest scores.
    """

    name: str
    scores: Mapping[str, Any]
    sources: Sequence[str] = ()
    references: Sequence[str] = ()
    translations: Sequence[str] = ()
    tokenize: str = TOKENIZER
    lowercase: bool = False
    source_language: str = ""
    is_older: bool = False

    @functools.cached_property
    def counts(self) -> Counts:
        """BLEU's counts in each sentence, `[N, 10]`."""
        return count_sentences(
            self.translations, self.references, tokenize=self.tokenize, lowercase=self.lowercase
        )


@dataclass(frozen=True)
class RunFacts:
    """What a page tells.

    Args:
        title: The run.
        facts: What it is and what it cost, by name.
        history: Validations: `step`, `bleu` and other scores, oldest first.
        splits: What was scored.
        findings: What the data check found.
        settings: Name, value and origin of the settings that are no defaults.
        attention: Source words, translated words, and the weights `[target, source]`, each.
    """

    title: str
    facts: Mapping[str, str]
    history: Sequence[Mapping[str, Any]]
    splits: Sequence[SplitFacts]
    findings: Sequence[str] = ()
    settings: Sequence[tuple[str, str, str]] = ()
    attention: Sequence[tuple[Sequence[str], Sequence[str], Any]] = ()


def page(run: RunFacts) -> str:
    """Returns the page."""
    parts = [table(["", ""], run.facts.items())]
    if run.splits:
        parts += ["<h2>Scores</h2>", _scores(run.splits)]
    if run.history:
        parts += ["<h2>Learning curve</h2>", svg(curve(run.history))]
    for split in run.splits:
        if split.translations and not split.is_older:
            parts += [f"<h2>{escape(split.name)}: BLEU by length</h2>", svg(lengths(split))]
            parts += _extremes(split)
    if run.attention:
        parts += ["<h2>Attention</h2>", *(svg(attention(*each)) for each in run.attention)]
    if run.findings:
        parts += ["<h2>What the data check found</h2>", listed(run.findings)]
    if run.settings:
        rows = (
            (f"<code>{escape(name)}</code>", f"<code>{escape(value)}</code>", escape(origin))
            for name, value, origin in run.settings
        )
        parts += [
            "<h2>Settings that are no defaults</h2>",
            table(["setting", "value", "from"], rows, safe=True),
        ]
    return whole(run.title, parts)


def metrics(history: Sequence[Mapping[str, Any]]) -> str:
    """Returns the validations as CSV: a column for each score."""
    names = list(dict.fromkeys(name for entry in history for name in entry))
    output = io.StringIO()
    writer = csv.DictWriter(output, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(history)
    return output.getvalue()


def curve(history: Sequence[Mapping[str, Any]]) -> Figure:
    """Draws BLEU, cross entropy and training loss by updates, as far as there are such."""
    names = [name for name in TITLES if any(name in entry for entry in history)]
    panels = [["bleu"]] if "bleu" in names else []
    panels += [[name for name in names if name != "bleu"]] if set(names) - {"bleu"} else []
    drawn = figure(4.2 * max(len(panels), 1), 2.9)
    for axes, shown in zip(subplots(drawn, len(panels)), panels, strict=False):
        for name, colour in zip(shown, COLOURS, strict=False):
            points = [(entry["step"], entry[name]) for entry in history if name in entry]
            axes.plot(
                *zip(*points, strict=True),
                marker="o",
                ms=3,
                lw=1.5,
                color=colour,
                label=TITLES[name],
            )
        axes.set_xlabel("updates", color=INK)
        legend(axes)
    return drawn


def lengths(split: SplitFacts) -> Figure:
    """Draws BLEU by the number of source words or characters, with 95 % intervals."""
    counts = split.counts
    drawn = figure(6.4, 2.9)
    (axes,) = subplots(drawn, 1)
    bins = length_bins(split.sources, split.source_language)
    values = [bleu_of(counts[rows], split.tokenize) for _, rows in bins]
    axes.errorbar(
        range(len(bins)),
        values,
        error_bars(values, [bleu_interval([counts[rows]], split.tokenize) for _, rows in bins]),
        marker="o",
        ms=4,
        lw=1.4,
        capsize=2,
        color=COLOURS[0],
    )
    axes.set_xticks(range(len(bins)), [f"{name}\n{len(rows):,}" for name, rows in bins])
    unit = "words" if has_blanks(split.source_language) else "characters"
    axes.set_xlabel(f"source {unit}, and sentences", color=INK)
    axes.set_ylabel("BLEU", color=INK)
    return drawn


def length_bins(sources: Sequence[str], language: str = "") -> list[tuple[str, list[int]]]:
    """Returns the rows of lines by their number of words, in bins of `WIDTH` words.

    Of a language without blanks, characters are counted, in bins of twice that. A bin of fewer than
    `MIN_SENTENCES` lines is joined with the next, the last with the one before.
    """
    by_length: dict[int, list[int]] = {}
    of_words = has_blanks(language)
    width = WIDTH if of_words else 2 * WIDTH
    for row, line in enumerate(sources):
        length = len(line.split() if of_words else line)
        by_length.setdefault(length // width, []).append(row)
    bins: list[tuple[int, int, list[int]]] = []
    for k in sorted(by_length):
        if bins and len(bins[-1][2]) < MIN_SENTENCES:
            first, _, rows = bins.pop()
            bins.append((first, k, rows + by_length[k]))
        else:
            bins.append((k, k, by_length[k]))
    if len(bins) > 1 and len(bins[-1][2]) < MIN_SENTENCES:
        _, last, rows = bins.pop()
        first, _, others = bins.pop()
        bins.append((first, last, others + rows))
    return [(f"{width * first}–{width * last + width - 1}", rows) for first, last, rows in bins]


def attention(source: Sequence[str], target: Sequence[str], weights: Any) -> Figure:
    """Draws which source words each translated word looked at.

    Args:
        source: Words, `[S]`.
        target: Words, `[T]`.
        weights: From 0 to 1, `[T, S]`.
    """
    drawn = figure(1.6 + 0.36 * len(source), 1.2 + 0.3 * len(target))
    (axes,) = subplots(drawn, 1)
    axes.imshow(np.asarray(weights), cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axes.set_xticks(range(len(source)), source, rotation=45, ha="right", parse_math=False)
    axes.set_yticks(range(len(target)), target, parse_math=False)
    axes.grid(False)
    return drawn


def _scores(splits: Sequence[SplitFacts]) -> str:
    rows = []
    for split in splits:
        scores = split.scores
        intervals = dict(scores.get("intervals", {}))
        if split.translations and "bleu" not in intervals:  # of an earlier version
            intervals["bleu"] = bleu_interval([split.counts], split.tokenize)
        rows.append(
            (
                split.name,
                ", ".join(f"{step:,}" for step in scores.get("checkpoint_steps", ())) or "–",
                *(_with_interval(scores.get(name), intervals.get(name)) for name in METRICS),
                f"{scores['num_sentences']:,}",
                scores["bleu_signature"],
            )
        )
    head = ["split", "weights after updates", *METRICS.values(), "sentences", "signature of BLEU"]
    about = f"In brackets: 95 % bootstrap intervals, {SAMPLES:,} samples, seed {SEED}."
    if older := [split.name for split in splits if split.is_older]:
        about += (
            " Not of the newest weights, or by another search than the run has, and shown no "
            f"further: {', '.join(older)}; dtmt evaluate scores anew."
        )
    return table(head, rows) + note(about)


def _with_interval(score: float | None, bounds: Sequence[float] | None) -> str:
    """Returns a score with the ends of its interval, if there is one."""
    if score is None:
        return "–"
    return f"{score:.2f}" + (f" ({bounds[0]:.2f}–{bounds[1]:.2f})" if bounds else "")


def _extremes(split: SplitFacts) -> list[str]:
    """The sentences with the lowest and the highest chrF2; of equal ones the first."""
    scores = sentence_chrf(split.translations, split.references, lowercase=split.lowercase)
    parts = []
    for title, sign in (("worst", 1), ("best", -1)):
        parts.append(f"<h2>{escape(split.name)}: {title} sentences</h2>")
        for row in sorted(range(len(scores)), key=lambda row: sign * scores[row])[:SHOWN]:
            lines = [
                ("source", split.sources[row]),
                ("reference", split.references[row]),
                ("translation", split.translations[row]),
                ("chrF2", f"{scores[row]:.1f}"),
            ]
            parts.append(quoted(lines))
    return parts
