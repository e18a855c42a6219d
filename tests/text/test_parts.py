"""Where long texts are cut."""

import pytest
import tensorflow as tf

from dtmt_tf.text.parts import Cutter

SPACED, UNSPACED, NARROW = "۔։॥．", "။།។።｡", "!?"  # ends of sentences, before a blank or not
PIECES = ["<pad>", "<eos>", "<unk>", "▁a", "b", ".", ",", "▁c", "。", "▁"]
PIECES += [*SPACED, *UNSPACED, *NARROW, ";", "中", "の", "カ", "한"]
END, COMMA, IDEOGRAPHIC, A, B, C = 5, 6, 8, 3, 4, 7
LETTERS = [PIECES.index(letter) for letter in "中のカ"]
HANGUL = PIECES.index("한")


def cut(*rows, longest):
    ids = tf.ragged.constant(rows, tf.int32, ragged_rank=1)
    parts, owners = Cutter(PIECES)(ids, longest)
    return parts.to_list(), owners.numpy().tolist()


def test_what_fits_is_one_part():
    rows = [[A, END, C], [], [A, B, C, END]]
    assert cut(*rows, longest=4) == (rows, [0, 1, 2])


@pytest.mark.parametrize(
    "row, expected",
    [
        # the last sentence end in reach, before a later clause end or blank
        ([A, END, C, END, A, COMMA, C, C], [[A, END, C, END], [A, COMMA, C, C]]),
        ([A, END, C, COMMA, A, B, C], [[A, END], [C, COMMA, A, B, C]]),
        # no sentence end: a clause end; none either: a blank; nothing at all: anywhere
        ([A, COMMA, C, C, C, C, C], [[A, COMMA], [C, C, C, C, C]]),
        ([A, B, C, B, B, C, B], [[A, B, C, B, B], [C, B]]),
        ([A, B, B, B, B, B, B], [[A, B, B, B, B], [B, B]]),
        # a point inside a number is no end, an ideographic one is
        ([A, END, B, C, B, B, A], [[A, END, B], [C, B, B, A]]),
        ([B, IDEOGRAPHIC, B, B, B, B, B], [[B, IDEOGRAPHIC], [B, B, B, B, B]]),
        # ends of other scripts: some before a blank alone, some anywhere
        *(
            ([A, end, C, C, COMMA, C, C], [[A, end], [C, C, COMMA, C, C]])
            for end in map(PIECES.index, SPACED + UNSPACED)
        ),
        *(
            ([B, end, B, B, B, B, B], [[B, end, B, B, B], [B, B]])
            for end in map(PIECES.index, SPACED)
        ),
        *(
            ([B, end, B, B, B, B, B], [[B, end], [B, B, B, B, B]])
            for end in map(PIECES.index, UNSPACED)
        ),
        # as NFKC leaves wide ones: before an ideograph or kana, but not before other letters
        *(
            ([B, end, letter, B, B, B, B], [[B, end], [letter, B, B, B, B]])
            for end in (*map(PIECES.index, NARROW), COMMA, PIECES.index(";"))
            for letter in LETTERS
        ),
        ([B, COMMA, HANGUL, B, B, B, B], [[B, COMMA, HANGUL, B, B], [B, B]]),
        ([B, COMMA, B, B, B, LETTERS[0], B], [[B, COMMA, B, B, B], [LETTERS[0], B]]),
    ],
)
def test_the_best_place_in_reach(row, expected):
    assert cut(row, longest=5)[0] == expected


QUOTED = ["<pad>", "他", "。", "”", "」", "？", "！", "。”", "▁a", ".", ")"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("他 。 ” 他 他 他", ["他 。 ”", "他 他 他"]),
        ("他 。 ” 」 他 他", ["他 。 ” 」", "他 他"]),
        ("他 他 。 ？ ！ 他", ["他 他 。 ？ ！", "他"]),
        ("他 。” 他 他 他 他", ["他 。”", "他 他 他 他"]),
        ("他 ” 他 他 他 他", ["他 ” 他 他 他", "他"]),  # nothing ended
        ("▁a . ) ▁a ▁a ▁a", ["▁a . )", "▁a ▁a ▁a"]),
    ],
)
def test_what_closes_stays_with_what_it_closes(text, expected):
    ids = tf.ragged.constant([[QUOTED.index(piece) for piece in text.split()]], tf.int32)
    parts = Cutter(QUOTED)(ids, 5)[0].to_list()
    assert [" ".join(QUOTED[k] for k in part) for part in parts] == expected


def test_what_closes_at_the_start_of_a_text_is_not_of_the_text_before():
    quote, other, end = (QUOTED.index(piece) for piece in "”他。")
    row = [quote, other, other, other, other, other]
    before = [other, other, end]
    cutter = Cutter(QUOTED)
    alone = cutter(tf.ragged.constant([row], tf.int32), 5)[0].to_list()
    assert cutter(tf.ragged.constant([before, row], tf.int32), 5)[0].to_list() == [before, *alone]


def test_parts_know_their_rows_and_make_them_up():
    rows = [[A] * 7, [C], [], [B] * 12]
    parts, owners = cut(*rows, longest=3)
    assert owners == [0, 0, 0, 1, 2, 3, 3, 3, 3]
    together = [[], [], [], []]
    for part, owner in zip(parts, owners, strict=True):
        together[owner] += part
        assert len(part) <= 3
    assert together == rows


def test_no_rows():
    assert cut(longest=3) == ([], [])
