"""How often a model finds a correct translation more probable than one with an error.

Sennrich (2017), "How Grammatical is Character-level Neural Machine Translation? Assessing MT
Quality with Contrastive Translation Pairs", arXiv:1612.04629.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dtmt_tf.evaluation.accuracy import Accuracy
from dtmt_tf.evaluation.contrast_sets import Contrast

LAST = 16  # where the last bin begins, in words
MEASURES: Mapping[str, Callable[[Contrast], int | None]] = {
    "distance": lambda contrast: contrast.distance,
    "position": lambda contrast: contrast.position,
}
Score = tuple[float, int]  # log probability, and of how many sub-words


@dataclass(frozen=True)
class Both:
    """The accuracies by both ways to compare two translations.

    Args:
        summed: The correct one has the higher log probability.
        by_length: It has the higher log probability divided by its sub-words, <eos> included.
    """

    summed: Accuracy
    by_length: Accuracy


@dataclass(frozen=True)
class OfKind:
    """What a model makes of one type of error.

    Args:
        both: Accuracies of all contrasts.
        measure: What `bins` are of: `distance` or `position`.
        bins: The same by words, such as `4-7`; those without a contrast are left out.
    """

    both: Both
    measure: str
    bins: Mapping[str, Both]


def scored(
    contrasts: Sequence[Contrast], score: Callable[[list[tuple[str, str]]], list[Score]]
) -> list[tuple[Score, Score]]:
    """Returns the scores of each contrast: of the correct translation, then of the other.

    Args:
        contrasts: What is scored.
        score: Scores pairs of source and translation.
    """
    found = score([(c.source, text) for c in contrasts for text in (c.correct, c.contrastive)])
    return list(zip(found[::2], found[1::2], strict=True))


def accuracies(
    contrasts: Sequence[Contrast],
    scores: Sequence[tuple[Score, Score]],
    by: str = "distance",
    width: int = 4,
) -> dict[str, OfKind]:
    """Returns what a model gets right, by type of error.

    Equal values count as wrong.

    Args:
        contrasts: The contrasts, at least one.
        scores: Of each: the correct translation's, then the contrastive one's.
        by: `distance` or `position`; where the distance is not known, the position.
        width: Words of a bin.
    """
    kinds: dict[str, list[tuple[Contrast, bool, bool]]] = {}
    for contrast, ((right, length), (wrong, wrong_length)) in zip(contrasts, scores, strict=True):
        found = right > wrong, right / length > wrong / wrong_length
        kinds.setdefault(contrast.kind, []).append((contrast, *found))
    result = {}
    for kind, rows in sorted(kinds.items()):
        known = all(MEASURES[by](contrast) is not None for contrast, *_ in rows)
        measure = by if known else "position"
        bins: dict[int, list[tuple[Contrast, bool, bool]]] = {}
        for row in rows:
            words = MEASURES[measure](row[0]) or 0
            start = LAST if words >= LAST else words // width * width
            bins.setdefault(start, []).append(row)
        named = {bin_name(start, width): _both(bins[start]) for start in sorted(bins)}
        result[kind] = OfKind(_both(rows), measure, named)
    return result


def bin_name(start: int, width: int) -> str:
    """Returns the words of a bin: `8`, `8-11` or, of the last, `16+`."""
    if start >= LAST:
        return f"{start}+"
    end = min(start + width, LAST) - 1
    return f"{start}-{end}" if end > start else f"{start}"


def format_accuracies(kinds: Mapping[str, OfKind]) -> str:
    """Returns accuracies as a table of at most 80 columns, unless a type's name is too long."""
    names = [*kinds, *(f"  {of.measure} {name}" for of in kinds.values() for name in of.bins)]
    first = max(len("error type"), *map(len, names))
    head = "error type".ljust(first) + "   pairs    log probability  divided by length"
    lines = [head, "-" * len(head)]
    for kind, of in kinds.items():
        lines.append(_row(kind.ljust(first), of.both))
        for name, both in of.bins.items():
            lines.append(_row(f"  {of.measure} {name}".ljust(first), both))
    return "\n".join([*lines, "  (accuracies in percent with 95 % intervals)"])


def plain(kinds: Mapping[str, OfKind]) -> dict[str, object]:
    """Returns accuracies as JSON has them."""
    return {
        kind: {
            **_plain(of.both),
            f"by_{of.measure}": {name: _plain(both) for name, both in of.bins.items()},
        }
        for kind, of in kinds.items()
    }


def _both(rows: Sequence[tuple[Contrast, bool, bool]]) -> Both:
    counts = (sum(row[k] for row in rows) for k in (1, 2))  # type: ignore[misc]
    return Both(*(Accuracy(count, len(rows)) for count in counts))


def _row(name: str, both: Both) -> str:
    cells = [_cell(accuracy) for accuracy in (both.summed, both.by_length)]
    return f"{name}{both.summed.total:>8,}" + "".join(cell.rjust(19) for cell in cells)


def _cell(accuracy: Accuracy) -> str:
    low, high = accuracy.interval
    return f"{accuracy.percent:.1f} {f'{low:.1f}-{high:.1f}':>11}"


def _plain(both: Both) -> dict[str, object]:
    named = {"log_probability": both.summed, "divided_by_length": both.by_length}
    plain = {name: accuracy.plain for name, accuracy in named.items()}
    return {"pairs": both.summed.total, **plain}
