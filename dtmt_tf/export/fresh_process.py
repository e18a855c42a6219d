"""Loads a model, answers its warm-up requests and translates: all that a server has to do.

    python -P fresh_process.py VERSION_FOLDER LINES_AT_ONCE < texts.json > translations.json

A script on its own: it imports nothing of the package that made the model.
"""

import gc
import json
import sys
from pathlib import Path

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
    # optimising graphs that run once or twice takes longer than they do
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    signatures = tf.saved_model.load(str(folder)).signatures
    warmup = folder / "assets.extra" / "tf_serving_warmup_requests"
    if warmup.exists():
        for entry in tf.data.TFRecordDataset(str(warmup)):
            request = PredictionLog.FromString(entry.numpy()).predict_log.request
            inputs = {key: tf.make_ndarray(value) for key, value in request.inputs.items()}
            signatures[request.model_spec.signature_name](
                **{key: tf.constant(value) for key, value in inputs.items()}
            )
    translations = []
    for start in range(0, len(texts), size):
        outputs = signatures["serving_default"](text=tf.constant(texts[start : start + size]))
        translations += [text.decode("utf-8", "replace") for text in outputs["translation"].numpy()]
    json.dump(translations, sys.stdout)


if __name__ == "__main__":
    main()
