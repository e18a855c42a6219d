"""Pieces of a long input: order, limits, and no waiting for what is not there."""

import itertools
from types import SimpleNamespace

import pytest

from dtmt_tf.errors import Refused
from dtmt_tf.translator import Translator, stream
from dtmt_tf.translator.stream import paced


@pytest.fixture
def clock(monkeypatch):
    """Time that passes when it is told to."""

    class Clock:
        now = 0.0

        def monotonic(self):
            return self.now

    clock = Clock()
    monkeypatch.setattr(stream, "time", clock)
    return clock


def sizes_of(clock, seconds_of, rows=100, least=2, most=16, **options):
    sizes = []

    def answer(piece):
        sizes.append(len(piece))
        clock.now += seconds_of(len(piece))
        return [row + 1 for row in piece]

    assert list(paced(range(rows), answer, least, most, **options)) == list(range(1, rows + 1))
    return sizes


def test_pieces_grow_while_they_are_quick_and_shrink_when_they_are_slow(clock):
    assert sizes_of(clock, lambda size: 0.0) == [2, 4, 8, 16, 16, 16, 16, 16, 6]
    assert sizes_of(clock, lambda size: size * 0.1, rows=40) == [2, 4, 8, 8, 8, 8, 2]
    slow = itertools.chain([0.0, 0.0, 0.0, 9.0, 9.0, 9.0], itertools.repeat(9.0))
    assert sizes_of(clock, lambda size: next(slow), rows=50)[:7] == [2, 4, 8, 16, 8, 4, 2]


def test_what_was_read_is_answered_when_the_next_row_is_not_there(clock):
    there = iter([True, False, False, True, True, True, True, True, True])
    sizes = sizes_of(clock, lambda size: 0.0, rows=8, least=4, ready=lambda: next(there))
    assert sizes == [2, 1, 4, 1]


def test_rows_are_read_no_further_than_answered(clock):
    read = []
    rows = (read.append(k) or k for k in range(10**9))
    answers = paced(rows, lambda piece: piece, 2, 4)
    assert next(answers) == 0 and len(read) == 2
    assert list(itertools.islice(answers, 5)) == [1, 2, 3, 4, 5] and len(read) == 6
    assert list(paced([], lambda piece: piece, 2, 4)) == []


def refusing(rows):
    if odd := [row for row in rows if row % 7 == 5]:
        raise Refused(str(odd[0]))
    return [-row for row in rows]


def test_rows_before_one_that_is_refused_are_answered(clock):
    answers = paced(range(9), refusing, 4, 8)
    assert list(itertools.islice(answers, 5)) == [0, -1, -2, -3, -4]
    with pytest.raises(Refused, match="^5$"):
        next(answers)


def test_a_refused_row_is_answered_after_those_before_it(clock):
    seen = []

    def refuse(row, error):
        assert str(error) == str(row)
        seen.append(("refused", row))

    for answer in paced(range(14), refusing, 8, 8, refuse=refuse):
        seen.append(answer)
    expected = [-row for row in range(14)]
    for row in (12, 5):
        expected[row : row + 1] = [("refused", row), None]
    assert seen == expected


def test_a_refusal_says_nothing_of_how_quick_a_piece_is(clock):
    sizes = []

    def answer(piece):
        sizes.append(len(piece))
        return refusing(piece)

    assert list(paced(range(24), answer, 6, 12, refuse=lambda row, error: -row))[-1] == -23
    assert sizes[:8] == [6, 3, 3, 1, 2, 1, 1, 6]


def test_a_piece_has_as_many_batches_as_are_answered_side_by_side(monkeypatch, clock):
    monkeypatch.setattr("dtmt_tf.translator.translator.concurrent_batches", lambda: 3)
    sizes = []

    def answer(piece):
        sizes.append(len(piece))
        clock.now += 9.0
        return piece

    assert list(Translator.paced(SimpleNamespace(batch_size=2), range(14), answer)) == [*range(14)]
    assert sizes == [6, 6, 2]


def test_one_string_is_no_list_of_lines():
    with pytest.raises(TypeError, match="several strings"):
        Translator.stream(object(), "March 5")


def test_a_batch_has_at_least_one_text(tmp_path):
    with pytest.raises(ValueError, match=r"batch_size should be at least 1. Received: 0\."):
        Translator(tmp_path, batch_size=0)
