"""A run's best weights as a model that others can serve."""

from __future__ import annotations

import logging
from pathlib import Path

from dtmt_tf.export import release
from dtmt_tf.runs.run import Run
from dtmt_tf.runs.scoring import endpoints
from dtmt_tf.runs.subwords import note_subwords
from dtmt_tf.runs.weights import best_model

logger = logging.getLogger(__name__)


def publish(run: Run) -> Path:
    """Exports the best weights; returns the version's folder."""
    with run.claimed():
        return _publish(run)


def _publish(run: Run) -> Path:
    note_subwords(run)
    model, steps = best_model(run)
    what = "an ensemble of" if run.members else "the mean of updates"
    names = [member.folder.name for member in run.members] or map(str, steps)
    logger.info("Exporting %s %s", what, ", ".join(names))
    return release(
        endpoints(run, model, run.experiment.export),
        run.folder,
        {**run.read("experiment.json"), **run.settings()},
        run.read("scores.json"),
        description=run.task.description,
        checkpoints=steps,
        pairs=run.read("samples.json").get("pairs") or run.samples(),
    )
