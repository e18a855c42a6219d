"""The exported model as Python functions."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import tensorflow as tf
import tensorflow_text  # noqa: F401 - registers the sub-word operations
from google.protobuf.message import DecodeError

from dtmt_tf.errors import UserError
from dtmt_tf.export.signatures import SIGNATURES
from dtmt_tf.quiet import quiet_stderr

# what loading a damaged file, or a model of another program, can end in
FOREIGN = (
    *(OSError, KeyError, ValueError, TypeError, AttributeError, IndexError, RuntimeError),
    *(DecodeError, tf.errors.OpError),
)


class Exported:
    """One signature of an exported SavedModel; needs nothing of the package that made it.

    Args:
        folder: A version's folder, with `saved_model.pb`.

    Raises:
        UserError: If there is no model, or it is damaged or does something else.
    """

    signature: ClassVar[str]
    does: ClassVar[str]  # what a model without that signature does not

    def __init__(self, folder: Path) -> None:
        if not (folder / "saved_model.pb").exists():
            raise UserError(f"{folder} holds no SavedModel. dtmt export makes one.")
        self.folder = folder
        try:
            with quiet_stderr():  # the sub-words announce their empty normalisation
                self._model = tf.saved_model.load(str(folder))
            self._signature = self._model.signatures[self.signature]
        except FOREIGN as error:
            raise UserError(
                f"{folder} holds no SavedModel that could be loaded ({type(error).__name__}): it "
                "is damaged, or of another program. dtmt verify says what is damaged; dtmt export "
                "makes a new one."
            ) from error

        wanted = SIGNATURES[self.signature]
        _, inputs = self._signature.structured_input_signature
        outputs = self._signature.structured_outputs
        of_texts = all(spec.dtype == tf.string for spec in inputs.values())
        if {*inputs} != {*wanted.inputs} or not of_texts or not {*wanted.outputs} <= {*outputs}:
            raise UserError(
                f"{folder} holds a SavedModel that does not {self.does}: it takes "
                f"{', '.join(inputs) or 'nothing'} and gives {', '.join(outputs) or 'nothing'}. "
                "dtmt export makes one that does."
            )
        self._names = wanted

    def __call__(self, *texts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Gives the signature strings `[B]` for each input; returns its two outputs, `[B]` each.

        Texts that are together more than the model takes at once are given in several calls.

        Raises:
            UserError: If the model refuses one alone.
        """
        try:
            found = self._signature(**dict(zip(self._names.inputs, texts, strict=True)))
        except tf.errors.InvalidArgumentError as error:
            half = texts[0].shape[0] // 2
            if not half:
                raise UserError(_refusal(self.folder, texts[-1], error.message)) from error
            parts = [[text[:half] for text in texts], [text[half:] for text in texts]]
            pairs = zip(*(self(*part) for part in parts), strict=True)
            first, second = (tf.concat(pair, axis=0) for pair in pairs)
            return first, second
        first, second = (found[name] for name in self._names.outputs)
        if not first.shape == second.shape == texts[0].shape:
            raise UserError(
                f"{self.folder} gives {first.shape[0]} of {self._names.outputs[0]} and "
                f"{second.shape[0]} of {self._names.outputs[1]} for {texts[0].shape[0]} lines."
            )
        return first, second


class Translator(Exported):
    """Translates: strings `[B]` to translations and scores, `[B]` each."""

    signature = "serving_default"
    does = "translate"


class Scorer(Exported):
    """Scores sources and translations `[B]`: log probabilities and numbers of sub-words, `[B]`."""

    signature = "score"
    does = "score translations"


def _refusal(folder: Path, texts: tf.Tensor, message: str) -> str:
    """Says which line a model refuses, and why, by its own message."""
    lines = [f"{text.decode('utf-8', 'replace')[:50]!r}" for text in texts.numpy()]
    reason = message.partition("assertion failed: ")[2].partition("\n")[0] or message
    return (
        f"{folder} refuses the line that begins with {''.join(lines)}: {reason} "
        "dtmt export --set makes a model with other limits."
    )
