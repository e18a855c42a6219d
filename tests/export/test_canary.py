"""What speaks against a version is found in its translations of the run's samples."""

import pytest

from dtmt_tf.export.canary import Canary
from dtmt_tf.text.faults import is_repetition

PAIRS = [("a", "A"), ("b", "B"), ("c", "C"), ("d", "D")]


def found(translations, bleu=30.0, before=None, **options):
    canary = Canary(lambda hypotheses, references: bleu, **options)
    return canary.problems(translations, bleu, before)


def test_good_translations_pass():
    assert found(["A", "B", "C", "D"]) == []
    assert found(["A", "B", "", " "]) == []  # a text of nothing has no translation


def test_a_model_that_answers_nothing_fails():
    assert found(["", "", " ", "D"]) == ["3 of 4 samples are translated as nothing"]


@pytest.mark.parametrize("text", ["the the the the", "hahahaha", "....", "ein Hund " * 4])
def test_one_repeated_token_fails(text):
    assert is_repetition(text)
    assert found([text, text, text, "D"]) == ["3 of 4 translations repeat one token"]
    assert found([text, text, "C", "D"]) == []


@pytest.mark.parametrize("text", ["", "the", "the the the", "the the the the dog", "31"])
def test_other_texts_are_no_repetition(text):
    assert not is_repetition(text)


def test_the_version_before_sets_the_bound():
    fine = ["A", "B", "C", "D"]
    assert found(fine, 30.0, before=35.0) == []
    (problem,) = found(fine, 29.9, before=35.0)
    assert problem.startswith("BLEU 29.90 on 4 samples; the version before has 35.00")


def test_a_bound_that_is_given_replaces_it():
    fine = ["A", "B", "C", "D"]
    assert found(fine, 30.0, before=99.0, min_bleu=30.0) == []
    assert found(fine, 29.9, min_bleu=30.0) == ["BLEU 29.90 on 4 samples; --min-bleu asks for 30"]
