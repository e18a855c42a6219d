"""The exported model as a Python function."""

from __future__ import annotations

from pathlib import Path

import tensorflow as tf
import tensorflow_text  # noqa: F401 - registers the sub-word operations
from google.protobuf.message import DecodeError

from dtmt_tf.errors import UserError
from dtmt_tf.quiet import quiet_stderr

OUTPUTS = ("translation", "score")
# what loading a damaged file, or a model of another program, can end in
FOREIGN = (
    *(OSError, KeyError, ValueError, TypeError, AttributeError, IndexError, RuntimeError),
    *(DecodeError, tf.errors.OpError),
)


class Translator:
    """Runs an exported SavedModel; needs nothing of the package that made it.

    Args:
        folder: A version's folder, with `saved_model.pb`.

    Raises:
        UserError: If there is no model, or it is damaged or does not translate.
    """

    def __init__(self, folder: Path) -> None:
        if not (folder / "saved_model.pb").exists():
            raise UserError(f"{folder} holds no SavedModel. dtmt export makes one.")
        self.folder = folder
        try:
            with quiet_stderr():  # the sub-words announce their empty normalisation
                self._model = tf.saved_model.load(str(folder))
            self._signature = self._model.signatures["serving_default"]
        except FOREIGN as error:
            raise UserError(
                f"{folder} holds no SavedModel that could be loaded ({type(error).__name__}): it "
                "is damaged, or of another program. dtmt verify says what is damaged; dtmt export "
                "makes a new one."
            ) from error

        _, inputs = self._signature.structured_input_signature
        outputs = self._signature.structured_outputs
        text = inputs.get("text")
        if list(inputs) != ["text"] or text.dtype != tf.string or not {*OUTPUTS} <= {*outputs}:
            raise UserError(
                f"{folder} holds a SavedModel that does not translate: it takes "
                f"{', '.join(inputs) or 'nothing'} and gives {', '.join(outputs) or 'nothing'}. "
                "dtmt export makes one that does."
            )

    def __call__(self, texts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Translates strings `[B]`; returns translations and scores, `[B]` each.

        Texts that are together more than the model takes at once are translated in several calls.

        Raises:
            UserError: If the model refuses one alone.
        """
        try:
            outputs = self._signature(text=texts)
        except tf.errors.InvalidArgumentError as error:
            half = texts.shape[0] // 2
            if not half:
                raise UserError(_refusal(self.folder, texts, error.message)) from error
            pairs = zip(self(texts[:half]), self(texts[half:]), strict=True)
            translation, score = (tf.concat(pair, axis=0) for pair in pairs)
            return translation, score
        translation, score = (outputs[name] for name in OUTPUTS)
        if not translation.shape == score.shape == texts.shape:
            raise UserError(
                f"{self.folder} gives {translation.shape[0]} translations and {score.shape[0]} "
                f"scores of {texts.shape[0]} lines."
            )
        return translation, score


def _refusal(folder: Path, texts: tf.Tensor, message: str) -> str:
    """Says which line a model refuses, and why, by its own message."""
    lines = [f"{text.decode('utf-8', 'replace')[:50]!r}" for text in texts.numpy()]
    reason = message.partition("assertion failed: ")[2].partition("\n")[0] or message
    return (
        f"{folder} refuses the line that begins with {''.join(lines)}: {reason} "
        "dtmt export --set makes a model with other limits."
    )
