"""Cross entropy of a validation split: the twin's, however it is cut into batches."""

import numpy as np
import pytest

from dtmt_tf.config import TrainingConfig
from dtmt_tf.models import DTMTConfig
from dtmt_tf.training import CrossEntropy
from tests.reference import numpy_dtmt as ref

MODEL = DTMTConfig(16, 16, 4, encoder_depth=0, query_depth=0, decoder_depth=1)
RATES = dict.fromkeys(("word_dropout_rate", "embedding_dropout_rate", "output_dropout_rate"), 0.5)


def pairs():
    rng = np.random.default_rng(3)

    def ids(length):
        return [*rng.integers(3, 40, length).tolist(), 1]

    return [(ids(rng.integers(1, 12)), ids(rng.integers(1, 12))) for _ in range(9)]


@pytest.mark.parametrize("max_tokens", [1, 30, 10_000])
def test_it_is_the_mean_over_all_tokens_without_dropout(max_tokens):
    model = MODEL.build(40, 40, TrainingConfig(**RATES))
    total, count = 0.0, 0
    for source, target in pairs():
        logits = model(np.array([source]), np.array([target]))[0].numpy().astype(float)
        total -= ref.log_softmax(logits)[np.arange(len(target)), target].sum()
        count += len(target)
    found = CrossEntropy(model, pairs(), max_tokens)
    assert len(found.batches) in {1: [9], 30: range(2, 9), 10_000: [1]}[max_tokens]
    for source, target in found.batches:
        longest = max(source.shape[1], target.shape[1])
        assert len(source) == 1 or len(source) * longest <= max_tokens
    assert found() == pytest.approx(total / count, rel=1e-5)


def test_it_is_of_the_present_weights():
    model = MODEL.build(40, 40, TrainingConfig())
    cross_entropy = CrossEntropy(model, pairs(), 100)
    before = cross_entropy()
    bias = model.readout.logits.bias
    bias.assign(bias + 5 * np.eye(40, dtype="float32")[1])  # <eos> is likelier
    assert cross_entropy() != pytest.approx(before, abs=0.01)
