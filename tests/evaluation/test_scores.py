"""Scores agree with sacreBLEU's command line and carry their conditions."""

import json
import logging
import math
import os
import subprocess
import sys

import pytest
import sacrebleu
from sacrebleu.metrics import BLEU, CHRF, TER

from dtmt_tf.errors import UserError
from dtmt_tf.evaluation import compare_systems, score_hypotheses

REFERENCES = [
    "Zwei Männer stehen am Herd und bereiten Essen zu.",
    "Ein Mädchen in einem Karateanzug bricht ein Brett mit einem Tritt.",
    "Leute reparieren das Dach eines Hauses.",
    "Ein Boston Terrier läuft über saftig-grünes Gras vor einem weißen Zaun.",
]
HYPOTHESES = [
    "Zwei Männer stehen am Herd und kochen Essen.",
    "Ein Mädchen in einem Karateanzug bricht ein Brett mit einem Tritt.",
    "leute reparieren das Dach des Hauses.",
    "Ein Hund läuft über das grüne Gras vor einem Zaun.",
]
# The two texts above, tokenised and lower-cased.
TOKENISED_REFERENCES = [line[:-1].lower() + " ." for line in REFERENCES]
TOKENISED_HYPOTHESES = [line[:-1].lower() + " ." for line in HYPOTHESES]
VERSION = sacrebleu.__version__


def _run_sacrebleu(tmp_path, references, systems, *options):
    """Returns what the sacreBLEU command line prints as JSON; references may be several lists."""
    several = references if isinstance(references[0], list) else [references]
    named = {f"references{k}": lines for k, lines in enumerate(several)}
    paths = []
    for name, lines in {**named, **systems}.items():
        path = tmp_path / name
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        paths.append(str(path))
    command = [sys.executable, "-m", "sacrebleu", *paths[: len(named)], "-i", *paths[len(named) :]]
    command += ["--format", "json", "--width", "6", *options]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(result.stdout)


def test_identical_text_scores_one_hundred():
    scores = score_hypotheses(REFERENCES, REFERENCES, exact_match=True)
    assert scores.bleu == pytest.approx(100.0)
    assert scores.chrf == pytest.approx(100.0)
    assert scores.exact_match == 100.0
    assert scores.precisions == pytest.approx((100.0,) * 4)
    assert scores.brevity_penalty == 1.0
    assert scores.num_sentences == 4


def test_known_values_of_a_small_set():
    scores = score_hypotheses(HYPOTHESES, REFERENCES)
    # Counted by hand, the final full stops being tokens of their own.
    assert (scores.hypothesis_length, scores.reference_length) == (9 + 12 + 7 + 11, 41)
    assert scores.precisions[0] == pytest.approx(100 * (8 + 12 + 5 + 8) / 39)
    assert scores.brevity_penalty == pytest.approx(math.exp(1 - 41 / 39))
    # Printed once by the command line of sacreBLEU 2.6.0.
    assert scores.precisions[1:] == pytest.approx((65.714286, 51.612903, 44.444444), abs=1e-5)
    assert scores.bleu == pytest.approx(56.774029, abs=1e-5)
    assert scores.chrf == pytest.approx(72.220614, abs=1e-5)


@pytest.mark.parametrize(
    ("hypotheses", "references", "settings", "options"),
    [
        (HYPOTHESES, REFERENCES, {}, []),
        (HYPOTHESES, REFERENCES, {"lowercase": True}, ["-lc", "--chrf-lowercase"]),
        (
            TOKENISED_HYPOTHESES,
            TOKENISED_REFERENCES,
            {"tokenize": "none"},
            ["--tokenize", "none", "--force"],
        ),
    ],
    ids=["cased-13a", "lowercase-13a", "tokenised"],
)
def test_scores_and_signatures_equal_those_of_the_command_line(
    tmp_path, hypotheses, references, settings, options
):
    scores = score_hypotheses(hypotheses, references, **settings, full=True)
    bleu, chrf, ter = _run_sacrebleu(
        tmp_path, references, {"system": hypotheses}, "-m", "bleu", "chrf", "ter", *options
    )
    assert scores.ter == pytest.approx(ter["score"], abs=1e-5)
    assert scores.ter_signature == ter["signature"]
    assert scores.bleu == pytest.approx(bleu["score"], abs=1e-5)
    assert scores.bleu_signature == bleu["signature"]
    assert scores.chrf == pytest.approx(chrf["score"], abs=1e-5)
    assert scores.chrf_signature == chrf["signature"]
    assert (
        f"hyp_len = {scores.hypothesis_length} ref_len = {scores.reference_length}"
        in (bleu["verbose_score"])
    )
    assert f"BP = {scores.brevity_penalty:.3f}" in bleu["verbose_score"]


