"""Attention between sub-words becomes alignment between words; values by hand."""

import numpy as np
import pytest

from dtmt_tf.translator.words import Alignment, align_words, words_of


@pytest.mark.parametrize(
    ("text", "pieces", "words", "owners"),
    [
        ("a small dog", ["▁a", "▁sm", "all", "▁dog", "<eos>"], None, [0, 1, 1, 2, -1]),
        ("a  dog", ["▁a", "▁", "▁d", "og", "<eos>"], None, [0, 1, 1, 1, -1]),
        ("dog", ["▁", "d", "og"], None, [0, 0, 0]),
        ("ä ☃x", ["▁", "<0xC3>", "<0xA4>", "▁", "<unk>", "x"], None, [0, 0, 0, 1, 1, 1]),
        ("", ["<eos>"], None, [-1]),
        # the first part alone of a long text: the words are those of its sub-words
        ("a dog. two dogs.", ["▁a", "▁dog", ".", "<eos>"], ["a", "dog."], [0, 1, 1, -1]),
        ("x", ["▁", "<0xC3>", "▁y"], ["\ufffd", "y"], [0, 0, 1]),
    ],
)  # fmt: skip
def test_sub_words_are_counted_by_the_words_of_the_text(text, pieces, words, owners):
    assert words_of(text, pieces, True) == (text.split() if words is None else words, owners)


def test_without_blanks_each_sub_word_is_a_word():
    snowman = ["<0xE2>", "<0x98>", "<0x83>"]
    words, owners = words_of("我喜欢☃☃你", ["▁", "我", "喜欢", *snowman * 2, "你", "<eos>"], False)
    assert words == ["我", "喜欢", "☃", "☃", "你"]
    assert owners == [0, 0, 1, 2, 2, 2, 3, 3, 3, 4, -1]
    words = words_of("我 喜欢 ☃", ["▁我", "▁喜欢", "▁<unk>", "<eos>"], False)  # of a model of words
    assert words == (["我", "喜欢", "☃"], [0, 1, 2, -1])


def test_attention_is_added_over_the_source_and_averaged_over_the_target():
    attention = np.array(
        [  # ein  Hu  nd  <eos>
            [0.7, 0.1, 0.1, 0.1],  # a
            [0.2, 0.3, 0.4, 0.1],  # d
            [0.0, 0.2, 0.6, 0.2],  # og
            [0.1, 0.1, 0.1, 0.7],  # .
            [0.0, 0.0, 0.0, 1.0],  # <eos>
        ],
        np.float32,
    )
    found = align_words(
        ("ein Hund", ["▁ein", "▁Hu", "nd", "<eos>"], True),
        ("a dog .", ["▁a", "▁d", "og", "▁.", "<eos>"], True),
        attention,
    )
    assert (found.source, found.target) == (("ein", "Hund"), ("a", "dog", "."))
    np.testing.assert_allclose(found.attention, [[0.7, 0.2], [0.1, 0.75], [0.1, 0.2]], atol=1e-6)
    assert found.links == ((0, 0), (1, 1))  # the full stop looks at the end
    assert found.pharaoh == "0-0 1-1"


@pytest.mark.parametrize(
    ("text", "pieces", "owners"),
    [
        ("the street car stops", "the <unk> stops", [0, 1, 1, 2]),
        ("a street car or a tram car stops", "a <unk> or a <unk> stops", [0, 1, 1, 2, 3, 4, 4, 5]),
        ("New York in New York", "<unk> <unk> <unk>", [0, 1, 2, 2, 2]),
        ("New York in New York", "<unk> in <unk>", [0, 0, 1, 2, 2]),
        ("New York in Rome", "<unk> in <unk>", [0, 0, 1, 2]),
        ("the tram stops", "the <unk> stops", [0, 1, 2]),
        ("", "<unk>", []),  # nothing was shown
    ],
)
def test_an_unknown_word_may_be_replaced_by_several(text, pieces, owners):
    names = [*(f"▁{name}" for name in pieces.split()), "<eos>"]
    attention = np.eye(len(names), dtype=np.float32)
    source = " ".join(f"w{k}" for k in range(len(names) - 1))
    found = align_words(
        (source, [*(f"▁{word}" for word in source.split()), "<eos>"], True),
        (text, names, True),
        attention,
    )
    if owners:
        assert found.target == tuple(text.split())
        assert found.links == tuple((owner, k) for k, owner in enumerate(owners))


def test_nothing_is_aligned_with_nothing():
    found = align_words(("", ["<eos>"], True), ("", ["<eos>"], True), np.ones([1, 1]))
    assert found == Alignment((), (), ()) and found.pharaoh == ""
