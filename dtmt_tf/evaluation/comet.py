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
from dtmt_tf.evaluation.scores import Scores, ends, resamples

BATCH_SIZE = 16  # sentences


class Comet:
    """A model of COMET, ready to score.

    Args:
        name: Of a model, which the library downloads, or the path of its checkpoint.

    Raises:
        UserError: If the library is not installed, or the model can not be had.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        try:
            import comet
            import torch

            path = name if Path(name).exists() else comet.download_model(name)
            self._model = comet.load_from_checkpoint(path)
            self._gpus = int(torch.cuda.is_available())
        except ImportError as error:
            raise UserError("--comet needs COMET: pip install unbabel-comet") from error
        except Exception as error:  # of its libraries, for download and checkpoint
            raise UserError(
                f"--comet {name} could not be loaded ({type(error).__name__}: "
                f"{str(error).partition(chr(10))[0]}). Name a model of COMET, such as "
                "Unbabel/wmt22-comet-da, or the path of a checkpoint, and see that the network is "
                "there for a download."
            ) from error

    def sentences(self, *lines: Sequence[str]) -> npt.NDArray[np.float64]:
        """Returns the score of each source, translation and reference, `[N]`, about 0 to 1."""
        rows = [
            dict(zip(("src", "mt", "ref"), row, strict=True)) for row in zip(*lines, strict=True)
        ]
        found = self._model.predict(rows, batch_size=BATCH_SIZE, gpus=self._gpus)
        return np.asarray(found.scores, np.float64)


def with_comet(
    scores: Scores,
    comet: Comet,
    sources: Sequence[str],
    hypotheses: Sequence[str],
    references: Sequence[str],
) -> Scores:
    """Returns scores with COMET and its interval.

    Args:
        scores: What there is of the same hypotheses.
        comet: The model.
        sources: The source lines.
        hypotheses: As many translations.
        references: As many others.

    Raises:
        UserError: If the counts differ.
    """
    if not len(sources) == len(hypotheses) == len(references):
        raise UserError(
            "COMET needs a source, a translation and a reference of each sentence. Received: "
            f"{len(sources):,}, {len(hypotheses):,} and {len(references):,}."
        )
    values = 100 * comet.sentences(sources, hypotheses, references)
    drawn = [float(often @ values) / len(values) for often in resamples(len(values))]
    intervals = {**scores.intervals, "comet": ends(drawn)}
    return dataclasses.replace(
        scores, comet=float(values.mean()), comet_model=comet.name, intervals=intervals
    )
