"""Terms are found where they stand as words; what can not be written is refused."""

import numpy as np
import pytest
import tensorflow as tf

from dtmt_tf.config import EOS_ID, UNK_ID
from dtmt_tf.errors import UserError
from dtmt_tf.translator.constraints import Constraints

LETTERS = "..?abcdefghijklmnopqrstuvwxyz"  # their places are their ids, "?" is unknown


def subwords(texts):
    rows = [[LETTERS.find(c) if c in LETTERS else UNK_ID for c in text.decode()]
            for text in texts.numpy()]  # fmt: skip
    return tf.ragged.constant(rows, tf.int32).to_tensor() if rows else tf.zeros([0, 1], tf.int32)


def made(glossary, vocabulary=None, blanks=True):
    return Constraints(subwords, len(LETTERS), blanks, glossary, vocabulary)


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("a dog, a cat", ["dog", "cat"]),
        ("dogs and a hotdog", []),
        ("Dog", []),
        ("the big dog's dog", ["big dog", "dog"]),
        ("C++ (dog)", ["C++", "dog"]),
        ("", []),
    ],
)
def test_terms_count_where_they_are_words_and_the_longest_first(text, terms):
    constraints = made({"dog": "hund", "cat": "katze", "big dog": "dogge", "C++": "cpp"})
    assert list(constraints.phrases(text)) == terms


def test_without_blanks_terms_count_anywhere():
    assert list(made({"狗": "dog", "大狗": "mastiff"}, blanks=False).phrases("一只大狗和狗")) == [
        "大狗",
        "狗",
    ]


def test_phrases_are_the_sub_words_of_the_target_term():
    assert made({"dog": "abz"}).phrases("dog dog") == {"dog": (3, 4, 28)}


def test_a_vocabulary_allows_its_sub_words_and_those_of_terms():
    constraints = made({"dog": "z"}, ["ab", "c", " "])
    allowed = {EOS_ID, *map(LETTERS.index, "abcz")}
    assert set(np.flatnonzero(constraints.allowed)) == allowed
    assert made({}, ["a"]).phrases("a dog") == {} and not made({}, ["a"]).has_terms
    assert made({"dog": "z"}).allowed is None


@pytest.mark.parametrize(
    ("glossary", "vocabulary", "message"),
    [
        ({"dog": "h!"}, None, "'h!' of the glossary can not be written"),
        ({"dog": "h\u2581"}, None, "a model writes \u2581 as a blank"),
        ({}, ["a", "c!"], "'c!' of the vocabulary can not be written"),
        ({"dog": " "}, None, "A term of the glossary is empty"),
        ({}, [" "], "no term and no word"),
        ({}, None, "no term and no word"),
    ],
)
def test_what_can_not_be_written_is_refused(glossary, vocabulary, message):
    with pytest.raises(UserError, match=message):
        made(glossary, vocabulary)
