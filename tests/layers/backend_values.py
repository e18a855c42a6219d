"""What the models compute from fixed weights, by whatever backend Keras runs on.

Run as a program it prints the values as JSON, without TensorFlow: its import is made to fail.
"""

import json
import sys

if __name__ == "__main__":
    sys.modules["tensorflow"] = None

import keras
import numpy as np

from dtmt_tf.config import TrainingConfig
from dtmt_tf.models import (
    DeepLAUConfig,
    DeepRNNConfig,
    DTMTConfig,
    RecurrenceTransformerConfig,
)

SOURCE = np.array([[4, 5, 6, 7, 1], [3, 2, 1, 0, 0]])
TARGET = np.array([[8, 2, 9, 1], [5, 1, 0, 0]])
WORDS = 11
SIZES = {"embedding_dim": 6, "units": 8}
LAYERS = {"encoder_depth": 2, "decoder_depth": 2}
STATES = {"recurrence_layers": 2, "recurrence_steps": 2, "relative_distance": 2}
CONFIGS = {
    "dtmt": DTMTConfig(**SIZES, num_heads=2, query_cell="gru", decoder_cell="lau", query_depth=0),
    "deep_rnn": DeepRNNConfig(**SIZES, **LAYERS, encoder_above=1, high_cell="rgru"),
    "deep_lau": DeepLAUConfig(**SIZES, **LAYERS, cell="gru", connection="fast_forward"),
    "transformer": RecurrenceTransformerConfig(8, 16, 2, 1, 2, **STATES, fusion="gated_sum"),
}


def values():
    """Logits of each model, `[B, T, V]`."""
    found, rng = {}, np.random.default_rng(0)
    for name, config in CONFIGS.items():
        model = config.build(WORDS, WORDS, TrainingConfig())
        for variable in model.weights:
            variable.assign(rng.uniform(-0.5, 0.5, size=variable.shape).astype("float32"))
        found[name] = keras.ops.convert_to_numpy(model(SOURCE, TARGET))
    return found


if __name__ == "__main__":
    report = {name: value.tolist() for name, value in values().items()}
    print(json.dumps({"backend": keras.backend.backend(), **report}))
