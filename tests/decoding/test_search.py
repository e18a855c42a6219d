import contextlib

import numpy as np
import pytest
import tensorflow as tf

from dtmt_tf.batched_lines import translate_lines
from dtmt_tf.config import EOS_ID, DataConfig, DecodingConfig
from dtmt_tf.decoding import by_length, make_search
from dtmt_tf.export import Endpoints
from dtmt_tf.text import Subwords, Vocabulary, train_subwords
from tests.reference import numpy_dtmt as ref
from tests.training.toy_trainer import graphless

LINES = [
    "ein kleiner Baum",
    "",
    "der Hund läuft schnell über die lange Brücke",
    "   ",
    "ja",
    "zwei Bäume und drei Hunde",
    "\t",
    "Übung macht den Meister",
    "nein",
]


@pytest.fixture(scope="module")
def subwords():
    return Subwords(train_subwords(LINES * 5, 60, DataConfig()))


class Toy:
    """Reads the source word by word, `stride` words at a time, over and over again."""

    trainable_variables = weights = ()
    among = contextlib.nullcontext

    def __init__(self, table, echo, stride):
        self.table = np.asarray(table, np.float32)  # [V, V] logits of the word at this position
        self.echo = np.asarray(echo, np.float32)  # [V, V] added for the previous word
        self.stride = stride

    def encode(self, source_ids):
        hidden = tf.zeros([tf.shape(source_ids)[0], 1], tf.int32)
        return hidden, (source_ids, tf.math.count_nonzero(source_ids, axis=1, dtype=tf.int32))

    def decode_step(self, ids, state):
        position, (source_ids, lengths) = state
        word = tf.gather(source_ids, position * self.stride % lengths[:, None], batch_dims=1)
        logits = tf.gather(self.table, word) + tf.gather(self.echo, ids)
        return logits, (position + 1, (source_ids, lengths))


def copying(size):
    return Toy(12.0 * np.eye(size), np.zeros((size, size)), 1)


def babbling(size):
    random = np.random.default_rng(0)
    table, echo = random.normal(size=(2, size, size)) * 4
    table[:, EOS_ID] -= 4.0
    return Toy(table, echo, 5)


def make_translate(toy, subwords, **decoding):
    vocabulary = Vocabulary(subwords, subwords)
    endpoints = Endpoints(toy, vocabulary, DecodingConfig(**decoding), 100, "de")

    def translate(texts):
        outputs = endpoints.translate(texts)
        return outputs["translation"], outputs["score"]

    return translate


def texts_of(translate):
    """The function, without the scores."""
    return lambda texts: translate(texts)[0]


def traced(translate):
    return tf.function(translate, input_signature=[tf.TensorSpec([None], tf.string)])


@pytest.fixture(scope="module")
def copy(subwords):
    return traced(make_translate(copying(subwords.size), subwords))


@pytest.fixture(scope="module")
def babble(subwords):
    return traced(make_translate(babbling(subwords.size), subwords, extra_length=8))


def test_a_copying_model_copies(copy):
    texts = [line for line in LINES if line.strip()]
    translations, _ = copy(tf.constant(texts))
    assert [text.decode() for text in translations.numpy()] == texts


def test_blank_lines_give_empty_translations_with_score_zero(babble):
    translations, (_, scores) = translate_lines(LINES, texts_of(babble), 32), babble(LINES)
    for line, text, score in zip(LINES, translations, scores.numpy(), strict=True):
        assert ((text, score) == ("", 0.0)) == (not line.strip())
        assert (score < 0) == bool(line.strip())


def test_no_texts_give_no_translations(copy):
    translations, scores = copy(tf.constant([], tf.string))
    assert translations.shape == scores.shape == (0,)
    assert translate_lines([], texts_of(copy), 32) == []