OTHER_REFERENCES = [
    "Zwei Männer stehen am Herd und kochen.",
    "Ein Mädchen im Karateanzug zerbricht ein Brett mit einem Tritt.",
    "leute reparieren das Dach des Hauses.",
    "Ein Hund läuft vor einem weißen Zaun über das grüne Gras.",
]


def test_several_references_score_as_on_the_command_line(tmp_path):
    several = [REFERENCES, OTHER_REFERENCES]
    scores = score_hypotheses(HYPOTHESES, *several, exact_match=True)
    bleu, chrf = _run_sacrebleu(tmp_path, several, {"system": HYPOTHESES}, "-m", "bleu", "chrf")
    assert scores.bleu == pytest.approx(bleu["score"], abs=1e-5)
    assert scores.bleu > score_hypotheses(HYPOTHESES, REFERENCES).bleu + 5
    assert scores.bleu_signature == bleu["signature"] and "nrefs:2" in bleu["signature"]
    assert scores.chrf == pytest.approx(chrf["score"], abs=1e-5)
    assert scores.chrf_signature == chrf["signature"]
    assert scores.exact_match == 50.0  # one line is in each
    with pytest.raises(UserError, match=r"same number of lines. Received: 4 and 3"):
        score_hypotheses(HYPOTHESES, REFERENCES, OTHER_REFERENCES[:3])


def test_systems_are_compared_by_several_references():
    references, good, bad = _systems()
    systems = {"bad": bad, "good": good}
    alone = compare_systems(systems, references, samples=20)
    both = compare_systems(systems, references, bad, samples=20)
    assert both[0].bleu == pytest.approx(100.0) and both[1].bleu == alone[1].bleu
    assert "nrefs:2" in both[0].metrics["BLEU"].signature


# Tokenised text with a no-break space, and what Moses's multi-bleu.perl prints of it.
MULTI_REFERENCES = [
    [
        *("the cat sat on the mat .", "Er läuft über die\u00a0Straße ."),
        *("no match here at all", "A quick brown fox jumps over it"),
    ],
    [
        *("a cat was on the mat", "Er geht über die Straße ."),
        *("nothing fits", "the quick brown fox jumped over it ."),
    ],
]
MULTI_HYPOTHESES = [
    *("the cat the cat on the mat .", "er läuft über die\u00a0Straße"),
    *("entirely other words stand there now", "the QUICK brown fox jumps over"),
]


@pytest.mark.parametrize(
    ("number", "lowercase", "bleu", "precisions"),
    [
        (2, False, 34.19, (58.3, 45.0, 31.2, 16.7)),
        (1, False, 33.57, (54.2, 45.0, 31.2, 16.7)),
        (2, True, 53.73, (66.7, 60.0, 50.0, 41.7)),
        (1, True, 47.32, (62.5, 55.0, 43.8, 33.3)),
    ],
)
def test_multi_bleu_is_that_of_moses(number, lowercase, bleu, precisions):
    references = MULTI_REFERENCES[:number]
    how = {"tokenize": "multi-bleu", "lowercase": lowercase}
    scores = score_hypotheses(MULTI_HYPOTHESES, *references, **how)
    assert round(scores.bleu, 2) == bleu
    assert tuple(scores.precisions) == pytest.approx(precisions, abs=0.0501)  # printed with a digit
    assert (scores.hypothesis_length, scores.reference_length) == (24, 24)
    case = "lc" if lowercase else "mixed"
    assert scores.bleu_signature == (
        f"nrefs:{number}|case:{case}|eff:no|tok:none|smooth:none|version:{VERSION}"
        "|as:multi-bleu.perl"
    )


def test_multi_bleu_without_a_match_of_four_words_is_zero():
    scores = score_hypotheses(list("xyz"), ["x y", "y", "z"], tokenize="multi-bleu")
    assert scores.bleu == 0.0 and scores.precisions[0] == 100.0
    compared = compare_systems({"a": ["a b c d e"], "b": ["a b c d f"]}, ["a b c d e"],
                               tokenize="multi-bleu", samples=5)  # fmt: skip
    signatures = [system.metrics["BLEU"].signature for system in compared]
    assert [each.endswith("|as:multi-bleu.perl") for each in signatures] == [True] * 2


def test_signatures_name_the_conditions():
    scores = score_hypotheses(HYPOTHESES, REFERENCES)
    assert scores.bleu_signature == (
        f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{VERSION}"
    )
    assert scores.chrf_signature == (
        f"nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:{VERSION}"
    )
    tokenised = score_hypotheses(TOKENISED_HYPOTHESES, TOKENISED_REFERENCES, tokenize="none")
    assert tokenised.bleu_signature == (
        f"nrefs:1|case:mixed|eff:no|tok:none|smooth:exp|version:{VERSION}"
    )


