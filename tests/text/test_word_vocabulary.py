"""Vocabularies of words, and dictionaries of them."""

import pickle
import resource
import sys

import pytest
import tensorflow as tf

from dtmt_tf.config import EOS_ID, UNK_ID, DataConfig
from dtmt_tf.errors import UserError
from dtmt_tf.text import Subwords, Vocabulary, train_subwords

LINES = ["the cat sat on the mat .", "the dog  sat .", "a\tcat , the cat ."] * 3
WORDS = DataConfig(vocabulary_kind="word")
TEXTS = ["the cat sat", "  the  foo bar\tcat baz ", "", "foo", "éa the."]


@pytest.fixture(scope="module")
def words():
    return Subwords(train_subwords(LINES, 7, WORDS))


def test_the_most_frequent_words_are_taken(words):
    names = words.pieces(tf.range(words.size)[None])[0].numpy().tolist()
    assert [name.decode() for name in names[1:4]] == ["<eos>", "▁<unk>", "▁the"]
    assert {name.decode() for name in names[3:]} == {"▁the", "▁cat", "▁.", "▁sat"}
    everything = Subwords(train_subwords(LINES, 500, WORDS))
    assert everything.size == 3 + len({word for line in LINES for word in line.split()})


def test_a_word_that_was_unknown_to_another_model_stays_unknown():
    words = Subwords(train_subwords([f"{line} ⁇ ⁇" for line in LINES], 500, WORDS))
    assert words.size == 3 + len({word for line in LINES for word in line.split()})
    assert words.encode_lists(["⁇"]) == [[UNK_ID, EOS_ID]]


def test_each_unknown_word_is_one_unknown(words):
    the, cat, sat = (words.encode_lists([word])[0][0] for word in ("the", "cat", "sat"))
    assert min(the, cat, sat) > UNK_ID
    expected = [[the, cat, sat], [the, UNK_ID, UNK_ID, cat, UNK_ID], [], [UNK_ID], [UNK_ID] * 2]
    expected = [[*row, EOS_ID] for row in expected]
    assert words.encode(tf.constant(TEXTS)).to_list() == expected
    assert words.encode_lists(TEXTS) == expected
    assert pickle.loads(pickle.dumps(words)).encode_lists(TEXTS) == expected


def test_decoding_joins_words_by_blanks_and_replaces_unknown_ones(words):
    ids = words.encode(tf.constant(TEXTS)).to_tensor()
    plain = [text.decode() for text in words.decode(ids).numpy()]
    assert plain == ["the cat sat", "the ⁇ ⁇ cat ⁇", "", "⁇", "⁇ ⁇"]
    surfaces = words.surfaces(tf.constant(TEXTS)).to_tensor("", shape=ids.shape)
    replaced = [text.decode() for text in words.decode(ids, surfaces).numpy()]
    assert replaced == [" ".join(text.split()) for text in TEXTS]


def test_a_long_text_is_cut_before_an_unknown_word(words):
    parts, owners = words.encode_parts(tf.constant(["foo bar . baz the cat"]), 5)
    assert [row[:-1] for row in parts.to_list()] == words_of(words, "foo bar .", "baz the cat")
    assert owners.numpy().tolist() == [0, 0]


def words_of(words, *texts):
    return [row[:-1] for row in words.encode_lists(texts)]


def test_surfaces_of_a_long_line_take_memory_for_it_alone():
    subwords = Subwords(train_subwords(LINES, 30, DataConfig()))
    text = "the cat ☃ " * 20_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    surfaces = subwords.surfaces(tf.constant([text])).flat_values
    taken = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert tf.strings.reduce_join(surfaces).numpy().decode() == text.replace(" ", "")
    assert taken < (
        1e9 if sys.platform == "darwin" else 1e6
    )  # bytes there, else KiB; a copy of the line for each would be some 30 GB


def test_surfaces_of_subwords_are_their_texts_unknown_ones_too():
    subwords = Subwords(train_subwords(LINES, 30, DataConfig()))
    texts = ["the ☃☃ cat", "", "☃"]
    ids, surfaces = subwords.tokens(tf.constant(texts)), subwords.surfaces(tf.constant(texts))
    assert ids.row_lengths().numpy().tolist() == surfaces.row_lengths().numpy().tolist()
    assert b"".join(surfaces[0].numpy()).decode() == "the☃☃cat"
    (place,) = [k for k, one in enumerate(ids[0].numpy()) if one == UNK_ID]
    assert surfaces[0][place].numpy().decode() == "☃☃"
    assert [
        text.decode() for text in subwords.decode(ids.to_tensor(), surfaces.to_tensor("")).numpy()
    ] == texts


def test_settings_that_cut_words_are_refused_for_words():
    for name in ("byte_fallback", "split_digits"):
        with pytest.raises(UserError, match=f"data.{name}.*need .data.vocabulary_kind=bpe"):
            DataConfig(vocabulary_kind="word", **{name: True})


def test_both_languages_may_share_words(tmp_path):
    data = DataConfig(vocabulary_kind="word", source_vocab_size=10)
    vocabulary = Vocabulary.train(LINES, ["die Katze"] * 20, data)
    assert vocabulary.source is vocabulary.target and vocabulary.source.size == 10
    vocabulary.save(tmp_path)
    assert Vocabulary.load(tmp_path).target.encode_lists(["die Hunde"])[0][1] == UNK_ID
