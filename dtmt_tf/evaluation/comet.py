"""COMET, a metric that is learnt from people's judgements, where its library is installed.

Rei et al. (2020), "COMET: A Neural Framework for MT Evaluation", arXiv:2009.09025.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dtmt_tf.errors import UserError
from dtmt_tf.evaluation.scores import SAMPLES, SEED, Scores, ends, resamples

TOGETHER = 16  # sentences that the model reads together


def with_comet(
    scores: Scores,
    model: str,
    sources: Sequence[str],
    hypotheses: Sequence[str],
    references: Sequence[str],
) -> Scores:
    """Returns scores with COMET and its interval.

    Args:
        scores: What there is of the same hypotheses.
        model: Name of a model, which the library downloads, or the path of its checkpoint.
        sources: The source lines.
        hypotheses: As many translations.
        references: As many others.

    Raises:
        UserError: If the library is not installed, or the counts differ.
    """
    if not len(sources) == len(hypotheses) == len(references):
        raise UserError(
            "COMET needs a source, a translation and a reference of each sentence. Received: "
            f"{len(sources):,}, {len(hypotheses):,} and {len(references):,}."
        )
    values = 100 * _sentences(model, sources, hypotheses, references)
    drawn = [float(often @ values) / len(values) for often in resamples(len(values), SAMPLES, SEED)]
    intervals = {**scores.intervals, "comet": ends(drawn)}
    return dataclasses.replace(
        scores, comet=float(values.mean()), comet_model=model, intervals=intervals
    )


def _sentences(model: str, *lines: Sequence[str]) -> npt.NDArray[np.float64]:
    """Returns the score of each sentence, `[N]`, about 0 to 1."""
    try:
        import comet
        import torch
    except ImportError as error:
        raise UserError("--comet needs COMET: pip install unbabel-comet") from error
    path = model if Path(model).exists() else comet.download_model(model)
    rows = [dict(zip(("src", "mt", "ref"), row, strict=True)) for row in zip(*lines, strict=True)]
    found = comet.load_from_checkpoint(path).predict(
        rows, batch_size=TOGETHER, gpus=int(torch.cuda.is_available())
    )
    return np.asarray(found.scores, np.float64)
