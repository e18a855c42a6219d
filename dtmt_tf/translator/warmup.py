"""The requests that a model brings along, for a server to replay when it loads it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import tensorflow as tf
from tensorflow_serving.apis.prediction_log_pb2 import PredictionLog

WARMUP_FILE = Path("assets.extra", "tf_serving_warmup_requests")  # TensorFlow Serving's name


def read_warmup(folder: Path) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    """Yields warm-up requests: the signature's name, and arrays by name of the input.

    Args:
        folder: The version's folder; without the file it has none.
    """
    path = folder / WARMUP_FILE
    for entry in tf.data.TFRecordDataset(str(path)) if path.exists() else ():
        request = PredictionLog.FromString(entry.numpy()).predict_log.request
        inputs = {name: tf.make_ndarray(tensor) for name, tensor in request.inputs.items()}
        yield request.model_spec.signature_name, inputs
