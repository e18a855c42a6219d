"""An exported SavedModel and its signatures, as functions of strings."""

from __future__ import annotations

import functools
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError

from dtmt_tf.errors import Refused, UserError
from dtmt_tf.quiet import quiet_stderr
from dtmt_tf.translator.places import MODEL
from dtmt_tf.translator.session import Session, reason

TRANSLATE = "serving_default"
OUTPUTS = ("translation", "score")
# what loading a damaged file, or a model of another program, can end in
FOREIGN = (
    *(OSError, KeyError, ValueError, TypeError, AttributeError, IndexError, RuntimeError),
    *(DecodeError, tf.errors.OpError),
)

Row = dict[str, Any]  # the outputs of a signature for one text, by name


class ExportedModel:
    """Runs an exported SavedModel; needs nothing of the package that made it.

    Several threads may call it at once.

    Args:
        folder: A version's folder, with `saved_model.pb`.

    Raises:
        UserError: If there is no model, or it is damaged or does not translate.
    """

    def __init__(self, folder: Path) -> None:
        if not (folder / MODEL).exists():
            raise UserError(f"{folder} holds no SavedModel. dtmt export makes one.")
        self.folder = folder
        self._first, self._ready = threading.Lock(), set[str]()
        try:
            self._session = Session(folder)
            signature = self._session.signatures[TRANSLATE]
        except FOREIGN as error:
            raise _not_loaded(folder, error) from error
        inputs, outputs = signature.inputs, signature.outputs
        given = [(name, info.dtype) for name, info in inputs.items()]
        if given != [("text", tf.string.as_datatype_enum)] or not {*OUTPUTS} <= {*outputs}:
            raise UserError(
                f"{folder} holds a SavedModel that does not translate: it takes "
                f"{', '.join(inputs) or 'nothing'} and gives {', '.join(outputs) or 'nothing'}. "
                "dtmt export makes one that does."
            )

    def answers(self, name: str) -> bool:
        """Whether the model has a signature."""
        return name in self._session.signatures

    @functools.cached_property
    def _model(self) -> Any:
        """The model once more, as TensorFlow's Python has it: it takes longer to load."""
        try:
            with quiet_stderr():  # the sub-words announce their empty normalisation
                return tf.saved_model.load(str(self.folder))
        except FOREIGN as error:
            raise _not_loaded(self.folder, error) from error

    @property
    def steps(self) -> Any:
        """The parts of a search, see `dtmt_tf.export.steps`.

        Raises:
            UserError: If an earlier version has exported the model, without them.
        """
        if not hasattr(self._model, "steps"):
            raise UserError(
                f"{self.folder} searches in its own way alone: an earlier version has exported it. "
                "dtmt export makes a model that also samples."
            )
        return self._model.steps

    def ask(self, name: str, **inputs: Sequence[str]) -> list[Row]:
        """Calls a signature with as many strings for each input.

        Texts that are together more than the model takes at once are sent in several calls.

        Args:
            name: A signature.
            inputs: Strings by the names of the inputs.

        Returns:
            For each string its outputs as NumPy has them: strings are bytes; the outputs of
            strings sent together are padded alike.

        Raises:
            UserError: If there is no such signature.
            Refused: If the model refuses one string alone.
        """
        if not self.answers(name):
            raise UserError(
                f"{self.folder} does not answer {name!r}. dtmt export makes a model that does."
            )
        arrays = {key: np.array([text.encode("utf-8", "replace") for text in texts], object)
                  for key, texts in inputs.items()}  # fmt: skip
        count = len(next(iter(inputs.values())))
        try:
            outputs = self._run(name, arrays)
        except tf.errors.InvalidArgumentError as error:
            half = count // 2
            if not half:
                raise self.refusal([text for (text,) in inputs.values()], error) from error
            halves = (slice(half), slice(half, None))
            parts = [{key: texts[part] for key, texts in inputs.items()} for part in halves]
            return [row for part in parts for row in self.ask(name, **part)]
        sizes = {key: len(value) for key, value in outputs.items() if len(value) != count}
        if sizes:
            told = ", ".join(f"{size} of {key!r}" for key, size in sizes.items())
            raise UserError(f"{self.folder} gives {told} for {count} lines.")
        return [{key: value[k] for key, value in outputs.items()} for k in range(count)]

    def refusal(self, texts: Sequence[str], error: tf.errors.OpError) -> Refused:
        """Returns what to raise for texts that the model refuses: the longest, and why."""
        longest = max(texts, key=len)
        return Refused(
            f"{self.folder} refuses the line that begins with {longest[:50]!r}: "
            f"{reason(error.message)} dtmt export --set makes a model with other limits."
        )

    def _run(self, name: str, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        if name in self._ready:
            return self._session.run(name, arrays)
        with self._first:  # it makes what runs the signature: others wait, or all would make it
            outputs = self._session.run(name, arrays)
        self._ready.add(name)
        return outputs


def _not_loaded(folder: Path, error: Exception) -> UserError:
    return UserError(
        f"{folder} holds no SavedModel that could be loaded ({type(error).__name__}): it is "
        "damaged, or of another program. dtmt verify says what is damaged; dtmt export makes a "
        "new one."
    )
