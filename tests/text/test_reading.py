"""Source text is read in the characters of the text that sub-words were learnt from."""

import unicodedata

import pytest
import tensorflow as tf

from dtmt_tf.config import UNK_ID, DataConfig
from dtmt_tf.text import Subwords, train_subwords

LINES = ["der grüne Hund schläft", "ein Hund und eine Straße", "über der Straße"] * 9
OTHERS = ["10\u00a0000\tHunde", "der\u200bHund \u200e(x)", "u\u0308ber", "\u1112\u1161"] * 9
BLANKS = "\t\n\u000b\u001c\u0085\u00a0\u2003\u2009\u2028\u202f\u3000"
HIDDEN = "\u0000\u001b\u00ad\u200b\u200e\u200f\u2060\u2066\ufe0f\ufeff\U000e0020"


def subwords_of(lines, size=60, **data):
    return Subwords(train_subwords(lines, size, DataConfig(**data)))


@pytest.fixture(scope="module")
def plain():
    return subwords_of(LINES)


@pytest.fixture(scope="module")
def others():
    return subwords_of(LINES + OTHERS)


def read(subwords, *texts):
    return [text.decode() for text in subwords.read(tf.constant(texts)).numpy()]


def test_a_blank_that_is_unknown_is_read_as_one(plain):
    assert read(plain, *(f"der{blank}Hund" for blank in BLANKS)) == ["der Hund"] * len(BLANKS)


def test_what_is_unknown_and_does_not_show_is_left_out(plain):
    texts = [f"{one}der H{one}und{one}" for one in HIDDEN]
    assert read(plain, *texts) == ["der Hund"] * len(HIDDEN)
    for joiner in "\u200c\u200d":
        assert read(plain, f"a{joiner}b") == [f"a{joiner}b"]


def test_letters_are_composed_with_their_marks(plain):
    assert read(plain, *(unicodedata.normalize("NFD", line) for line in LINES)) == LINES
    assert UNK_ID not in plain.encode_lists(read(plain, "u\u0308ber\u00a0der \u00adStraße"))[0]


def test_what_sub_words_hold_stays_and_the_rest_does_not(others):
    assert read(others, *OTHERS) == OTHERS
    assert read(others, "10\u2009000\u2060 u\u0308\u00a0ü") == ["10 000 u\u0308\u00a0ü"]


@pytest.mark.parametrize("line", ["a\u0301 ab", "\u1112\u1161\u11ab", "\u212b ab"])
def test_nothing_is_composed_where_that_would_change_what_is_known(line):
    """Marks, parts of Hangul's syllables, characters that NFC writes as others."""
    assert read(subwords_of([line] * 9, 7), "e\u0301", "\u2126") == ["e\u0301", "\u2126"]
    assert read(subwords_of(["ab"] * 9, 6), "e\u0301", "\u2126") == ["é", "Ω"]


def test_the_selector_of_an_emoji_is_no_accent():
    for line in ("ab \u2764\ufe0f", "ab 1\u20e3", "ab \u0e01\u0e34"):
        assert read(subwords_of([line] * 9, 8), f"e\u0301 {line}") == [f"é {line}"]


def test_bytes_that_training_did_not_have_are_not_read():
    subwords = subwords_of(LINES, byte_fallback=True, size=330)
    assert read(subwords, "der\u00a0Hu\u00adnd u\u0308ber \U0001f600") == [
        "der Hund über \U0001f600"
    ]
    assert read(subwords_of(["a\u00a0b"] * 9, byte_fallback=True, size=264), "a\u00a0b") == [
        "a\u00a0b"
    ]


def test_vocabularies_that_know_them_otherwise_read_them_as_in_training():
    subwords = subwords_of(LINES, normalization="nmt_nfkc")
    texts = [f"der{one}Hund" for one in "\t\u00a0\u3000\u200b\ufeff"]
    assert read(subwords, *texts) == texts
    assert not any(UNK_ID in row for row in subwords.encode_lists(texts))


def test_words_are_found_between_such_blanks_and_without_what_does_not_show():
    words = subwords_of(LINES, vocabulary_kind="word")
    assert read(words, "der\u00a0Hu\u00adnd \u200bu\u0308ber") == ["der Hund über"]
    assert UNK_ID not in words.encode_lists(["der Hund über"])[0]
