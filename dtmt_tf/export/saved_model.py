"""Weights to a SavedModel that takes and returns strings."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from dtmt_tf.config import EOS_ID, DecodingConfig
from dtmt_tf.decoding import make_search, translate_texts
from dtmt_tf.errors import UserError
from dtmt_tf.export.gate import check_saved_model
from dtmt_tf.models import TranslationModel
from dtmt_tf.text import Vocabulary


def next_version(folder: Path) -> int:
    """Returns 1 more than the highest version below a folder."""
    versions = [int(path.name) for path in folder.glob("*") if path.name.isdigit()]
    return max(versions, default=0) + 1


def export_saved_model(
    model: TranslationModel,
    vocabulary: Vocabulary,
    decoding: DecodingConfig,
    folder: Path,
    records: Mapping[str, Any],
) -> Path:
    """Writes `<folder>/<version>/`, a SavedModel with the search and the sub-words inside.

    `serving_default` takes `text`, strings `[B]`, and returns `translation`, strings `[B]`, and
    `score`, float32 `[B]`.

    Args:
        model: The model; its weights are copied.
        vocabulary: Its sub-words.
        decoding: Beam size and length penalty, fixed from here on.
        folder: Where versions are kept; the new one gets the next number.
        records: JSON files that go with it, by name, such as `experiment.json`.

    Returns:
        The version's folder.

    Raises:
        UserError: If the result could not be served; the reasons name function and node.

    Side effects:
        Writes under another name and renames at the end, so that a server polling `folder` never
        sees half a model.
    """
    version = folder / str(next_version(folder))
    partial = folder / f"{version.name}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    search = make_search(model.encode, model.advance, decoding, EOS_ID)

    def translate(text: tf.Tensor) -> dict[str, tf.Tensor]:
        translation, score = translate_texts(text, vocabulary.source, vocabulary.target, search)
        return {
            "translation": tf.ensure_shape(translation, [None]),
            "score": tf.ensure_shape(score, [None]),
        }

    archive = keras.export.ExportArchive()
    archive.track(model)
    archive.track(vocabulary.source.tokenizer)
    if vocabulary.target is not vocabulary.source:
        archive.track(vocabulary.target.tokenizer)
    archive.add_endpoint(
        "serving_default", translate, input_signature=[tf.TensorSpec([None], tf.string, "text")]
    )
    archive.write_out(str(partial), verbose=False)
    problems = check_saved_model(partial)
    if problems:
        raise UserError(f"{partial} could not be served:\n  " + "\n  ".join(problems))
    for name, values in records.items():
        text = json.dumps(values, indent=2, ensure_ascii=False) + "\n"
        (partial / name).write_text(text, encoding="utf-8")
    partial.rename(version)
    return version
