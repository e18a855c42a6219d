"""An ensemble predicts the mean of its members' probabilities, on both roads."""

import math

import numpy as np
import pytest
import tensorflow as tf

from dtmt_tf.config import DecodingConfig, TrainingConfig
from dtmt_tf.decoding import make_search
from dtmt_tf.models import DeepRNNConfig, DTMTConfig, Ensemble, TransformerConfig
from tests.cells.twin import randomise

WORDS = 9
SOURCE = tf.constant([[4, 5, 6, 7, 1], [3, 8, 1, 0, 0]])
TARGET = tf.constant([[3, 2, 6, 1], [5, 1, 0, 0]])
pytestmark = pytest.mark.filterwarnings("ignore:You are using a softmax over axis")  # one word


def member(config, seed):
    model = config.build(WORDS, WORDS, TrainingConfig())
    return randomise(model, np.random.default_rng(seed), 0.7)


@pytest.fixture(scope="module")
def members():
    """Two recurrent models of different depth, a Transformer, and a BiDeep model."""
    sizes = {"embedding_dim": 8, "num_heads": 2}
    shallow = {"encoder_depth": 0, "query_depth": 0, "decoder_depth": 0}
    deep = {"encoder_depth": 1, "query_depth": 1, "decoder_depth": 1}
    configs = [
        DTMTConfig(units=8, **sizes, **shallow),
        DTMTConfig(units=6, **sizes, **deep),
        TransformerConfig(8, 12, 2, 1, 1),
        DeepRNNConfig(8, 6, encoder_depth=2, encoder_transition=2, decoder_depth=2,
                      decoder_transition=3, high_cell="cgru", high_transition=2),
    ]  # fmt: skip
    return [member(config, k) for k, config in enumerate(configs)]


def probabilities(model, target=TARGET):
    return tf.nn.softmax(model(SOURCE, target)).numpy()


def test_probabilities_are_the_mean_of_the_members(members):
    each = np.stack([probabilities(model) for model in members])
    assert np.abs(each - each[0]).max() > 0.1  # they disagree
    united = Ensemble(members)
    logs = united(SOURCE, TARGET).numpy()
    np.testing.assert_allclose(np.exp(logs), each.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(np.exp(logs).sum(axis=-1), 1.0, rtol=1e-5)


def test_search_predicts_what_teacher_forcing_does(members):
    united = Ensemble(members)
    expected = united(SOURCE, TARGET).numpy()
    state = united.encode(SOURCE)
    ids = tf.zeros([2, 1], tf.int32)
    for step in range(TARGET.shape[1]):
        logits, state = united.decode_step(ids, state)
        logs = tf.nn.log_softmax(logits).numpy()[:, 0]
        real = TARGET.numpy()[:, step] > 0
        np.testing.assert_allclose(logs[real], expected[real, step], atol=1e-5)
        ids = TARGET[:, step : step + 1]


def test_a_beam_follows_every_members_state(members):
    decoding = DecodingConfig(beam_size=3, extra_length=3)
    united = Ensemble(members)
    found = make_search(united.encode, united.decode_step, decoding)(SOURCE, None, 3)
    assert np.count_nonzero(found.lengths) >= 4
    for beam in range(3):
        ids = found.ids[:, beam]
        logs = tf.math.log(probabilities(united, ids))
        chosen = tf.gather(logs, ids, batch_dims=2)
        real = tf.sequence_mask(found.lengths[:, beam], ids.shape[1])
        total = tf.reduce_sum(tf.where(real, chosen, 0.0), axis=1)
        there = found.lengths[:, beam] > 0
        np.testing.assert_allclose(found.log_probs[:, beam][there], total[there], rtol=1e-4)


def test_a_model_twice_is_that_model(members):
    decoding = DecodingConfig(beam_size=2, extra_length=3)
    united = Ensemble([members[1], members[1]])
    one, two = (
        make_search(model.encode, model.decode_step, decoding)(SOURCE, None, 2)
        for model in (members[1], united)
    )
    assert np.array_equal(one.ids, two.ids)
    np.testing.assert_allclose(one.scores, two.scores, atol=1e-5)


def test_alignment_gates_and_counts_are_of_all_members(members):
    united = Ensemble(members)
    gates, attention = united.inspect(SOURCE, TARGET)
    np.testing.assert_allclose(united.attention(SOURCE, TARGET), attention, atol=1e-6)
    mean = np.mean([model.inspect(SOURCE, TARGET)[1] for model in members], axis=0)
    np.testing.assert_allclose(attention, mean, atol=1e-6)
    own, _ = members[1].inspect(SOURCE, TARGET)
    for name, value in own.items():
        assert float(gates[f"2/{name}"]) == float(value)
    total = sum(sum(model.parameter_counts().values()) for model in members)
    assert sum(united.parameter_counts().values()) == united.count_params() == total
    assert sum(math.prod(each.shape) for each in united.trainable_variables) == total


def test_its_arithmetic_is_that_of_all_members(members):
    each = [member.multiplications() for member in members]
    assert Ensemble(members).multiplications() == tuple(map(sum, zip(*each, strict=True)))
