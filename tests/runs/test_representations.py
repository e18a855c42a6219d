"""Sentences as the mean of what an encoder has at its top."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from dtmt_tf.config import DataConfig, DecodingConfig, TrainingConfig
from dtmt_tf.models import (
    DTMTConfig,
    Ensemble,
    RecurrenceTransformerConfig,
    TransformerConfig,
)
from dtmt_tf.runs import representer
from dtmt_tf.text import Vocabulary

SENTENCES = ["a small dog runs", "two dogs run in the grass near a cat", "the cat sleeps"]


@pytest.fixture(scope="module")
def run():
    vocabulary = Vocabulary.train(SENTENCES * 10, SENTENCES * 10, DataConfig(source_vocab_size=40))
    settings = {"data": DataConfig(max_length=12), "decoding": DecodingConfig(batch_size=2)}
    return SimpleNamespace(vocabulary=vocabulary, experiment=SimpleNamespace(**settings))


def built(config):
    return config.build(40, 40, TrainingConfig())


def test_padding_and_neighbours_do_not_change_a_representation(run):
    model = built(TransformerConfig(8, 12, 2, 1, 1))
    (found,) = representer(run, model)(SENTENCES, "")
    assert found.shape == (3, 8) and found.dtype == np.float32
    for sentence, row in zip(SENTENCES, found, strict=True):
        ids = run.vocabulary.source.encode([sentence]).to_tensor()
        if ids.shape[1] > 12:  # the longest is cut, and keeps its end
            ids = tf.concat([ids[:, :11], ids[:, -1:]], axis=1)
        states, _ = model.annotate(ids)
        np.testing.assert_allclose(row, np.mean(states[0], axis=0), atol=1e-5)


def test_sentences_are_read_as_the_model_reads_them(run):
    model = built(TransformerConfig(8, 12, 2, 1, 1))
    plain, odd = representer(run, model)(["the cat sleeps", "the\u00a0c\u00adat sleeps "], "")[0]
    np.testing.assert_array_equal(odd, plain)


def test_two_encoders_have_two_representations(run):
    model = built(RecurrenceTransformerConfig(8, 12, 2, 1, 1, recurrence_steps=3))
    first, second = representer(run, model)(SENTENCES, "")
    assert (first.shape, second.shape) == ((3, 8), (3, 16))
    ids = run.vocabulary.source.encode(SENTENCES[2:]).to_tensor()
    np.testing.assert_allclose(second[2], np.mean(model.recur(ids)[0][0], axis=0), atol=1e-5)


def test_an_ensemble_has_those_of_its_members(run):
    small = built(DTMTConfig(8, 6, 2, encoder_depth=1, query_depth=1, decoder_depth=1))
    members = [small, built(TransformerConfig(8, 12, 2, 1, 1))]
    found = representer(run, Ensemble(members))(SENTENCES, "")
    alone = [each for member in members for each in representer(run, member)(SENTENCES, "")]
    assert len(found) == 2 == len(alone)
    for each, expected in zip(found, alone, strict=True):
        np.testing.assert_allclose(each, expected, atol=1e-5)
