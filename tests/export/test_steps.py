"""The exported parts of a search: whatever the model's state, they go through it as it does."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from dtmt_tf.config import DecodingConfig, TrainingConfig
from dtmt_tf.decoding import Sampling, normalised, sample
from dtmt_tf.export.steps import Steps
from dtmt_tf.export.stored import StoredWeights
from dtmt_tf.models import DeepLAUConfig, DeepRNNConfig, DTMTConfig, Ensemble, TransformerConfig
from tests.cells.twin import randomise

WORDS = 9
SOURCE = tf.constant([[4, 5, 6, 7, 1], [3, 8, 1, 0, 0]])
pytestmark = pytest.mark.filterwarnings("ignore:You are using a softmax over axis")  # one word


def test_samples_over_the_parts_have_the_models_probabilities():
    """An ensemble of every kind of state: vectors, stacks of them, keys and values that grow."""
    sizes = {"encoder_depth": 0, "query_depth": 0, "decoder_depth": 0}
    configs = (
        DTMTConfig(8, 8, 2, **sizes),
        TransformerConfig(8, 12, 2, 1, 1),
        DeepRNNConfig(8, 6, decoder_depth=2),
        DeepLAUConfig(8, 6, encoder_depth=2, decoder_depth=2),
    )
    model = Ensemble([
        randomise(config.build(WORDS, WORDS, TrainingConfig()), np.random.default_rng(k), 0.7)
        for k, config in enumerate(configs)
    ])  # fmt: skip
    tokenizer = SimpleNamespace(tokenize=lambda text: tf.RaggedTensor.from_tensor(text[:, None]))
    target = SimpleNamespace(decode=tf.strings.as_string, tokenizer=tokenizer)
    stored = StoredWeights(model)
    steps = Steps(SimpleNamespace(model=model, target=target, read=tf.identity, stored=stored))
    seeds = tf.reshape(tf.range(12, dtype=tf.int64), [2, 3, 2])
    lengths = tf.constant([7, 4])
    graph = tf.function(
        lambda: sample(normalised(steps.step), steps.encode(SOURCE), lengths, seeds, Sampling(),
                       DecodingConfig())
    )  # fmt: skip
    found = graph()
    assert found.lengths.numpy().max() > 3
    for k in range(3):
        ids = found.ids[:, k]
        logs = tf.gather(model(SOURCE, ids), ids, batch_dims=2)
        real = tf.sequence_mask(found.lengths[:, k], ids.shape[1])
        total = tf.reduce_sum(tf.where(real, logs, 0.0), axis=1)
        np.testing.assert_allclose(found.log_probs[:, k], total, rtol=1e-4)
