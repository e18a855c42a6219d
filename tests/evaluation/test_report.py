"""Reports are whole, readable and at most 80 columns wide."""

import dataclasses
import json

import pytest

from dtmt_tf.evaluation import (
    MetricScore,
    Scores,
    SystemScore,
    format_comparison,
    format_means,
    format_scores,
)
from dtmt_tf.files import write_json

SCORES = Scores(
    bleu=41.0249,
    bleu_signature="nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0",
    precisions=(71.04, 47.5, 34.3, 24.5),
    brevity_penalty=0.9991,
    hypothesis_length=12092,
    reference_length=12103,
    chrf=66.666,
    chrf_signature="nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:2.6.0",
    exact_match=7.5,
    num_sentences=1000,
)
LONG_SIGNATURE = "nrefs:1|bs:1000|seed:12345|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"


def by_bleu(name, *figures, **others):
    return SystemScore(name, {"BLEU": MetricScore(*figures), **others})


RECORDS = [
    by_bleu("one checkpoint", 40.0, 39.98, 1.234, None, LONG_SIGNATURE),
    by_bleu("average of the last ten checkpoints", 41.02, 41.0, 1.2, 0.0123, LONG_SIGNATURE),
]


def test_scores_are_shown_with_their_signatures():
    assert format_scores(SCORES).split("\n") == [
        "sentences    1000",
        "BLEU         41.02",
        "  precisions 71.0 / 47.5 / 34.3 / 24.5",
        "  brevity    0.999",
        "  lengths    12092 tokens, reference 12103, ratio 0.999",
        "  signature  nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0",
        "chrF2        66.67",
        "  signature  nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:2.6.0",
        "exact match  7.50%",
    ]


def test_ter_and_intervals_are_shown_where_they_were_asked_for():
    intervals = {"bleu": (39.5, 42.25), "ter": (41.0, 44.0), "exact_match": (6.0, 9.0)}
    full = dataclasses.replace(SCORES, ter=42.5, ter_signature="case:lc", intervals=intervals)
    lines = format_scores(full).split("\n")
    assert lines[1:3] == ["BLEU         41.02", "  95 %       39.50 to 42.25"]
    assert lines[7] == "chrF2        66.67"
    assert lines[-6:] == [
        "TER          42.50 (lower is better)",
        "  95 %       41.00 to 44.00",
        "  signature  case:lc",
        "exact match  7.50%",
        "  95 %       6.00 to 9.00",
        "95 %: intervals by bootstrap, 1,000 samples, seed 12345",
    ]


def test_each_metric_has_a_table_of_its_own():
    one = by_bleu("a", 1.0, 1.0, 0.1, None, "s", TER=MetricScore(9.0, 9, 1, None, "t"))
    two = by_bleu("b", 2.0, 1.0, 0.1, 0.5, "s", TER=MetricScore(7.5, 8, 1, 0.25, "t"))
    first, second = format_comparison([one, two]).split("\n\n")
    assert "BLEU" in first and "+1.00" in first and "TER" not in first
    assert second.split("\n")[0].startswith("system     TER") and "-1.50" in second
    assert second.endswith("0.2500\n  signature  t")


def test_means_are_told_with_the_change_from_the_first():
    assert format_means(["run"], [42.0], 3) == "mean BLEU of 3 test sets\n  42.00  run"
    assert format_means(["base", "new"], [41.0, 41.75], 2).split("\n") == [
        "mean BLEU of 2 test sets",
        "  41.00  base",
        "  41.75 (+0.75)  new",
    ]


def test_comparison_is_a_table_below_which_stands_the_signature():
    assert format_comparison(RECORDS).split("\n") == [
        "system                          BLEU   change   mean and 95% interval    p-value",
        "-" * 80,
        "one checkpoint                 40.00 baseline            39.98 ± 1.23",
        "... the last ten checkpoints   41.02    +1.02            41.00 ± 1.20     0.0123",
        "  signature  nrefs:1|bs:1000|seed:12345|case:mixed|eff:no|tok:13a|smooth:exp|",
        "             version:2.6.0",
    ]


def test_a_table_of_short_names_is_narrow():
    lines = format_comparison([RECORDS[0], by_bleu("b", 1.0, 1.0, 0.1, 1.0, "s")]).split("\n")
    assert lines[1] == "-" * (len("one checkpoint") + 52)
    assert lines[3].startswith("b ")
    assert lines[3].endswith("1.00 ± 0.10     1.0000")


@pytest.mark.parametrize("columns", ["20", "50", "55"])
def test_a_narrow_terminal_has_the_ends_of_names(monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    _, line, *rows = format_comparison(RECORDS).split("\n")[:4]
    assert line == "-" * (12 + 52)
    assert [row.split("  ")[0] for row in rows] == ["...heckpoint", "...eckpoints"]


def test_json_holds_every_field_and_utf_8(tmp_path):
    path = tmp_path / "new folder" / "scores.json"
    write_json(path, {"tst": SCORES, "Vergleich ü": RECORDS})
    text = path.read_text(encoding="utf-8")
    assert "Vergleich ü" in text
    data = json.loads(text)
    assert data["tst"]["bleu"] == 41.0249
    assert data["tst"]["precisions"] == [71.04, 47.5, 34.3, 24.5]
    assert data["tst"]["bleu_signature"] == SCORES.bleu_signature
    assert data["Vergleich ü"][0]["metrics"]["BLEU"]["p_value"] is None
    assert data["Vergleich ü"][1]["metrics"]["BLEU"]["p_value"] == 0.0123
