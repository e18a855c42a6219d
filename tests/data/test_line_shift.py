"""A side that is shifted by a line is noticed by the lengths, and nothing else is."""

import numpy as np
import pytest

from dtmt_tf.data.line_shift import BLOCK, SMALLEST, Shifts, shift

RANDOM = np.random.default_rng(5)
SOURCE = RANDOM.integers(5, 150, 1000)
TARGET = (SOURCE * RANDOM.uniform(0.7, 1.5, 1000)).astype(int)


def found(source, target):
    shifts = Shifts()
    for pair in zip(source.tolist(), target.tolist(), strict=True):
        shifts.add(*pair)
    shifts.end()
    return shifts.found


def test_translations_are_not_shifted_however_long_they_are():
    assert shift(SOURCE, TARGET) == shift(SOURCE, 3 * TARGET) == 0
    assert found(SOURCE, TARGET) == {}
    ordered = np.argsort(SOURCE)  # where neighbours are as long
    assert found(SOURCE[ordered], TARGET[ordered]) == {}


def test_lines_that_do_not_vary_or_do_not_belong_together_are_not_shifted():
    assert shift([7] * 300, [9] * 300) == 0
    assert shift(SOURCE, RANDOM.permutation(TARGET)) == 0


def test_the_side_that_lost_a_line_is_told():
    assert shift(SOURCE[1:], TARGET[:-1]) == 1
    assert shift(SOURCE[:-1], TARGET[1:]) == -1


def test_blocks_behind_a_lost_line_are_counted_from_the_first_on():
    target = np.delete(TARGET, 450)
    assert found(SOURCE[:-1], target) == {-1: (2 * BLOCK + 1, 599)}  # most of its block
    restored = np.insert(np.delete(TARGET, 450), 850, 3)  # and one too many, later
    assert found(SOURCE, restored) == {-1: (2 * BLOCK + 1, 2 * BLOCK)}


@pytest.mark.parametrize(("share", "told"), [(0.45, 0), (0.75, 1)])
def test_lines_that_fit_in_part_are_shifted_from_a_correlation_of_a_half_on(share, told):
    random = np.random.default_rng(6)
    fits = random.random(1000) < share
    assert shift(SOURCE, np.where(fits, np.roll(TARGET, 1), random.permutation(TARGET))) == told


@pytest.mark.parametrize(("size", "told"), [(SMALLEST - 1, False), (SMALLEST, True)])
def test_a_short_end_is_left_alone(size, told):
    assert bool(found(SOURCE[1:][:size], TARGET[:size])) == told
