"""The exported model as a Python function."""

from __future__ import annotations

import re
from pathlib import Path

import tensorflow as tf
import tensorflow_text  # noqa: F401 - registers the sub-word operations

from dtmt_tf.errors import UserError
from dtmt_tf.quiet import quiet_stderr

OUTPUTS = ("translation", "score")
VERSION = re.compile(r"[0-9]{1,18}")  # how a server reads them


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
        except (OSError, KeyError, ValueError, AttributeError, tf.errors.OpError) as error:
            raise UserError(
                f"{folder} holds no SavedModel that could be loaded ({type(error).__name__}). "
                "dtmt export makes one."
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

        Raises:
            UserError: If the model refuses the strings.
        """
        try:
            outputs = self._signature(text=texts)
        except tf.errors.InvalidArgumentError as error:
            raise UserError(f"{self.folder} refuses the text: {error.message}") from error
        translation, score = (outputs[name] for name in OUTPUTS)
        if not translation.shape == score.shape == texts.shape:
            raise UserError(
                f"{self.folder} gives {translation.shape[0]} translations and {score.shape[0]} "
                f"scores of {texts.shape[0]} lines."
            )
        return translation, score


def latest_version(folder: Path) -> Path:
    """Returns the newest exported version below a model's folder.

    Raises:
        UserError: If there is none.
    """
    versions = [path for path in folder.glob("*") if VERSION.fullmatch(path.name)]
    if not versions:
        raise UserError(f"{folder} holds no exported model. dtmt export makes one.")
    return max(versions, key=lambda path: int(path.name))