def test_case_counts_unless_lowercase_is_asked_for():
    shouted = [line.upper() for line in REFERENCES[:3]]
    cased = score_hypotheses(shouted, REFERENCES[:3], exact_match=True)
    uncased = score_hypotheses(shouted, REFERENCES[:3], lowercase=True, exact_match=True)
    assert cased.bleu < 10.0
    assert cased.exact_match == 0.0
    assert uncased.bleu == pytest.approx(100.0)
    assert uncased.chrf == pytest.approx(100.0)
    assert uncased.exact_match == 100.0
    assert "case:lc" in uncased.bleu_signature
    assert "case:lc" in uncased.chrf_signature


def test_case_counts_in_a_comparison_unless_lowercase_is_asked_for():
    systems = {"same": REFERENCES[:3], "shouted": [line.upper() for line in REFERENCES[:3]]}
    for lowercase, case in ((False, "mixed"), (True, "lc")):
        _, shouted = compare_systems(systems, REFERENCES[:3], lowercase=lowercase, samples=5)
        for name in ("BLEU", "chrF2"):
            found = shouted.metrics[name]
            assert found.score == pytest.approx(100.0) if lowercase else found.score < 20.0
            assert f"case:{case}" in found.signature


def test_exact_match_is_a_percentage_of_sentences_and_optional():
    assert score_hypotheses(HYPOTHESES, REFERENCES).exact_match is None
    assert score_hypotheses(HYPOTHESES, REFERENCES, exact_match=True).exact_match == 25.0
    padded = [" " + REFERENCES[0] + "\n", "", *REFERENCES[2:]]
    assert score_hypotheses(padded, REFERENCES, exact_match=True).exact_match == 75.0


def test_intervals_hold_each_score_and_are_those_of_sacrebleu():
    references, good, _ = _systems()
    scores = score_hypotheses(good, references, exact_match=True, full=True)
    assert set(scores.intervals) == {"bleu", "chrf", "ter", "exact_match"}
    for name, metric in (("bleu", BLEU(force=True)), ("chrf", CHRF()), ("ter", TER())):
        low, high = scores.intervals[name]
        assert low < getattr(scores, name) < high
        theirs = metric.corpus_score(good, [references], n_bootstrap=1000)
        assert (high - low) / 2 == pytest.approx(theirs._ci, rel=0.1)  # of other samples
    low, high = scores.intervals["exact_match"]
    half = 1.96 * 100 * math.sqrt(0.8 * 0.2 / 60)  # of the normal distribution
    assert (low, high) == pytest.approx((80 - half, 80 + half), abs=2)
    assert score_hypotheses(good, references).intervals == {}


def test_ter_counts_characters_where_words_have_no_blanks():
    texts = ["我有一只猫。"], ["我有一只狗。"]
    assert score_hypotheses(*texts, tokenize="zh", full=True).ter == pytest.approx(100 / 6)
    assert score_hypotheses(*texts, full=True).ter == 100


def test_no_warning_about_tokenised_text_when_that_is_the_convention(caplog):
    # sacreBLEU warns from one hundred lines on.
    tokenised = TOKENISED_HYPOTHESES * 30
    references = TOKENISED_REFERENCES * 30
    with caplog.at_level(logging.WARNING, logger="sacrebleu"):
        logging.getLogger("sacrebleu").addHandler(caplog.handler)
        try:
            score_hypotheses(tokenised, references, tokenize="none")
            assert caplog.records == []
            score_hypotheses(tokenised, references)
            assert "tokenized period" in caplog.text
        finally:
            logging.getLogger("sacrebleu").removeHandler(caplog.handler)


def test_unequal_counts_are_named():
    with pytest.raises(UserError, match=r"hypotheses and the references .*: 3 and 4"):
        score_hypotheses(HYPOTHESES[:3], REFERENCES)
    with pytest.raises(UserError, match=r"system 'second' and the references .*: 3 and 4"):
        compare_systems({"first": HYPOTHESES, "second": HYPOTHESES[:3]}, REFERENCES)


def test_nothing_to_score_is_an_error():
    with pytest.raises(UserError, match="nothing to score"):
        score_hypotheses([], [])


def _systems():
    """Returns references, and systems with a fifth and four fifths of the lines wrong."""
    references = [f"Satz {i} hat viele gute alte Wörter und ein Ende ." for i in range(60)]
    changed = [line.replace("gute", "nette") for line in references]
    good = [changed[i] if i % 5 == 0 else references[i] for i in range(60)]
    bad = [references[i] if i % 5 == 0 else changed[i] for i in range(60)]
    return references, good, bad


