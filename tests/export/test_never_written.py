"""Translations of sub-words hold no <unk>, however probable the model finds it."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from dtmt_tf.config import PAD_ID, UNK_ID, UNKNOWN, DataConfig, DecodingConfig, TrainingConfig
from dtmt_tf.export import Endpoints, never_written
from dtmt_tf.export.steps import Steps
from dtmt_tf.models import DTMTConfig
from dtmt_tf.text import Vocabulary
from dtmt_tf.translator import Constraints, Sampling
from dtmt_tf.translator.searches import Searches
from tests.cells.twin import randomise

LINES = ["a small dog runs", "two dogs run in the grass", "the cat sleeps on a mat"]
DECODING = {"beam_size": 2, "extra_length": 3}
CARD = {"source_language": "en", "target_language": "en", "decoding": DECODING}
pytestmark = pytest.mark.filterwarnings("ignore:You are using a softmax over axis")  # one word


@pytest.fixture(scope="module")
def endpoints():
    vocabulary = Vocabulary.train(LINES * 9, LINES * 9, DataConfig(source_vocab_size=40))
    size = vocabulary.target.size
    config = DTMTConfig(8, 8, 2, encoder_depth=0, query_depth=0, decoder_depth=0)
    model = randomise(config.build(size, size, TrainingConfig()), np.random.default_rng(5), 0.5)
    bias = model.readout.logits.bias
    bias.assign(bias + 3.0 * tf.one_hot(UNK_ID, size))  # as where it is in training text
    return Endpoints(model, vocabulary, DecodingConfig(**DECODING), 50, "en")


def test_no_signature_writes_it(endpoints):
    text = tf.constant(LINES)
    outputs = endpoints.translate_nbest(text)["translations"], endpoints.align(text)["translation"]
    texts = [text.decode() for tensor in outputs for text in tf.reshape(tensor, [-1]).numpy()]
    assert all(texts) and UNKNOWN not in "".join(texts)
    completed = endpoints.complete(text, tf.constant(["the \u2603", "a", ""]))["translation"]
    assert completed[0].numpy().decode().startswith("the \u2603")
    assert not any(UNKNOWN in text.decode() for text in completed.numpy())


def test_no_search_of_a_translator_writes_it(endpoints):
    steps, terms = Steps(endpoints), {"dog": "mat", "cat": "dog"}
    searches = Searches(steps, CARD, 2)
    held = Constraints(steps.subwords, endpoints.target.size, (True, True), terms, None)
    found = [*searches.sampler(Sampling(), None, 5)(LINES), *searches.searcher(held, 1)(LINES)]
    texts = [text for each in found for text, _ in each]
    assert len(texts) == 18 and not any(UNKNOWN in text for text in texts)


def test_words_are_written_with_it_and_so_is_what_is_replaced(endpoints):
    data = DataConfig(vocabulary_kind="word", source_vocab_size=9)
    words, subwords = Vocabulary.train(LINES, LINES, data).target, endpoints.target
    for target, never in ((words, (PAD_ID,)), (subwords, (PAD_ID, UNK_ID))):
        assert never_written(target, DecodingConfig()) == never
        assert Searches(SimpleNamespace(write=target.decode), CARD, 2)._never() == never
    assert never_written(subwords, DecodingConfig(replace_unknown=True)) == (PAD_ID,)
