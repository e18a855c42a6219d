"""Requests that a server replays when it loads a model, so that no user meets it cold.

TensorFlow Serving reads them from `assets.extra/tf_serving_warmup_requests`, TFRecords of
`PredictionLog` messages. The messages are built here, with the field numbers of its
`prediction_log.proto`, `predict.proto` and `model.proto`, because the package that has them is
needed for nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from tensorflow.core.framework import tensor_pb2

from dtmt_tf.export.signatures import SIGNATURES

WARMUP_FILE = Path("assets.extra", "tf_serving_warmup_requests")
MAX_REQUESTS = 1000  # a server refuses a model with more

Request = tuple[str, dict[str, list[str]]]  # a signature's name; texts by the name of the input

_STRING, _BYTES = "string", "bytes"
# {message: {field: (number, type)}}; a star marks a repeated field. The map of the inputs is on the
# wire a list of pairs, and a TensorProto in it is its bytes.
_MESSAGES = {
    "PredictionLog": {"predict_log": (6, "PredictLog")},
    "PredictLog": {"request": (1, "PredictRequest")},
    "PredictRequest": {"model_spec": (1, "ModelSpec"), "inputs": (2, "Input*")},
    "ModelSpec": {"signature_name": (3, _STRING)},
    "Input": {"key": (1, _STRING), "value": (2, _BYTES)},
}


def _prediction_log_class() -> Any:
    """Returns the class of the messages."""
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="dtmt_tf/warmup.proto", package="dtmt_tf.warmup", syntax="proto3"
    )
    for message_name, fields in _MESSAGES.items():
        message = file.message_type.add(name=message_name)
        for name, (number, kind) in fields.items():
            label = kinds.LABEL_REPEATED if kind.endswith("*") else kinds.LABEL_OPTIONAL
            field = message.field.add(name=name, number=number, label=label)
            if kind in (_STRING, _BYTES):
                field.type = kinds.TYPE_STRING if kind == _STRING else kinds.TYPE_BYTES
            else:
                field.type = kinds.TYPE_MESSAGE
                field.type_name = f".{file.package}.{kind.removesuffix('*')}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(
        pool.FindMessageTypeByName(f"{file.package}.PredictionLog")
    )


_PredictionLog = _prediction_log_class()


def write_warmup(folder: str | os.PathLike[str], requests: Sequence[Request]) -> Path:
    """Writes the requests that a server replays before it serves a model.

    Args:
        folder: The version's folder, with `saved_model.pb`.
        requests: Names of signatures with their inputs, such as
            `("score", {"source": ["a dog"], "target": ["ein Hund"]})`.

    Returns:
        The file.

    Raises:
        ValueError: If there are more requests than a server takes.

    Side effects:
        Writes `assets.extra/tf_serving_warmup_requests` below the folder.
    """
    if len(requests) > MAX_REQUESTS:
        raise ValueError(
            f"A server takes at most {MAX_REQUESTS} warm-up requests. Received: {len(requests)}."
        )
    path = Path(folder, WARMUP_FILE)
    path.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for signature, inputs in requests:
            log = _PredictionLog()
            log.predict_log.request.model_spec.signature_name = signature
            for name, texts in inputs.items():
                tensor = tf.make_tensor_proto(texts, tf.string)
                log.predict_log.request.inputs.add(key=name, value=tensor.SerializeToString())
            writer.write(log.SerializeToString(deterministic=True))
    return path


def read_warmup(folder: str | os.PathLike[str]) -> list[tuple[str, dict[str, np.ndarray]]]:
    """Returns a model's warm-up requests: the signature's name, and arrays by name of the input.

    Args:
        folder: The version's folder.

    Raises:
        FileNotFoundError: If the model has none.
        tensorflow.errors.DataLossError: If the file is damaged.
        google.protobuf.message.DecodeError: If an entry is something else.
    """
    path = Path(folder, WARMUP_FILE)
    if not path.exists():
        raise FileNotFoundError(path)
    requests = []
    for entry in tf.data.TFRecordDataset(str(path)):
        request = _PredictionLog.FromString(entry.numpy()).predict_log.request
        inputs = {
            item.key: tf.make_ndarray(tensor_pb2.TensorProto.FromString(item.value))
            for item in request.inputs
        }
        requests.append((request.model_spec.signature_name, inputs))
    return requests


def sample_pairs(
    sources: Iterable[str], targets: Iterable[str], count: int = 8
) -> list[tuple[str, str]]:
    """Returns pairs of every length, the same for the same sentences.

    They are the middles of as many equal groups, cut by the length of the source.

    Args:
        sources: Source sentences, such as those for validation.
        targets: Their translations.
        count: Number of pairs.

    Raises:
        ValueError: If no pair has text on both sides.
    """
    pairs = sorted(
        (pair for pair in zip(sources, targets, strict=True) if all(map(str.strip, pair))),
        key=lambda pair: (len(pair[0]), pair),
    )
    if not pairs:
        raise ValueError("Warm-up requests are made of pairs with text on both sides; none has.")
    return [pairs[(2 * k + 1) * len(pairs) // (2 * count)] for k in range(count)]


def sample_requests(pairs: Sequence[tuple[str, str]]) -> list[Request]:
    """Returns two requests for every signature: one of a single pair, one of all.

    Args:
        pairs: A task's own sentences, as `sample_pairs` chooses them; the middle one stands alone.
    """
    middle = len(pairs) // 2
    batches = [pairs[middle : middle + 1], pairs]
    return [
        (name, {key: [_text_for(key, *pair) for pair in batch] for key in signature.inputs})
        for name, signature in SIGNATURES.items()
        for batch in batches
    ]


def _text_for(key: str, source: str, target: str) -> str:
    """Returns what a pair gives to the input of a name."""
    return {
        "text": source,
        "source": source,
        "target": target,
        "prefix": target[: len(target) // 2],
    }[key]
