"""Contrastive translations in results: scored, told apart by their sets, dropped for others."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dtmt_tf.commands.contrast import read_set
from dtmt_tf.data.lines import read_whole
from dtmt_tf.errors import UserError
from dtmt_tf.files import write_json
from pipelines.papers.records import read_record, read_records

if TYPE_CHECKING:
    from dtmt_tf.evaluation.contrast_sets import Contrast
    from dtmt_tf.runs import Run

logger = logging.getLogger(__name__)


def accuracies_of(run: Run, sets: Sequence[Path]) -> dict[str, Any]:
    """Returns a record's part on contrasts, less those whose source was trained on.

    `contrast`: pairs scored right and all pairs, by type of error and by words;
    `contrast_measure`: whether words count distance or position; `contrast_sets`: their `hashes`.

    Raises:
        UserError: If there is none.
    """
    from dtmt_tf.batched_lines import score_pairs
    from dtmt_tf.evaluation.contrast import accuracies, scored
    from dtmt_tf.runs import best_model, score_function

    given = [each for path in sets for each in read_set(path)]
    contrasts = unseen(given, (source for source, _ in run.corpus.stream("train")))
    logger.info("%s of %s contrasts have a source that was trained on, and are left out.",
                f"{len(given) - len(contrasts):,}", f"{len(given):,}")  # fmt: skip
    if not contrasts:
        raise UserError(f"No contrast is left: {run.folder} was trained on all of their sources.")
    by = "distance" if all(each.distance is not None for each in contrasts) else "position"
    score, size = score_function(run, best_model(run)[0]), run.experiment.decoding.batch_size
    scores = scored(contrasts, lambda pairs: score_pairs(pairs, score, size, "contrast"))
    bins = {
        kind: {name: (both.summed.correct, both.summed.total) for name, both in of.bins.items()}
        for kind, of in accuracies(contrasts, scores, by).items()
    }
    return {"contrast": bins, "contrast_measure": by, "contrast_sets": hashes(sets)}


def unseen(contrasts: Sequence[Contrast], sources: Iterable[str]) -> list[Contrast]:
    """Returns the contrasts of other sources than some, whatever their blanks: sets change them."""
    asked = {" ".join(each.source.split()) for each in contrasts}
    seen = {text for source in sources if (text := " ".join(source.split())) in asked}
    return [each for each in contrasts if " ".join(each.source.split()) not in seen]


def hashes(files: Sequence[Path]) -> list[str]:
    """Returns what tells texts apart, packed or not, in whatever order their files are named."""
    return sorted(hashlib.sha256(read_whole(path)).hexdigest()[:16] for path in files)


def check_others(
    folder: Path, series: str, asked: Iterable[tuple[str, int]], sets: Sequence[Path]
) -> None:
    """Looks for accuracies on other contrasts, with which no table could be made.

    Args:
        folder: The records.
        series: The hash of the series that is to be scored.
        asked: Rows and seeds of it that are to be scored, whose accuracies are dropped.
        sets: What they are to be scored on.

    Raises:
        UserError: If a row or seed that is not asked for has some.
    """
    scored, known = {*asked}, hashes(sets)
    others = [
        f"{record['row']} of seed {record['seed']}"
        for record in read_records(folder)
        if record["series"].get("hash") == series and "contrast" in record
        if (record["row"], record["seed"]) not in scored
        if record.get("contrast_sets") != known
    ]
    if others:
        raise UserError(
            f"{folder} has accuracies on other contrasts: {', '.join(others)}. Score these anew, "
            "too (--rows, --seeds), or name another folder with --records."
        )


def drop(path: Path) -> None:
    """Removes from a record what `accuracies_of` added."""
    record = read_record(path)
    write_json(path, {k: v for k, v in record.items() if not k.startswith("contrast")})
