"""The page about a run: what it says follows from the facts, and no text becomes markup."""

import dataclasses
import re
from html.parser import HTMLParser

import numpy as np

from dtmt_tf.evaluation import score_hypotheses
from dtmt_tf.evaluation.run_report import (
    MIN_SENTENCES,
    RunFacts,
    SplitFacts,
    curve,
    length_bins,
    lengths,
    metrics,
    page,
)
from dtmt_tf.evaluation.sentences import bleu_interval, count_sentences

REFERENCES = [f"der Hund {k} sieht die Katze <b>{k}</b> & mehr" for k in range(60)]
TRANSLATIONS = [text if k % 3 else f"kein Wort {k}" for k, text in enumerate(REFERENCES)]
SOURCES = [f"the dog {k} sees the cat" + " too" * (6 * (k % 2)) for k in range(60)]
HISTORY = [{"step": 10, "bleu": 1.5, "loss": 3.0}, {"step": 20, "bleu": 2.5, "cross_entropy": 1.0}]


def facts():
    scores = vars(score_hypotheses(TRANSLATIONS, REFERENCES, full=True))
    scores = scores | {"checkpoint_steps": [1500, 2000]}
    split = SplitFacts("test", scores, SOURCES, REFERENCES, TRANSLATIONS)
    return RunFacts(
        "toy / <mine>",
        {"updates": "20"},
        HISTORY,
        [split],
        ["a.en:3: repeats <an> earlier pair (2)"],
        [("model.units", "<8>", "--set")],
        [(["a", "$dog"], ["ein", "Hund"], np.eye(2))],
    )


class Reader(HTMLParser):
    """Collects text and elements; what is opened is closed."""

    def __init__(self):
        super().__init__()
        self.open, self.seen, self.text = [], [], ""

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        if tag not in ("meta", "!doctype"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_startendtag(self, tag, attrs):
        self.seen.append(tag)

    def handle_data(self, data):
        self.text += data


def test_a_page_tells_scores_worst_and_best_and_needs_nothing_else():
    reader, text = Reader(), page(facts())
    reader.feed(text)
    assert reader.open == []
    assert "b" not in reader.seen and "script" not in reader.seen
    assert reader.seen.count("svg") == 3  # curve, lengths, attention
    assert not re.search(r'(src|href)="(?!#|data:)', text)
    for told in ("toy / <mine>", "1,500, 2,000", "</b> & mehr", "<8>", "<an> earlier", "$dog"):
        assert told in reader.text
    worst, _, best = reader.text.partition("best sentences")
    assert worst.count("kein Wort") == 8 and "kein Wort" not in best
    assert [int(k) for k in re.findall("the dog ([0-9]+) ", best)] == [1, 2, 4, 5, 7, 8, 10, 11]
    for low, high in facts().splits[0].scores["intervals"].values():
        assert f"({low:.2f}–{high:.2f})" in reader.text
    low, high = bleu_interval([count_sentences(TRANSLATIONS, REFERENCES)])
    assert facts().splits[0].scores["intervals"]["bleu"] == (low, high)
    bleu = facts().splits[0].scores["bleu"]
    assert low < bleu < high and f"{bleu:.2f}" in reader.text
    assert page(facts()) == text


def test_what_is_drawn_are_the_scores():
    references = ["a b c d e"] * 60
    sources, translations = ["a b"] * 30 + ["a " * 12] * 30, references[:30] + ["v w x y z"] * 30
    drawn = lengths(SplitFacts("test", {}, sources, references, translations))
    points = drawn.axes[0].containers[0].lines[0].get_xydata()
    np.testing.assert_allclose(points, [[0, 100], [1, 0]])
    points = curve(HISTORY).axes[0].lines[0].get_xydata()
    assert points.tolist() == [[10, 1.5], [20, 2.5]]


def test_letters_that_the_font_lacks_are_left_to_what_shows_the_page(recwarn):
    text = page(dataclasses.replace(facts(), attention=[(["狗"], ["Hund"], np.eye(1))]))
    assert ">狗<" in text and not [each for each in recwarn if "Glyph" in str(each.message)]


def test_lines_are_binned_by_words_and_no_bin_is_small():
    lines = ["a b"] * 30 + ["a " * 7] * 3 + ["a " * 12] * 25 + ["a " * 40]
    bins = length_bins(lines)
    assert [name for name, _ in bins] == ["0–4", "5–44"]
    assert sorted(row for _, rows in bins for row in rows) == list(range(len(lines)))
    assert all(len(rows) >= MIN_SENTENCES for _, rows in bins)
    assert length_bins(["a"]) == [("0–4", [0])]


def test_lines_without_blanks_are_binned_by_characters():
    lines = ["他们去公园"] * 30 + ["他们去公园他们去公园他们"] * 30
    assert [name for name, _ in length_bins(lines)] == ["0–4"]
    assert [(name, len(rows)) for name, rows in length_bins(lines, "zh")] == [
        ("0–9", 30), ("10–19", 30)
    ]  # fmt: skip
    for language, unit in (("zh_Hans", "characters"), ("en", "words"), ("", "words")):
        split = SplitFacts("test", {}, lines, lines, lines, source_language=language)
        assert lengths(split).axes[0].get_xlabel() == f"source {unit}, and sentences"


def test_case_counts_unless_the_split_ignores_it():
    shouted = [text.upper() for text in TRANSLATIONS]
    for lowercase in (False, True):
        scores = vars(score_hypotheses(shouted, REFERENCES, lowercase=lowercase))
        split = SplitFacts("test", scores, SOURCES, REFERENCES, shouted, lowercase=lowercase)
        like = TRANSLATIONS if lowercase else shouted
        assert (split.counts == count_sentences(like, REFERENCES)).all()
        best = page(RunFacts("t", {}, [], [split])).partition("best sentences")[2]
        assert ("100.0" in best) == lowercase


def test_validations_are_a_table():
    assert metrics(HISTORY) == "step,bleu,loss,cross_entropy\n10,1.5,3.0,\n20,2.5,,1.0\n"
