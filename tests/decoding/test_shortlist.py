"""A search that scores a few words, against one that scores all and leaves out the others."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from dtmt_tf.cells import products_in
from dtmt_tf.config import DecodingConfig, TrainingConfig
from dtmt_tf.decoding import Shortlist, beam_search, limited, make_search, normalised
from dtmt_tf.decoding.beam_search import CHUNK_SIZE
from dtmt_tf.models import DTMTConfig, TransformerConfig
from tests.cells.twin import randomise
from tests.decoding.automaton import EOS, settings

pytestmark = pytest.mark.filterwarnings("ignore:You are using a softmax over axis")  # one word
WORDS = 300
SOURCES = tf.constant([[4, 5, 6, 1], [8, 1, 0, 0]])
DECODING = DecodingConfig(beam_size=3, extra_length=2)
SHALLOW = {"encoder_depth": 0, "query_depth": 0, "decoder_depth": 0}
CONFIGS = {
    "tied": DTMTConfig(8, 8, 2, tied_embeddings="target", **SHALLOW),
    "untied": DTMTConfig(8, 8, 2, **SHALLOW),
    "transformer": TransformerConfig(8, 12, 2, 1, 1),
}


def model_of(kind):
    model = CONFIGS[kind].build(WORDS, WORDS, TrainingConfig())
    return randomise(model, np.random.default_rng(3), 1.5)


@pytest.fixture(scope="module")
def model():
    """Never writes padding, which no list has."""
    model = model_of("tied")
    bias = model.readout.logits.bias
    bias.assign(bias - 50.0 * tf.one_hot(0, WORDS))
    return model


@pytest.fixture(scope="module")
def shortlist():
    """Twenty words of each source word, five of all."""
    table = np.random.default_rng(4).integers(1, WORDS, size=[WORDS, 20])
    return Shortlist(table, np.arange(50, 55), WORDS)


def words_of(shortlist, source):
    """The words of one sentence, without the graph."""
    found = np.zeros(WORDS, bool)
    found[[EOS, *range(50, 55), *shortlist.table[[word for word in source if word]].ravel()]] = True
    return found


def searched(model, shortlist, sources=SOURCES, prefixes=None):
    search = make_search(model.encode, model.decode_step, DECODING, shortlist, model.among)
    return search(sources, prefixes)


def assert_equal(found, expected):
    assert np.array_equal(found.ids, expected.ids)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-4)


@pytest.mark.parametrize("kind", CONFIGS)
def test_logits_of_some_words_are_those_of_all(kind):
    model = model_of(kind)
    words, ids = tf.constant([7, 1, 299, 0, 0]), tf.zeros([2, 1], tf.int32)
    state = model.encode(SOURCES)
    everything = model.decode_step(ids, state)[0]
    with model.among(words):
        some = model.decode_step(ids, state)[0]
    np.testing.assert_allclose(some, tf.gather(everything, words, axis=2), atol=1e-6)
    with model.among():
        np.testing.assert_allclose(model.decode_step(ids, state)[0], everything, atol=1e-6)
    assert model.decode_step(ids, state)[0].shape == everything.shape


def test_each_sentence_is_written_in_its_own_words_whatever_its_neighbours(model, shortlist):
    together = searched(model, shortlist)
    for row, source in enumerate(SOURCES.numpy()):
        one = SOURCES[row : row + 1]
        expected = beam_search(
            limited(normalised(model.decode_step), tf.constant(words_of(shortlist, source))),
            model.encode(one),
            tf.constant([np.count_nonzero(source) + DECODING.extra_length]),
            settings(3, DECODING.length_penalty),
        )
        size = expected.ids.shape[2]
        assert_equal(type(expected)(*(each[row : row + 1] for each in together)), expected._replace(
            ids=tf.pad(expected.ids, [[0, 0], [0, 0], [0, together.ids.shape[2] - size]])
        ))  # fmt: skip
    assert len(np.unique(together.ids)) > 5


def test_a_list_of_all_words_changes_nothing(model):
    everything = Shortlist(np.full([WORDS, 1], EOS), np.arange(1, WORDS), WORDS)
    plain = make_search(model.encode, model.decode_step, DECODING)(SOURCES)
    assert_equal(searched(model, everything), plain)


def test_the_list_is_as_long_as_its_words_where_all_hypotheses_choose_together(model, shortlist):
    def listed(*arguments):
        found = shortlist(*arguments)
        lengths.append(found.tokens.shape[0])
        return found

    lengths, wide = [], dataclasses.replace(DECODING, beam_size=20)
    for prune in 0.0, 9.0:
        decoding = dataclasses.replace(wide, prune=prune)
        make_search(model.encode, model.decode_step, decoding, listed, model.among)(SOURCES)
    assert lengths[0] <= WORDS and lengths[-1] == 2 * 20 * CHUNK_SIZE


def test_prefixes_need_not_be_on_the_list(model, shortlist, monkeypatch):
    others = np.flatnonzero(~words_of(shortlist, SOURCES.numpy().ravel()))[1:4]
    bias = model.readout.logits.bias
    wanted = tf.Variable(bias + 9.0 * tf.reduce_sum(tf.one_hot(others, WORDS), axis=0))
    monkeypatch.setattr(model.readout.logits, "bias", wanted)  # each sentence would write them all
    prefixes = np.array([others[:2], [others[2], 0]], np.int32)
    found = searched(model, shortlist, SOURCES, tf.constant(prefixes))
    assert (found.ids.numpy()[0, :, :2] == others[:2]).all()
    assert (found.ids.numpy()[1, :, 0] == others[2]).all()
    for row, source in enumerate(SOURCES.numpy()):
        own = prefixes[row : row + 1]
        mine = {0, *np.flatnonzero(words_of(shortlist, source)), *own.ravel()}
        assert set(found.ids.numpy()[row].ravel()) <= mine
        alone = searched(model, shortlist, SOURCES[row : row + 1], tf.constant(own))
        size = alone.ids.shape[2]
        np.testing.assert_array_equal(alone.ids[0], found.ids[row, :, :size])


def test_what_begins_a_word_is_known_on_the_list(model, shortlist):
    begins = np.arange(WORDS) % 3 == 0
    few = shortlist, model.among
    search = make_search(model.encode, model.decode_step, DECODING, *few, begins=begins)
    ids = search(SOURCES, tf.constant([[EOS], [EOS]])).ids.numpy()
    first = ids[:, :, 0].ravel()
    free = searched(model, shortlist).ids.numpy()[:, :, 0].ravel()
    assert (begins[first] | (first == EOS)).all() and not begins[free].all()
    for row, source in enumerate(SOURCES.numpy()):
        assert set(ids[row].ravel()) <= {0, *np.flatnonzero(words_of(shortlist, source))}


def test_rounded_products_are_of_the_same_words(model):
    words = tf.constant([7, 1, 299])
    state = model.encode(SOURCES)
    ids = tf.zeros([2, 1], tf.int32)
    with products_in("bfloat16", model.trainable_variables):
        everything = model.decode_step(ids, state)[0]
        with model.among(words):
            some = model.decode_step(ids, state)[0]
        with model.among():
            again = model.decode_step(ids, state)[0]
    assert some.dtype == again.dtype == tf.float32
    np.testing.assert_allclose(again, everything, atol=1e-5)
    np.testing.assert_allclose(some, tf.gather(everything, words, axis=2), atol=1e-5)
