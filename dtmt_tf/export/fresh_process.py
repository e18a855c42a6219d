"""Loads a model into a C++ session, answers its warm-up requests and translates, as a server does.

    python -P fresh_process.py VERSION_FOLDER LINES_AT_ONCE < texts.json > translations.json

A script on its own: it imports nothing of the package that made the model.
"""

import gc
import json
import sys
from pathlib import Path
from typing import Any

gc.disable()  # what is loaded stays
# TensorFlow imports these where they are installed; a model needs none of them
sys.modules.update(dict.fromkeys(("jax", "matplotlib", "sklearn")))  # type: ignore[arg-type]

import tensorflow as tf  # noqa: E402
import tensorflow_text  # noqa: E402, F401 - registers the sub-word operations
from tensorflow_serving.apis.prediction_log_pb2 import PredictionLog  # noqa: E402


def main() -> None:
    """Reads texts from standard input, writes translations to standard output."""
    folder, size = Path(sys.argv[1]), int(sys.argv[2])
    texts = json.load(sys.stdin)
    warmup = folder / "assets.extra" / "tf_serving_warmup_requests"
    records = tf.data.TFRecordDataset([str(warmup)] if warmup.exists() else [])
    requests = [PredictionLog.FromString(record.numpy()) for record in records]
    config = tf.compat.v1.ConfigProto()
    # optimising graphs that run once or twice takes longer than they do
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    with tf.Graph().as_default(), tf.compat.v1.Session(config=config) as session:
        # a server's loader: `tf.saved_model.load` also takes what fails there
        loaded = tf.compat.v1.saved_model.load(session, ["serve"], str(folder))
        signatures = dict(loaded.signature_def)  # a map of protobuf makes what it lacks

        def run(name: str, inputs: dict[str, Any]) -> dict[str, Any]:
            places = dict(signatures[name].inputs)
            fetches = {key: info.name for key, info in signatures[name].outputs.items()}
            feeds = {places[key].name: value for key, value in inputs.items()}
            found: dict[str, Any] = session.run(fetches, feeds)
            return found

        for log in requests:
            request = log.predict_log.request
            inputs = {key: tf.make_ndarray(value) for key, value in request.inputs.items()}
            run(request.model_spec.signature_name, inputs)
        translations = []
        for start in range(0, len(texts), size):
            outputs = run("serving_default", {"text": texts[start : start + size]})
            translations += [text.decode("utf-8", "replace") for text in outputs["translation"]]
    json.dump(translations, sys.stdout)


if __name__ == "__main__":
    main()
