"""Numbers, translations, attention and settings for TensorBoard, and numbers for trackers."""

from __future__ import annotations

import contextlib
import logging
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorboard.plugins.hparams import api as hparams

from dtmt_tf.models import TranslationModel
from dtmt_tf.training.step import Update
from dtmt_tf.training.tracking import Tracker, Value

_log = logging.getLogger(__name__)

# TensorBoard sorts headings, and names below each, by the alphabet: what says whether a training
# goes well comes first, what explains it last.
LOSS, VALIDATION_LOSS = "1 progress/loss", "1 progress/validation loss"
VALIDATION_BLEU = "1 progress/validation BLEU"
VALIDATION, TRAINING, ATTENTION = "2 validation", "3 training", "4 attention"
NORMS, GATES = "5 gradient norms", "6 gates"
SCORES = {  # of a validation; others stand below `VALIDATION` under their own names
    "bleu": VALIDATION_BLEU,
    "cross_entropy": VALIDATION_LOSS,
    "chrf": f"{VALIDATION}/chrF",
}
DESCRIPTIONS = {  # of a name, or of all below a heading; Markdown
    LOSS: "Of the update's batch, nats a target token: smoothed cross entropy less the least it "
    "can be, and R-Drop's part. Lower is better; it counts otherwise than the validation loss.",
    VALIDATION_LOSS: "Plain cross entropy of the validation split, nats a target token. It begins "
    "to rise where the model begins to learn its text by heart.",
    VALIDATION_BLEU: "sacreBLEU of the validation split, translated as the exported model does, by "
    "the present weights or their moving average. `scores.json` has its signature.",
    f"{VALIDATION}/chrF": "sacreBLEU's chrF2 of the same translations.",
    f"{VALIDATION}/perplexity": "The exponential of the validation loss.",
    f"{VALIDATION}/exact match": "Translations that are the reference to the letter, per cent.",
    f"{TRAINING}/gradient norm": "Before it is clipped to `training.clip_norm`. Peaks that stay "
    "ask for a lower rate.",
    f"{TRAINING}/learning rate": "By `training.schedule`.",
    f"{TRAINING}/perplexity": "The exponential of the batch's plain cross entropy.",
    f"{TRAINING}/target tokens a second": "Without the time of validations.",
    NORMS: "Of the gradient by the weights of one layer or transition, before clipping: whether "
    "the deep ones still learn.",
    GATES: "Mean over real tokens of a few pairs. `z` near 0: the state passes unchanged, in "
    "a LAU if `g` is, too; in Nematus's GRUs it is `u` near 1. `l`: how much of the linear path an "
    "L-GRU takes.",
    ATTENTION: "Rows are sub-words of the reference, columns of the source; a row adds up to 1, "
    "the mean of all heads. The button below an image shows it in its own size.",
    "translations": "The first validation pairs.",
}
MAX_DRAWN = 100  # sub-words of each side that an attention map shows: 20 pixels each
LONG = 25  # sub-words, from which on an attention map has labels on both sides


