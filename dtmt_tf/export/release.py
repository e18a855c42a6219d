"""A run's best weights to a model folder with all that goes with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dtmt_tf.export.endpoints import Endpoints
from dtmt_tf.export.model_card import card_text, model_card
from dtmt_tf.export.saved_model import export_saved_model
from dtmt_tf.export.warmup import sample_requests


def release(
    endpoints: Endpoints,
    folder: Path,
    experiment: Mapping[str, Any],
    scores: Mapping[str, Any],
    *,
    description: str,
    checkpoints: Sequence[int],
    pairs: Sequence[tuple[str, str]],
) -> Path:
    """Exports a model with its settings, scores, card and warm-up requests.

    Args:
        endpoints: What it answers.
        folder: The run's folder; the model gets the next version's number.
        experiment: What `experiment.json` holds.
        scores: What `scores.json` holds; may be empty.
        description: The task's.
        checkpoints: The updates that the weights are the mean of.
        pairs: Sentences of the task, for the warm-up.

    Returns:
        The version's folder.

    Raises:
        UserError: If the result could not be served.
    """
    card = model_card(
        experiment,
        scores,
        name=folder.name,
        description=description,
        parameters=sum(endpoints.model.parameter_counts().values()),
        checkpoints=checkpoints,
        limits=endpoints.described_limits(),
    )
    files = {"experiment.json": experiment, "scores.json": scores, "MODEL_CARD.md": card_text(card)}
    return export_saved_model(endpoints, folder, card, files, sample_requests(pairs))
