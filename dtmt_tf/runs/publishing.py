"""A run's best weights as a model that others can serve."""

from __future__ import annotations

import logging
from pathlib import Path

from dtmt_tf.errors import UserError
from dtmt_tf.export import Canary, release
from dtmt_tf.files import write_json
from dtmt_tf.runs.run import Run
from dtmt_tf.runs.scoring import endpoints, score
from dtmt_tf.runs.subwords import note_subwords
from dtmt_tf.runs.weights import best_model

logger = logging.getLogger(__name__)


def publish(
    run: Run, min_bleu: float | None = None, force: bool = False, older: bool = False
) -> Path:
    """Exports the best weights; returns the version's folder.

    Args:
        run: The run.
        min_bleu: Least BLEU that the version must have on the run's samples; by default a little
            less than the version before has.
        force: Publish a version that fails on them, or that equals the one before.
        older: Whether an older version that is the same is enough: nothing was trained since.

    Raises:
        UserError: If the version is not published; it says why.
    """
    run.check_trained()  # before anything is made
    with run.claimed():
        return _publish(run, min_bleu, force, older)


def _publish(run: Run, min_bleu: float | None, force: bool, older: bool) -> Path:
    note_subwords(run)
    model, steps = best_model(run)
    what = "an ensemble of" if run.members else "the mean of updates" if steps[1:] else "update"
    names = [member.folder.name for member in run.members] or map(str, steps)
    logger.info("Exporting %s %s", what, ", ".join(names))

    def bleu(translations: list[str], references: list[str]) -> float:
        return score(run, translations, references).bleu

    return release(
        endpoints(run, model, run.experiment.export),
        run.folder,
        {**run.record(), **run.settings()},
        run.read("scores.json"),
        description=run.description,
        checkpoints=steps,
        pairs=_samples(run),
        canary=Canary(bleu, min_bleu, force),
        older=older,
    )


def _samples(run: Run) -> list[tuple[str, str]]:
    """Returns the run's samples; they are chosen anew if their file is missing or damaged."""
    try:
        found = run.read("samples.json")["pairs"]
        if found and all(len(pair) == 2 and all(map(str.strip, pair)) for pair in found):
            return [(source, target) for source, target in found]
        damage = "it holds no pairs"
    except (KeyError, TypeError, ValueError, UserError) as error:
        damage = f"{type(error).__name__}: {error}"
    path = run.work / "samples.json"
    if path.exists():
        logger.warning("%s is damaged (%s); its samples are chosen anew.", path, damage)
    pairs = run.samples()
    write_json(path, {"pairs": pairs})
    return pairs