def test_search_uses_the_settings_and_normalises_logits(subwords):
    toy = babbling(subwords.size)
    text = "ja nein"
    source = subwords.encode([text]).to_list()[0]

    def log_prob_fn(prefix):
        word = source[5 * len(prefix) % len(source)]
        previous = prefix[-1] if prefix else 0
        return ref.log_softmax(toy.table[word].astype(np.float64) + toy.echo[previous])

    rows = ((1, 0.0, 5.0, 0), (3, 1.0, 5.0, 4), (4, 0.6, 5.0, 12), (4, 1.0, 0.0, 12))
    for beam, alpha, offset, extra in rows:
        settings = {"beam_size": beam, "length_penalty": alpha, "extra_length": extra}
        settings["length_offset"] = offset
        decoding = DecodingConfig(**settings)
        search = make_search(toy.encode, toy.decode_step, decoding)
        padded = tf.constant([[*source, 0, 0, 0]])
        result = search(padded)
        expected = ref.beam_search(
            log_prob_fn, len(source), beam, alpha, subwords.size, EOS_ID, extra, offset=offset
        )
        ids, log_p, score = expected[0]
        assert result.ids.shape == (1, beam, len(source) + extra)
        assert result.ids[0, 0].numpy().tolist()[: len(ids)] == list(ids)
        np.testing.assert_allclose(
            [result.log_probs[0, 0], result.scores[0, 0]], [log_p, score], rtol=1e-5
        )
        # The text is that of the best ids, its score the best score.
        with graphless():
            translations, scores = make_translate(toy, subwords, **settings)(tf.constant([text]))
        words = [word for word in ids if word > EOS_ID]
        assert translations[0] == subwords.decode(tf.constant([words]))[0]
        np.testing.assert_allclose(scores[0], score, rtol=1e-5)


def test_batch_size_changes_nothing(babble):
    one, scores = translate_lines(LINES, texts_of(babble), 1), babble(LINES)[1]
    for size in (2, 4, 32):
        assert translate_lines(LINES, texts_of(babble), size) == one
        parts = [LINES[start : start + size] for start in range(0, len(LINES), size)]
        found = np.concatenate([babble(part)[1] for part in parts])
        np.testing.assert_allclose(found, scores, rtol=1e-6)
    assert len(set(one)) > 5  # they do differ


def test_many_rows_are_searched_a_few_at_a_time(subwords):
    toy = babbling(subwords.size)
    seen = []
    encode = toy.encode
    toy.encode = lambda ids: (seen.append(ids.shape), encode(ids))[1]
    lines = [line for line in LINES if line.strip()]
    ids = subwords.encode(lines).to_tensor()
    results = {}
    for size in (2, 32):
        search = make_search(
            toy.encode, toy.decode_step, DecodingConfig(batch_size=size, extra_length=8)
        )
        results[size] = search(ids)
    assert [shape[0] for shape in seen] == [2, 2, 2, 6]
    widths = [shape[1] for shape in seen]
    assert widths == sorted(widths) and widths[0] < widths[2]  # like lengths together
    for few, all_at_once in zip(results[2], results[32], strict=True):
        np.testing.assert_allclose(few, all_at_once, rtol=1e-6)


@pytest.mark.parametrize("rows", [0, 1, 5, 6])
def test_rows_come_back_in_their_order(rows):
    lengths = tf.constant([5, 1, 4, 1, 3, 9][:rows], tf.int32)
    calls = []

    def function(numbers):
        calls.append(numbers.numpy().tolist())
        return {"length": tf.gather(lengths, numbers), "number": numbers[:, None]}

    specs = {
        "length": tf.TensorSpec([None], tf.int32),
        "number": tf.TensorSpec([None, 1], tf.int32),
    }
    result = by_length(function, lengths, 2, specs)
    np.testing.assert_array_equal(result["length"], lengths)
    np.testing.assert_array_equal(result["number"][:, 0], range(rows))
    expected = {0: [[]], 1: [[0]], 5: [[1, 3], [4, 2], [0]], 6: [[1, 3], [4, 2], [0, 5]]}
    assert calls == expected[rows]


def test_long_rows_come_in_smaller_numbers():
    lengths = tf.constant([5, 1, 4, 1, 3, 9, 2])
    calls = []

    def function(numbers):
        calls.append(tf.gather(lengths, numbers).numpy().tolist())
        return tf.gather(lengths, numbers)

    result = by_length(function, lengths, 4, tf.TensorSpec([None], tf.int32), area=8)
    np.testing.assert_array_equal(result, lengths)
    assert calls == [[1, 1, 2], [3, 4], [5], [9]]
    calls.clear()
    lengths = tf.constant([2**30] * 4)  # twice that is more than int32 holds
    by_length(function, lengths, 4, tf.TensorSpec([None], tf.int32), area=8)
    assert calls == [[2**30]] * 4