class Summaries:
    """Writes numbers, translations and attention images.

    Args:
        folder: Where the event files go.
        model: The model that is trained, built.
        settings: What TensorBoard's tab of hyperparameters shows, by name.
        name: What it calls the run there, in all its sessions.

    Attributes:
        trackers: What else is told the numbers; one that fails is left out from then on.
    """

    def __init__(
        self,
        folder: Path,
        model: TranslationModel,
        settings: Mapping[str, Value] | None = None,
        name: str = "run",
    ) -> None:
        self.folder = folder
        self.name = name
        self.failed = False  # whether the files could not be written
        self.settings = dict(settings or {})
        self.trackers: list[Tracker] = []
        order = {id(weight): k for k, weight in enumerate(model.trainable_variables)}
        self.depths = {
            name: [order[id(weight)] for weight in weights]
            for name, weights in model.depths().items()
        }

    @cached_property
    def writer(self) -> Any:
        """What writes the files; made, and told the settings, at first use, which may fail."""
        writer = tf.summary.create_file_writer(str(self.folder))
        if self.settings:
            shown = [(LOSS, "loss"), (VALIDATION_LOSS, "validation loss")]
            shown.append((VALIDATION_BLEU, "validation BLEU"))
            with writer.as_default():
                hparams.hparams_config(
                    hparams=[hparams.HParam(name) for name in self.settings],
                    metrics=[hparams.Metric(tag, display_name=name) for tag, name in shown],
                )
                hparams.hparams(self.settings, trial_id=self.name)
        return writer

    def update(self, step: int, update: Update, tokens_per_second: float) -> None:
        """Loss, perplexity, rate, speed, and the gradient's norm, whole and by depth."""
        norms = update.gradient_norms.numpy()
        values = {
            LOSS: update.loss,
            f"{TRAINING}/perplexity": tf.exp(update.cross_entropy),
            f"{TRAINING}/learning rate": update.learning_rate,
            f"{TRAINING}/target tokens a second": tokens_per_second,
            f"{TRAINING}/gradient norm": np.linalg.norm(norms),
        }
        for name, members in self.depths.items():
            values[f"{NORMS}/{name}"] = np.linalg.norm(norms[members])
        self._numbers(step, values)

    def validation(
        self, step: int, scores: dict[str, float], samples: Sequence[tuple[str, str, str]]
    ) -> None:
        """Scores and a table of source, reference and translation."""
        rows = "\n".join("| " + " | ".join(_escape(cell) for cell in row) + " |" for row in samples)
        plain = {name: f"{VALIDATION}/{name.replace('_', ' ')}" for name in scores}
        self._numbers(step, {SCORES.get(k, plain[k]): value for k, value in scores.items()})
        table = f"| source | reference | translation |\n|---|---|---|\n{rows}"
        about = DESCRIPTIONS["translations"]
        self._write(step, lambda: tf.summary.text("translations", table, description=about))

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
        self._numbers(step, {f"{GATES}/{name}": value for name, value in gates.items()})

        def write() -> None:
            for k, weights in enumerate(attention):
                source, target = words[2 * k], words[2 * k + 1]
                image = attention_image(weights[: len(target), : len(source)], source, target)
                tf.summary.image(
                    f"{ATTENTION}/pair {k + 1}", image[None], description=DESCRIPTIONS[ATTENTION]
                )

        self._write(step, write)

    def close(self) -> None:
        """Ends the trackers' sessions, and the files if there are any."""
        self._tell(lambda tracker: tracker.close())
        if "writer" in self.__dict__:
            with contextlib.suppress(OSError, tf.errors.OpError):  # each write was flushed
                self.writer.close()

    def _numbers(self, step: int, values: Mapping[str, Any]) -> None:
        """Writes numbers by name, and tells the trackers."""
        plain = {name: float(value) for name, value in values.items()}
        self._tell(lambda tracker: tracker.log(step, plain))

        def write() -> None:
            for name, value in plain.items():
                heading = name.partition("/")[0]
                about = DESCRIPTIONS.get(name) or DESCRIPTIONS.get(heading)
                tf.summary.scalar(name, value, description=about)

        self._write(step, write)

    def _write(self, step: int, write: Callable[[], None]) -> None:
        """Writes something into the files, until that fails: training does not need them."""
        if self.failed:
            return
        try:
            with self.writer.as_default(step):
                write()
            self.writer.flush()
        except (OSError, tf.errors.OpError) as error:
            self.failed = True
            _log.warning(
                "TensorBoard's files can not be written (%s). Training goes on without them; "
                "the next start writes them again.",
                str(error).splitlines()[0],
            )

    def _tell(self, call: Callable[[Tracker], None]) -> None:
        for tracker in list(self.trackers):
            try:
                call(tracker)
            except Exception as error:  # a service that is away does not end a training
                self.trackers.remove(tracker)
                _log.warning(
                    "%s failed (%s). Training goes on without it.", type(tracker).__name__, error
                )


def attention_image(weights: np.ndarray, source: list[str], target: list[str]) -> np.ndarray:
    """Draws weights `[T, S]` with source words above and target words at the left.

    Of long texts the first sub-words are shown.

    Returns:
        RGBA, `[height, width, 4]` uint8.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    weights, source, target = (
        weights[:MAX_DRAWN, :MAX_DRAWN],
        source[:MAX_DRAWN],
        target[:MAX_DRAWN],
    )
    figure = Figure(figsize=(1.6 + 0.25 * len(source), 1.2 + 0.25 * len(target)), dpi=80)
    axes = figure.add_subplot()
    axes.imshow(weights, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
    axes.set_xticks(range(len(source)), source, rotation=90, parse_math=False)
    axes.set_yticks(range(len(target)), target, parse_math=False)
    wide, high = len(source) >= LONG, len(target) >= LONG
    axes.tick_params(top=True, labeltop=True, bottom=high, labelbottom=high)
    axes.tick_params(right=wide, labelright=wide)
    axes.set_xticks(np.arange(len(source) + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(len(target) + 1) - 0.5, minor=True)
    axes.grid(which="minor", color="0.85", linewidth=0.5)
    axes.tick_params(which="minor", length=0)
    canvas = FigureCanvasAgg(figure)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # drawn as boxes
        figure.tight_layout()
        canvas.draw()
    return np.asarray(canvas.buffer_rgba())


def _escape(text: str) -> str:
    return re.sub(r"[\\`|]", r"\\\g<0>", text).replace("\n", " ")
