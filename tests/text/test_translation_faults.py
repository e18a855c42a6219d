"""Translations that are nothing, or the same again and again, are found without references."""

import pytest

from dtmt_tf.text.faults import faults, repeats_itself


@pytest.mark.parametrize(
    "text",
    [
        *("a dog and a dog and a dog and a dog and", "yes the the the the end", "hahahaha"),
        *("one, one, one, one, two", "我们我们我们我们", "so it is that " * 4 + "so"),
    ],
)
def test_what_repeats_itself_is_found(text):
    assert repeats_itself(text)


@pytest.mark.parametrize(
    "text", ["", "the the the dog", "1000000000000", "wait ......", "----------", "very, very good"]
)
def test_what_does_not_is_not(text):
    assert not repeats_itself(text)


def test_faults_of_more_than_a_tenth_are_told():
    sources = ["one"] * 20 + ["", "no no no no"]
    fine = ["eins"] * 20 + ["", "nein nein nein nein"]  # as their sources are
    assert faults(sources, fine) == []
    assert faults(sources, ["", ""] + fine[2:]) == []
    assert faults(sources, ["", " ", ""] + fine[3:]) == ["3 of 21 translations are empty"]
    assert faults(sources, ["ei ei ei ei"] * 4 + fine[4:]) == [
        "4 of 20 translations repeat themselves"
    ]
    blank = [""] * 90  # nothing is translated as nothing
    assert faults([*sources, *blank], ["", " ", "", *fine[3:], *blank]) == [
        "3 of 21 translations are empty"
    ]
    assert faults([], []) == []
