"""Tags: symbols that no sub-word model takes apart."""

import pytest
import tensorflow as tf

from dtmt_tf.config import EOS_ID, UNK_ID, DataConfig
from dtmt_tf.errors import UserError
from dtmt_tf.text import Subwords, train_subwords

TAGS = "<2de>", "<2fr>", "<BT>"
TAG = UNK_ID + 1  # the first one's id
TEXT = ["<2de> two dogs run . two men look at them .", "<2fr> a dog runs , a man looks"] * 20
LINES = ["<BT> two dogs", "dogs<2fr>", "<2de> <BT>", "", "<2de>", "  two"]


def tagged(**settings):
    return Subwords(train_subwords(TEXT, 60, DataConfig(reserved_symbols=TAGS, **settings)))


@pytest.fixture(scope="module")
def subwords():
    return tagged()


@pytest.mark.parametrize("normalization", ["identity", "nmt_nfkc_cf"])
def test_a_reserved_symbol_is_one_subword_wherever_it_stands(normalization):
    subwords = tagged(normalization=normalization)
    rows = subwords.encode_lists(LINES)
    tags = [[k - TAG for k in row if TAG <= k < TAG + 3] for row in rows]
    assert tags == [[2], [1], [0, 2], [], [0], []]
    assert subwords.encode(tf.constant(LINES)).to_list() == rows
    ids = subwords.encode(tf.constant(LINES)).to_tensor()
    assert [text.decode() for text in subwords.decode(ids).numpy()] == [*LINES[:-1], "two"]
    names = subwords.pieces(tf.constant([[TAG, TAG + 1, TAG + 2]]))
    assert [name.decode() for name in names[0].numpy()] == list(TAGS)


def test_dropped_merges_leave_it_whole(subwords):
    rows = subwords.sample(["<BT> two dogs"] * 50, seed=1, dropout_rate=0.9)
    assert all(row.count(TAG + 2) == 1 for row in rows)
    assert len({tuple(row) for row in rows}) > 5


def test_the_tags_of_a_long_text_begin_each_of_its_parts(subwords):
    def parts_of(text, longest):
        rows, owners = subwords.encode_parts(tf.constant(["two", text, ""]), longest)
        texts = [text.decode() for text in subwords.decode(rows.to_tensor()).numpy()]
        assert all(len(row) <= longest and row[-1] == EOS_ID for row in rows.to_list())
        return texts[1:-1], owners.numpy().tolist()

    one, other = "two dogs run .", "two men look at them ."
    plain, owners = parts_of(f"{one} {other}", 8)
    assert plain == [one, other] and owners == [0, 1, 1, 2]
    texts, owners = parts_of(f"<2de> <BT> {one} {other}", 12)
    assert texts == [f"<2de> <BT> {one}", f"<2de> <BT> {other}"] and owners == [0, 1, 1, 2]
    inside, _ = parts_of(f"{one} <2fr> {other}", 10)
    assert inside == [one, f"<2fr> {other}"]  # it is none of the whole text
    only_tags, _ = parts_of("<2de> " * 9, 6)  # what is not their place
    assert "".join(only_tags).count("<2de>") >= 9


def test_what_a_part_says_in_the_text_is_known_of_tags_too(subwords):
    text = tf.constant(["<2de> two dogs run . two men look ☃ them .", "a dog"])
    parts, owners = subwords.encode_parts(text, 12)
    surfaces = subwords.part_surfaces(text, 12, parts, owners)
    assert surfaces.row_lengths().numpy().tolist() == parts.row_lengths().numpy().tolist()
    joined = [b"".join(row).decode() for row in surfaces.to_list()]
    assert joined == ["<2de>twodogsrun.", "<2de>twomenlook☃them.", "adog"]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"reserved_symbols": ("<a b>",)}, "without blanks.*Received: '<a b>'"),
        ({"reserved_symbols": ("<a>", "<a>")}, "different.*Received: '<a>'"),
        ({"reserved_symbols": ("x",)}, "two characters or more"),
        ({"reserved_symbols": ("<unk>",)}, "none of them <pad>, <eos>, <unk>"),
        ({"reserved_symbols": ("▁x",)}, "Received: '▁x'"),
        ({"reserved_symbols": ("<a>",), "vocabulary_kind": "word"}, "need `data.vocabulary_kind"),
    ],
)
def test_what_is_no_symbol_is_refused(setting, message):
    with pytest.raises(UserError, match=message):
        DataConfig(**setting)
