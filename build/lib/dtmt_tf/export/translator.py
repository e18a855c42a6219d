"""The exported model as a Python function."""

from __future__ import annotations

from pathlib import Path

import tensorflow as tf
import tensorflow_text  # noqa: F401 - registers the sub-word operations

from dtmt_tf.errors import UserError
from dtmt_tf.quiet import quiet_stderr


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
        except (OSError, KeyError, tf.errors.OpError) as error:
            raise UserError(
                f"{folder} holds no SavedModel that could be loaded ({type(error).__name__}). "
                "dtmt export makes one."
            ) from error

    def __call__(self, texts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Translates strings `[B]`; returns translations and scores, `[B]` each."""
        outputs = self._signature(text=texts)
        return outputs["translation"], outputs["score"]


def latest_version(folder: Path) -> Path:
    """Returns the newest exported version below a model's folder.

    Raises:
        UserError: If there is none.
    """
    versions = [path for path in folder.glob("*") if path.name.isdigit()]
    if not versions:
        raise UserError(f"{folder} holds no exported model. dtmt export makes one.")
    return max(versions, key=lambda path: int(path.name))
