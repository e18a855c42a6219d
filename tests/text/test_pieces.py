"""What is told of sub-words is counted: kinds, frequencies, coverage, what is unknown."""

import pytest

from dtmt_tf.config import UNK_ID, DataConfig
from dtmt_tf.text import Subwords, inspection, train_subwords

LINES = ["ab ab ab cd", "ab cd", "ab x"] * 20


@pytest.fixture(scope="module")
def subwords():
    return Subwords(train_subwords(LINES, 11, DataConfig()))


def test_pieces_are_counted_by_kind(subwords):
    names = inspection.names(subwords)
    assert names[:3] == ["<pad>", "<eos>", "<unk>"] and len(names) == subwords.size == 11
    single = sum(len(name.lstrip("▁")) <= 1 for name in names[3:])
    kinds = inspection.kinds(subwords)
    assert kinds["special"] == 3 and kinds["characters"] == single
    assert sum(kinds.values()) == 11 and "bytes" not in kinds
    with_bytes = train_subwords(LINES, 266, DataConfig(byte_fallback=True))
    assert inspection.kinds(Subwords(with_bytes))["bytes"] == 256


def test_the_pieces_of_a_text_are_counted(subwords):
    usage = inspection.usage(subwords, iter(LINES))
    assert (usage.lines, usage.words) == (60, 160)
    assert usage.characters == sum(map(len, LINES))
    names = inspection.names(subwords)
    assert names[usage.most_frequent()[0]] == "▁ab" and usage.counts.max() == 100
    assert usage.total == sum(len(inspection.split(subwords, line)) for line in LINES)
    # 100 of them are ▁ab
    assert usage.pieces_of_share(100 / usage.total) == 1
    assert usage.pieces_of_share(101 / usage.total) == 2
    assert usage.pieces_of_share(1) == (usage.counts > 0).sum()
    assert not usage.unknown and usage.unknown_lines == 0


def test_what_is_unknown_is_named(subwords):
    usage = inspection.usage(subwords, ["ab éé", "ab", "é!"])
    assert usage.unknown == {"é": 3, "!": 1}
    assert usage.unknown_lines == 2 and usage.counts[UNK_ID] == 2
    assert inspection.split(subwords, "ab é") == ["▁ab", "▁", "<unk>"]
    assert inspection.split(subwords, "ab\u00a0a\u200bb") == ["▁ab", "▁ab"]  # as it is translated
    words = Subwords(train_subwords(LINES, 5, DataConfig(vocabulary_kind="word")))
    assert inspection.usage(words, ["ab zz y", "zz"]).unknown == {"zz": 2, "y": 1}
