"""The page about two systems: which sentences it shows, and what it marks."""

import dataclasses

import numpy as np
import pytest

from dtmt_tf.evaluation import compare_systems
from dtmt_tf.evaluation.comparison_page import Compared, marked, page, sentence_scores
from tests.evaluation.test_run_report import Reader

REFERENCES = [f"der Hund {k} sieht die <i>Katze</i> & mehr" for k in range(40)]
BASELINE = [line if k % 8 else f"nichts {k}" for k, line in enumerate(REFERENCES)]
SYSTEM = [line if k % 5 else line.replace("Hund", "Esel") for k, line in enumerate(REFERENCES)]


@pytest.fixture(scope="module")
def found():
    scores = compare_systems({"old <1>": BASELINE, "new": SYSTEM}, REFERENCES, samples=20)
    return Compared(scores, [BASELINE, SYSTEM], [REFERENCES], [f"line {k}" for k in range(40)])


def read(found):
    reader, text = Reader(), page(found)
    reader.feed(text)
    assert reader.open == []
    return reader


def test_gains_and_losses_are_shown_with_their_lines_and_nothing_else(found):
    reader = read(found)
    gained, _, lost = reader.text.partition("Most lost")
    assert gained.count("nichts") == 5 and gained.count("Esel") == 1  # line 0 is both
    assert lost.count("Esel") == 7 and "nichts" not in lost
    assert "line 33" in gained and "+" in gained.partition("Most gained")[2]
    assert "5 sentences are better than the baseline's, 7 are worse, 28 equal" in reader.text
    assert "old <1>" in reader.text and "<i>Katze</i> & mehr" in reader.text
    assert "i" not in reader.seen and "script" not in reader.seen
    for score in (found.scores[1].bleu, found.scores[1].metrics["TER"].score):
        assert f"{score:.2f}" in reader.text


def test_systems_that_are_equal_have_neither_gains_nor_losses(found):
    equal = dataclasses.replace(found, translations=[BASELINE, BASELINE])
    assert "28 equal" not in read(equal).text and "0 are worse, 40 equal" in read(equal).text
    assert "Most" not in read(equal).text


def test_sentences_are_scored_by_all_references(found):
    scores = sentence_scores(found, 0)
    assert scores.shape == (40,) and scores[1] == pytest.approx(100) and scores[8] < 30
    both = dataclasses.replace(found, references=[REFERENCES, BASELINE])
    np.testing.assert_allclose(sentence_scores(both, 0), 100)


def test_words_that_the_other_has_not_are_marked():
    assert marked("a b & d", "a c & d") == "a <mark>b</mark> &amp; d"
    assert marked("a b", "a b") == "a b"
    assert marked("", "a") == ""
    assert marked("我喜欢黑色的猫", "我喜欢白色的猫") == "我喜欢<mark>黑</mark>色的猫"
    assert marked("x <y>", "") == "<mark>x &lt;y&gt;</mark>"


def test_sentences_are_compared_without_case_where_that_is_asked_for():
    texts = [["A B C D E"]], [["a b c d e"]]
    assert sentence_scores(Compared([], *texts, lowercase=True), 0) == 100
    assert sentence_scores(Compared([], *texts), 0) < 100
