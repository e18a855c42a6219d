"""Requests that a server replays when it loads a model, so that no user meets it cold.

TensorFlow Serving reads them from `assets.extra/tf_serving_warmup_requests`, TFRecords of
`PredictionLog` messages. A server does not serve a model that fails on one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import tensorflow as tf
from tensorflow_serving.apis.prediction_log_pb2 import PredictionLog

from dtmt_tf.errors import UserError
from dtmt_tf.export.signatures import SIGNATURES
from dtmt_tf.translator.warmup import WARMUP_FILE

Request = tuple[str, dict[str, list[str]]]  # a signature's name; texts by the name of the input


def write_warmup(folder: str | os.PathLike[str], requests: Sequence[Request]) -> Path:
    """Writes the requests that a server replays before it serves a model.

    Args:
        folder: The version's folder, with `saved_model.pb`.
        requests: Names of signatures with their inputs, such as
            `("score", {"source": ["a dog"], "target": ["ein Hund"]})`.

    Returns:
        The file.

    Side effects:
        Writes `assets.extra/tf_serving_warmup_requests` below the folder.
    """
    path = Path(folder, WARMUP_FILE)
    path.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for signature, inputs in requests:
            log = PredictionLog()
            log.predict_log.request.model_spec.signature_name = signature
            for name, texts in inputs.items():
                tensor = tf.make_tensor_proto(texts, tf.string)
                log.predict_log.request.inputs[name].CopyFrom(tensor)
            writer.write(log.SerializeToString(deterministic=True))
    return path


def sample_pairs(
    sources: Iterable[str], targets: Iterable[str], count: int = 32
) -> list[tuple[str, str]]:
    """Returns pairs of every length, the same for the same sentences.

    They are the middles of as many equal groups, cut by the length of the source.

    Args:
        sources: Source sentences, such as those for validation.
        targets: Their translations.
        count: Number of pairs.

    Raises:
        UserError: If no pair has text on both sides.
    """
    pairs = sorted(
        (pair for pair in zip(sources, targets, strict=True) if all(map(str.strip, pair))),
        key=lambda pair: (len(pair[0]), pair),
    )
    if not pairs:
        raise UserError("Warm-up requests are made of pairs with text on both sides; none has.")
    return [pairs[(2 * k + 1) * len(pairs) // (2 * count)] for k in range(count)]


def sample_requests(
    pairs: Sequence[tuple[str, str]],
    count: int = 8,
    accepts: Callable[..., bool] = lambda name, *texts: True,
) -> list[Request]:
    """Returns two requests for every signature: one of a single pair, one of several.

    Args:
        pairs: A task's own sentences, as `sample_pairs` chooses them; the middle one stands alone.
        count: How many the other request has at most; they are of every length.
        accepts: Whether a model takes a request: a signature's name and its inputs. A request that
            it does not take has the shorter half of its pairs, and so on, down to none.
    """
    step = -(-len(pairs) // count)
    pairs = pairs[step // 2 :: step]
    middle = len(pairs) // 2
    requests = []
    for name, signature in SIGNATURES.items():
        for batch in (pairs[middle : middle + 1], pairs):
            while batch:
                inputs = {
                    key: [_text_for(key, *each) for each in batch] for key in signature.inputs
                }
                if accepts(name, *inputs.values()):
                    requests.append((name, inputs))
                    break
                batch = batch[: len(batch) // 2]
    return requests


def _text_for(key: str, source: str, target: str) -> str:
    """Returns what a pair gives to the input of a name."""
    return {
        "text": source,
        "source": source,
        "target": target,
        "prefix": target[: len(target) // 2],
    }[key]
