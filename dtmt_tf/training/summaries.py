"""Scalars, translations and attention images for TensorBoard."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from matplotlib.figure import Figure

from dtmt_tf.models import TranslationModel
from dtmt_tf.training.step import Update


class Summaries:
    """Writes scalars, translations and attention images.

    Args:
        folder: Where the event files go.
        model: The model that is trained, built.
    """

    def __init__(self, folder: Path, model: TranslationModel) -> None:
        self.folder = folder
        order = {id(weight): k for k, weight in enumerate(model.trainable_variables)}
        self.depths = {
            name: [order[id(weight)] for weight in weights]
            for name, weights in model.depths().items()
        }

    @cached_property
    def writer(self) -> Any:
        """What writes the files; made when the first is written, which may fail."""
        return tf.summary.create_file_writer(str(self.folder))

    def update(self, step: int, update: Update, tokens_per_second: float) -> None:
        """Loss, perplexity, rate, speed, and the gradient's norm, whole and by depth."""
        norms = update.gradient_norms.numpy()
        with self.writer.as_default(step):
            tf.summary.scalar("train/loss", update.loss)
            tf.summary.scalar("train/perplexity", tf.exp(update.cross_entropy))
            tf.summary.scalar("train/learning_rate", update.learning_rate)
            tf.summary.scalar("train/tokens_per_second", tokens_per_second)
            tf.summary.scalar("train/gradient_norm", float(np.linalg.norm(norms)))
            for name, members in self.depths.items():
                tf.summary.scalar(f"gradient_norm/{name}", float(np.linalg.norm(norms[members])))

    def validation(
        self, step: int, scores: dict[str, float], samples: Sequence[tuple[str, str, str]]
    ) -> None:
        """Scores and a table of source, reference and translation."""
        rows = "\n".join("| " + " | ".join(_escape(cell) for cell in row) + " |" for row in samples)
        with self.writer.as_default(step):
            for name, value in scores.items():
                tf.summary.scalar(f"validation/{name}", value)
            tf.summary.text(
                "translations", f"| source | reference | translation |\n|---|---|---|\n{rows}"
            )
        self.writer.flush()

    def inspection(
        self, step: int, gates: dict[str, Any], attention: np.ndarray, words: Sequence[list[str]]
    ) -> None:
        """Mean gate values, and one attention image for each pair.

        Args:
            step: Updates done.
            gates: Scalars by name.
            attention: Weights, `[B, T, S]`.
            words: Source and target sub-words of each pair, in turn: 2B lists.
        """
        with self.writer.as_default(step):
            for name, value in gates.items():
                tf.summary.scalar(f"gates/{name}", value)
            for k, weights in enumerate(attention):
                source, target = words[2 * k], words[2 * k + 1]
                image = attention_image(weights[: len(target), : len(source)], source, target)
                tf.summary.image(f"attention/{k}", image[None])
        self.writer.flush()


def attention_image(weights: np.ndarray, source: list[str], target: list[str]) -> np.ndarray:
    """Draws weights `[T, S]` with source words above and target words at the left.

    Returns:
        RGBA, `[height, width, 4]` uint8.
    """
    figure = Figure(figsize=(1.6 + 0.3 * len(source), 1.2 + 0.25 * len(target)), dpi=80)
    axes = figure.add_subplot()
    axes.imshow(weights, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
    axes.xaxis.tick_top()
    axes.set_xticks(range(len(source)), source, rotation=60, ha="left", parse_math=False)
    axes.set_yticks(range(len(target)), target, parse_math=False)
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # drawn as boxes
        figure.tight_layout()
        figure.savefig(buffer, format="png")
    return tf.io.decode_png(buffer.getvalue(), channels=4).numpy()


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
