"""<unk> replaced by source words, with a model that reads backwards."""

import contextlib
import json
import subprocess
import sys
from pathlib import Path

import keras
import pytest
import tensorflow as tf

from dtmt_tf.config import EOS_ID, UNK_ID, DataConfig, DecodingConfig, ExportConfig
from dtmt_tf.export import Endpoints, export_saved_model
from dtmt_tf.export.unknown import UnknownWords
from dtmt_tf.text import Subwords, Vocabulary

KNOWN = ["the cat sleeps .", "the dog runs ."] * 3
TEXTS = ["Rex sleeps .", "the cat Tom", "", "Tom Rex", "the dog . Rex runs ."]
DICTIONARY = {"Tom": "Thomas", "cat": "Katze", "dog": ""}


class Backwards(keras.Model):
    """Writes the source's words from the last to the first, and attends to each."""

    among = contextlib.nullcontext

    def encode(self, source_ids):
        length = tf.math.count_nonzero(source_ids, axis=1, dtype=tf.int32) - 1
        return tf.zeros([tf.shape(source_ids)[0], 1], tf.int32), (source_ids, length)

    def decode_step(self, ids, state):
        time, (source_ids, length) = state
        place = length[:, None] - 1 - time
        token = tf.gather(source_ids, tf.maximum(place, 0), batch_dims=1)
        token = tf.where(place < 0, EOS_ID, token)
        return 9.0 * tf.one_hot(token, self.size), (time + 1, (source_ids, length))

    def call(self, source_ids, target_ids):
        return tf.zeros([*tf.unstack(tf.shape(target_ids)), self.size])

    def attention(self, source_ids, target_ids):
        _, (_, length) = self.encode(source_ids)
        place = length[:, None] - 1 - tf.range(tf.shape(target_ids)[1])
        attention = 0.5 * tf.one_hot(place, tf.shape(source_ids)[1])
        # none of what is no word counts, however much attention it has
        return tf.where(source_ids > EOS_ID, 0.0, 0.9)[:, None] + attention


@pytest.fixture(scope="module")
def vocabulary():
    return Vocabulary.train(KNOWN, KNOWN, DataConfig(vocabulary_kind="word", source_vocab_size=99))


def make(vocabulary, dictionary=None, replace=True, limits=None):
    model = Backwards()
    model.size = vocabulary.target.size
    decoding = DecodingConfig(beam_size=2, batch_size=2, replace_unknown=replace)
    return Endpoints(model, vocabulary, decoding, 5, "en", limits, dictionary)


def translations(endpoints, *texts):
    return [
        text.decode() for text in endpoints.translate(tf.constant(texts))["translation"].numpy()
    ]


def test_an_unknown_word_is_a_copy_of_the_one_attended_to(vocabulary):
    plain = translations(make(vocabulary, replace=False), *TEXTS)
    assert plain == [". sleeps ⁇", "⁇ cat the", "", "⁇ ⁇", ". dog the . runs ⁇"]
    endpoints = make(vocabulary)
    # the last text is longer than a part: each part is turned round
    expected = [". sleeps Rex", "Tom cat the", "", "Rex Tom", ". dog the . runs Rex"]
    assert translations(endpoints, *TEXTS) == expected
    many = endpoints.translate_nbest(tf.constant(TEXTS))["translations"][:, 0].numpy()
    assert [text.decode() for text in many] == expected


def test_a_dictionary_comes_before_the_copy_and_changes_no_known_word(vocabulary):
    endpoints = make(vocabulary, DICTIONARY)
    assert translations(endpoints, *TEXTS[:4]) == [
        ". sleeps Rex",
        "Thomas cat the",
        "",
        "Rex Thomas",
    ]


def test_a_dictionarys_words_are_read_as_source_text_is(vocabulary):
    # decomposed, with a soft hyphen, of nothing that shows; of equal words the first counts
    dictionary = {"Zoe\u0308": "Zoey", "To\u00adm": "Thomas", "Tom": "Tommy", "\u200b": "nothing"}
    endpoints = make(vocabulary, dictionary)
    assert endpoints.unknown.dictionary == {"Zo\u00eb": "Zoey", "Tom": "Thomas"}
    assert translations(endpoints, "Zo\u00eb Tom", "Zoe\u0308 cat") == ["Thomas Zoey", "cat Zoey"]