def test_the_better_system_scores_higher_and_the_difference_is_significant():
    references, good, bad = _systems()
    baseline, better = compare_systems({"bad": bad, "good": good}, references, samples=200)
    assert (baseline.name, better.name) == ("bad", "good")
    assert better.bleu > baseline.bleu + 10.0
    assert baseline.metrics["BLEU"].p_value is None
    bleu = better.metrics["BLEU"]
    assert bleu.p_value == pytest.approx(1 / 201)
    assert bleu.mean == pytest.approx(better.bleu, abs=1.0)
    assert 0.0 < bleu.confidence_interval < 10.0


def test_a_difference_in_one_sentence_is_not_significant():
    references, good, _ = _systems()
    almost = [good[0] + " Ende", *good[1:]]
    _, other = compare_systems({"good": good, "almost": almost}, references, samples=200)
    assert other.metrics["BLEU"].p_value > 0.05


def test_identical_systems_do_not_differ_significantly():
    references, good, _ = _systems()
    _, same = compare_systems({"good": good, "copy": list(good)}, references, samples=50)
    assert same.metrics["BLEU"].p_value == 1.0


def test_where_a_metric_sees_no_difference_the_p_value_is_1():
    references, good, bad = _systems()
    systems = {"good": good, "blanks": [f"{line} " for line in good], "bad": bad}
    _, blanks, other = compare_systems(systems, references, samples=50)
    assert {found.p_value for found in blanks.metrics.values()} == {1.0}
    assert other.metrics["BLEU"].p_value < 0.05
    _, wrong = compare_systems({"a": ["x", "y"], "b": ["z z z", "z"]}, ["a b", "c d"], samples=50)
    assert wrong.bleu == 0.0 and wrong.metrics["BLEU"].p_value == 1.0


def test_comparison_equals_that_of_the_command_line(tmp_path):
    references, good, bad = _systems()
    middle = bad[:45] + good[45:]
    systems = {"bad": bad, "middle": middle}
    records = compare_systems(systems, references, tokenize="none", samples=100)
    assert "SACREBLEU_SEED" not in os.environ
    options = ["-m", "bleu", "--tokenize", "none", "--force", "--paired-bs"]
    printed = _run_sacrebleu(tmp_path, references, systems, *options, "--paired-bs-n", "100")
    for record, row in zip(records, printed, strict=True):
        bleu, found = row["BLEU"], record.metrics["BLEU"]
        assert found.score == record.bleu == pytest.approx(bleu["score"], abs=1e-4)
        assert found.mean == pytest.approx(bleu["mean"], abs=1e-4)
        assert found.confidence_interval == pytest.approx(bleu["ci"], abs=1e-4)
        assert found.p_value == pytest.approx(bleu["p_value"], abs=1e-4)
        assert found.signature == (
            f"nrefs:1|bs:100|seed:12345|case:mixed|eff:no|tok:none|smooth:exp|version:{VERSION}"
        )


def test_systems_in_chinese_are_compared_by_characters():
    systems = {"a": ["我有一只狗。"], "b": ["我有一只猫。"]}
    first, _ = compare_systems(systems, ["我有一只猫。"], tokenize="zh", samples=2)
    assert first.metrics["TER"].score == pytest.approx(100 / 6)


def test_systems_are_compared_by_chrf_and_ter_too():
    references, good, bad = _systems()
    baseline, better = compare_systems({"bad": bad, "good": good}, references, samples=100)
    expected = score_hypotheses(good, references, full=True)
    chrf, ter = (better.metrics[name] for name in ("chrF2", "TER"))
    assert (chrf.score, ter.score) == pytest.approx((expected.chrf, expected.ter))
    assert ter.score < baseline.metrics["TER"].score and chrf.p_value == ter.p_value == 1 / 101
    assert "bs:100" in ter.signature and "nc:6" in chrf.signature


def test_the_seed_is_ours_and_the_environment_is_restored(monkeypatch):
    references, good, bad = _systems()
    systems = {"bad": bad, "good": good}
    first = compare_systems(systems, references, samples=50)
    monkeypatch.setenv("SACREBLEU_SEED", "3")
    assert compare_systems(systems, references, samples=50) == first
    assert os.environ["SACREBLEU_SEED"] == "3"


@pytest.mark.parametrize(
    ("systems", "settings", "message"),
    [
        ({"only": HYPOTHESES}, {}, "at least one other system. Received: only"),
        ({"a": HYPOTHESES, "b": HYPOTHESES}, {"samples": 0}, "positive. Received: 0"),
    ],
)
def test_a_comparison_that_cannot_be_made_is_an_error(systems, settings, message):
    with pytest.raises(UserError, match=message):
        compare_systems(systems, REFERENCES, **settings)
