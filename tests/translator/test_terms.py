"""Terms are found where they stand as words; what can not be written is refused."""

import numpy as np
import pytest
import tensorflow as tf

from dtmt_tf.config import EOS_ID, UNK_ID, DataConfig
from dtmt_tf.errors import UserError
from dtmt_tf.text import Subwords, train_subwords
from dtmt_tf.translator.constraints import Constraints

LETTERS = "..?abcdefghijklmnopqrstuvwxyz"  # their places are their ids, "?" is unknown


def subwords(texts):
    rows = [[LETTERS.find(c) if c in LETTERS else UNK_ID for c in text.decode()]
            for text in texts.numpy()]  # fmt: skip
    return tf.ragged.constant(rows, tf.int32).to_tensor() if rows else tf.zeros([0, 1], tf.int32)


def made(glossary, vocabulary=None, blanks=True):
    return Constraints(subwords, len(LETTERS), (blanks, True), glossary, vocabulary)


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


def test_blanks_around_terms_are_no_part_of_them():
    assert list(made({" dog ": " hund "}).phrases("a dog, a cat")) == ["dog"]
    with pytest.raises(UserError, match="A term of the glossary is empty"):
        made({"dog": " "})
    with pytest.raises(TypeError, match="vocabulary should be several words. Received: one string"):
        made({}, "hund katze")


def test_without_blanks_terms_count_anywhere():
    assert list(made({"狗": "dog", "大狗": "mastiff"}, blanks=False).phrases("一只大狗和狗")) == [
        "大狗",
        "狗",
    ]


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("VIP客户", []),  # Latin letters and digits form words all the same
        ("用IP地址", ["IP"]),
        ("IP", ["IP"]),
        ("13只", []),
        ("3只", ["3"]),
        ("大狗IP", ["狗", "IP"]),
    ],
)
def test_without_blanks_latin_terms_count_as_words(text, terms):
    constraints = made({"IP": "ip", "3": "c", "狗": "dog"}, blanks=False)
    assert list(constraints.phrases(text)) == terms


@pytest.mark.parametrize(
    ("translation", "holds"),
    [
        ("(hund) und katze", True),  # wherever it begins, if it begins a word
        ("hunde, katzen", True),
        ("katze", False),
        ("schosshund, katze", False),
        ("Hund, katze", False),
    ],
)
def test_a_translation_holds_the_terms_that_its_words_begin_with(translation, holds):
    constraints = made({"dog": "hund", "cat": "katze", "cow": "kuh"})
    assert constraints.targets("a dog, a cat") == ["hund", "katze"]
    assert constraints.hold(constraints.targets("a dog, a cat"), translation) == holds
    assert constraints.hold(constraints.targets("a horse"), translation)
    spoken = Constraints(subwords, len(LETTERS), (True, False), {"dog": "hund"}, None)
    assert spoken.hold(["hund"], "schosshund") and not spoken.hold(["hund"], "Hund")


@pytest.mark.parametrize(
    ("term", "text", "counts"),
    [
        ("कम", "कमी", False),  # a vowel sign goes on with the word
        ("कम", "यह कम है", True),
        ("मत", "कीमत", False),  # and one is before the term
        ("Cafe", "Cafe\u0301", False),
        ("می", "او می\u200cخواهد", False),  # nor at a joiner
        ("می", "او می خواهد", True),
        ("Cafe\u0301", "das Cafe\u0301.", True),
    ],
)
def test_a_word_does_not_end_before_a_mark_that_combines(term, text, counts):
    assert bool(made({term: "z"}).phrases(text)) == counts


def test_of_terms_of_one_place_the_longest_that_is_a_word_counts():
    assert list(made({"कम": "a", "कम क": "b"}).phrases("कम का")) == ["कम"]


SPOKEN = [
    "我住在北京。",
    "北京很大。",
    "他在北京工作。",
    "我住在上海。",
    "上海很大。",
    "我。去。",
] * 9


def spoken(text, size, kind="bpe"):
    """Sub-words of a language without blanks, and how names of them become ids."""
    data = DataConfig(character_coverage=1.0, vocabulary_kind=kind)
    model = Subwords(train_subwords(text, size, data))
    ids = {model.pieces([[k]]).numpy()[0, 0].decode(): k for k in range(model.size)}

    def subwords(texts):
        return model.tokenizer.tokenize(texts).to_tensor()

    def held(glossary, words=None):
        return Constraints(subwords, model.size, (True, False), glossary, words)

    return held, ids, model


def test_without_blanks_a_term_is_spelt_as_inside_of_a_sentence():
    held, ids, model = spoken(SPOKEN, 30)
    line = model.encode_lists(["我住在北京。"])[0]
    assert ids["北京"] in line and "▁北京" in ids
    assert held({"Peking": "北京"}).phrases("in Peking") == {"Peking": (ids["北京"],)}
    assert held({"x": "。去"}).phrases("x") == {"x": (ids["。"], ids["去"])}
    with pytest.raises(UserError, match="can not be written"):
        held({"x": "☃"})
    allowed = set(np.flatnonzero(held({}, ["北京"]).allowed))
    assert allowed == {EOS_ID, ids["北京"], ids["▁北京"]}


def test_a_word_of_a_vocabulary_of_words_is_that_word_without_blanks_too():
    held, ids, _ = spoken([" ".join(line) for line in SPOKEN], 40, "word")
    assert held({"we": "我"}).phrases("we") == {"we": (ids["▁我"],)}


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
        ({"dog": "h"}, [], "The vocabulary has no word"),
        ({"dog": "h"}, [" "], "The vocabulary has no word"),
    ],
)
def test_what_can_not_be_written_is_refused(glossary, vocabulary, message):
    with pytest.raises(UserError, match=message):
        made(glossary, vocabulary)
