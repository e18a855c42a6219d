"""Weights to a SavedModel that takes and returns strings."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from dtmt_tf.config import ExportConfig
from dtmt_tf.errors import UserError
from dtmt_tf.export.endpoints import Endpoints, Tensors
from dtmt_tf.export.limits import limit_lines
from dtmt_tf.export.servable import check_servable
from dtmt_tf.export.signatures import SIGNATURES
from dtmt_tf.export.translator import VERSION
from dtmt_tf.export.warmup import Request, write_warmup


def next_version(folder: Path) -> int:
    """Returns 1 more than the highest version below a folder."""
    versions = [int(path.name) for path in folder.glob("*") if VERSION.fullmatch(path.name)]
    return max(versions, default=0) + 1


def export_saved_model(
    endpoints: Endpoints,
    folder: Path,
    card: Mapping[str, Any],
    files: Mapping[str, Any],
    warmup: Sequence[Request] = (),
) -> Path:
    """Writes `<folder>/<version>/`, a SavedModel with the search and the sub-words inside.

    Args:
        endpoints: What it answers, see `SIGNATURES`; the weights are copied.
        folder: Where versions are kept; the new one gets the next number.
        card: What `info` answers.
        files: What goes with it, by name: text, or what JSON holds.
        warmup: Requests that a server replays when it loads the model.

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
    answer = json.dumps(card, ensure_ascii=False)
    functions = {
        "serving_default": endpoints.translate,
        "info": lambda text: {"info": tf.fill(tf.shape(text), answer)},
    }
    archive = keras.export.ExportArchive()
    archive.track(endpoints.model)
    archive.track(endpoints.source.tokenizer)
    if endpoints.target is not endpoints.source:
        archive.track(endpoints.target.tokenizer)
    for name, signature in SIGNATURES.items():
        function = functions.get(name) or getattr(endpoints, name)
        specs = [tf.TensorSpec([None], tf.string, each) for each in signature.inputs]
        archive.add_endpoint(name, _checked(function, endpoints.limits), input_signature=specs)
    archive.write_out(str(partial), verbose=False)
    if warmup:
        write_warmup(partial, warmup)
    problems = check_servable(partial)
    if problems:
        raise UserError(f"{partial} could not be served:\n  " + "\n  ".join(problems))
    for name, content in files.items():
        if not isinstance(content, str):
            content = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        (partial / name).write_text(content, encoding="utf-8")
    partial.rename(version)
    return version


def _checked(
    function: Callable[..., Tensors], limits: ExportConfig | None
) -> Callable[..., Tensors]:
    """Makes an endpoint refuse what is not `[B]`, of different B, or beyond the limits."""
    return lambda *texts: function(*limit_lines(limits, *texts))