def test_what_shows_nothing_is_no_word_of_the_source():
    attention = tf.constant([[[0.7, 0.2, 0.1, 0.0]]])  # most on the blank before a word
    found = UnknownWords({})(
        tf.constant([[5, 6, 7, EOS_ID]]), tf.constant([["", "a", "b", ""]]), attention
    )
    assert found.numpy().tolist() == [[b"a"]]


def test_an_alignment_shows_what_is_replaced(vocabulary):
    outputs = make(vocabulary, DICTIONARY).align(tf.constant(TEXTS[:2]))
    assert [text.decode() for text in outputs["translation"].numpy()] == [
        ". sleeps Rex",
        "Thomas cat the",
    ]
    assert outputs["target_subwords"][1, 0].numpy().decode() == "▁<unk>"


def test_a_prefix_stays_as_it_was_given(vocabulary):
    sources, prefixes = ["the cat Tom", "a b Rex Tom"], ["Tim Struppi", ""]
    outputs = make(vocabulary).complete(tf.constant(sources), tf.constant(prefixes))
    found = [text.decode() for text in outputs["translation"].numpy()]
    assert found == ["Tim Struppi the", "Tom Rex b a"]


def test_what_is_copied_is_utf_8(vocabulary):
    endpoints = make(vocabulary)
    source = tf.constant([b"the c\xffat Tom\xc3"])
    found = endpoints.translate(source)["translation"], endpoints.align(source)["translation"]
    assert [text.numpy()[0].decode() for text in found] == ["Tom\ufffd c\ufffdat the"] * 2


@pytest.mark.parametrize("signature", ["translate", "align"])
def test_words_of_a_request_are_not_cut_out_before_it_is_found_small_enough(
    vocabulary, monkeypatch, signature
):
    """They take memory with the square of a line."""
    waits = []

    def cut(_, texts, *others, cut_out=Subwords.part_surfaces):
        waits.append(tf.identity(texts).op.control_inputs)
        return cut_out(_, texts, *others)

    monkeypatch.setattr(Subwords, "part_surfaces", cut)
    answer = getattr(make(vocabulary, limits=ExportConfig(max_tokens=200)), signature)
    graph = tf.function(answer, input_signature=[tf.TensorSpec([None], tf.string)])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"export\.max_tokens"):
        graph(tf.constant(TEXTS * 5))
    assert waits and all(waits)


@pytest.mark.parametrize("signature", ["translate", "translate_nbest"])
def test_what_is_scored_for_the_copies_counts_too(vocabulary, signature):
    """A hypothesis may have 53 sub-words: 3 of "the cat" and its end, and 50."""
    for replace in (False, True):
        endpoints = make(vocabulary, replace=replace, limits=ExportConfig(max_tokens=60))
        told = pytest.raises(tf.errors.InvalidArgumentError, match=r"export\.max_tokens")
        with told if replace else contextlib.nullcontext():
            getattr(endpoints, signature)(tf.constant(["the cat"]))


def test_no_texts_give_no_rows(vocabulary):
    endpoints = make(vocabulary, DICTIONARY)
    for function in (endpoints.translate, endpoints.translate_nbest, endpoints.align):
        assert not any(len(value) for value in function(tf.constant([], tf.string)).values())


def test_characters_unknown_to_subwords_are_copied():
    vocabulary = Vocabulary.train(KNOWN, KNOWN, DataConfig(source_vocab_size=24))
    assert UNK_ID in vocabulary.source.encode_lists(["☃☃"])[0]
    (found,) = translations(make(vocabulary), "☃☃")
    assert found.strip() == "☃☃"


def test_the_cpp_session_replaces_as_python_does(vocabulary, tmp_path):
    endpoints = make(vocabulary, DICTIONARY, limits=ExportConfig())
    export_saved_model(endpoints, tmp_path / "1", {})
    runner = Path(__file__).with_name("c_session.py")
    result = subprocess.run(
        [sys.executable, runner, tmp_path / "1", "--input", "text", "--batch", "5"],
        input="".join(f"{line}\n" for line in TEXTS),
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["translation"] == translations(endpoints, *TEXTS)
