"""What the layers compute from fixed weights, by whatever backend Keras runs on.

Run as a program it prints the values as JSON, without TensorFlow: its import is made to fail.
"""

import json
import sys

if __name__ == "__main__":
    sys.modules["tensorflow"] = None

import keras
import numpy as np

from dtmt_tf.cells import DeepTransitionCell, GRUCell, LGRUCell, TGRUCell
from dtmt_tf.layers import (
    BidirectionalEncoder,
    MultiHeadAdditiveAttention,
    Readout,
    TokenEmbedding,
    TransitionDecoderCell,
    TransitionRNN,
)

EMBEDDING, UNITS, HEADS, WORDS = 6, 8, 2, 11
SOURCE = np.array([[4, 5, 6, 7, 1], [3, 2, 1, 0, 0]])
TARGET = np.array([[8, 2, 9, 1], [5, 1, 0, 0]])


def module(first):
    """One first cell and two T-GRUs."""
    return DeepTransitionCell([first(UNITS), TGRUCell(UNITS), TGRUCell(UNITS)])


def values():
    """Embeddings, annotations, decoder outputs and logits, as arrays."""
    embedding = TokenEmbedding(WORDS, EMBEDDING)
    encoder = BidirectionalEncoder(module(LGRUCell), module(GRUCell))
    attention = MultiHeadAdditiveAttention(HEADS, UNITS, 2 * UNITS, initializer="zeros")
    cell = TransitionDecoderCell(module(GRUCell), attention, module(LGRUCell), 2 * UNITS)
    decoder = TransitionRNN(cell, return_sequences=True)
    readout = Readout(UNITS, WORDS, initializer="zeros")

    embedding.build()
    encoder.build((None, None, EMBEDDING))
    decoder.build((None, None, EMBEDDING))
    readout.build((None, EMBEDDING + 3 * UNITS))
    rng = np.random.default_rng(0)
    for layer in (embedding, encoder, decoder, readout):
        layer.built = True
        for variable in layer.weights:
            variable.assign(rng.uniform(-0.5, 0.5, size=variable.shape).astype("float32"))

    mask = SOURCE != 0
    embedded = embedding(SOURCE, np.arange(SOURCE.shape[1]))
    annotations = encoder(embedded, mask)
    state = keras.ops.tanh(annotations[:, 0, :UNITS])
    words = embedding(TARGET, np.arange(TARGET.shape[1]))
    outputs = decoder(words, initial_state=[state, *attention.precompute(annotations, mask)])
    logits = readout(keras.ops.concatenate([words, outputs], axis=-1))
    results = {
        "embedded": embedded,
        "annotations": annotations,
        "outputs": outputs,
        "logits": logits,
    }
    return {name: keras.ops.convert_to_numpy(value) for name, value in results.items()}


if __name__ == "__main__":
    report = {name: value.tolist() for name, value in values().items()}
    print(json.dumps({"backend": keras.backend.backend(), **report}))
