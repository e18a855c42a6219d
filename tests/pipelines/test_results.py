"""RESULTS.md is made of records, and of nothing else between its markers."""

import random
import re
import statistics

import common
import pytest
import records
import report
from rows import TABLES

from dtmt_tf.errors import UserError
from dtmt_tf.evaluation import compare_systems, score_hypotheses
from dtmt_tf.evaluation.sentences import count_sentences

SIGNATURE = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"
WORDS = "der Hund die Katze rot grün blau eins zwei drei".split()
TEXT = "# Title\n\nProse.\n\n" + "".join(
    f"<!-- {name} -->\nold\n<!-- end -->\n\nProse after {name}.\n" for name in report.sections([])
)


def noisy(seed, lines, rate):
    random_ = random.Random(seed)
    return [
        " ".join(word if random_.random() > rate else "x" for word in line.split())
        for line in lines
    ]


REFERENCES = [" ".join(random.Random(k).choices(WORDS, k=1 + k % 25)) for k in range(150)]


def record(row="", seed=1, rate=0.3, texts=None, max_steps=100, threads=1, **others):
    """A record whose test translations are references with words replaced at this rate."""
    texts = texts or noisy(seed, REFERENCES, rate)
    counts = count_sentences(texts, REFERENCES)
    columns = {name: counts[:, k] for k, name in enumerate(records.COUNTED)}
    columns["source_words"] = [len(line.split()) for line in REFERENCES]
    bleu = score_hypotheses(texts, REFERENCES).bleu
    return {
        "task": "custom", "model": "dtmt_small", "row": row, "seed": seed,
        "series": {"preset": "small", "max_steps": max_steps, "set": []},
        "settings_hash": "abc", "changed_settings": {}, "parameters": 1_234_567,
        "updates": max_steps, "epochs": 12.3, "target_words": 98_765,
        "seconds_in_updates": 90.0, "target_words_per_second": 1097.4, "beam_size": 4,
        "machine": {"processor": "P", "threads": threads, "gpus": 0},
        "scores": {"validation": {"bleu": bleu + 1, "bleu_signature": SIGNATURE},
                   "test": {"bleu": bleu, "bleu_signature": SIGNATURE}},
        "sentences": {name: " ".join(map(str, column)) for name, column in columns.items()},
    } | others  # fmt: skip


def cells(text, *starts):
    """The cells of the one line of a table that begins with these."""
    start = "| " + " | ".join(starts) + " |"
    (line,) = [line for line in text.splitlines() if line.startswith(start)]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_results_are_what_the_records_say():
    text = report.REPORT.read_text(encoding="utf-8")
    found = records.read_records(records.RECORDS), records.read_speeds(records.RECORDS)
    assert report.generate(text, *found) == text


def test_records_carry_their_conditions():
    for found in records.read_records(records.RECORDS):
        assert found["seed"] >= 0
        assert found["updates"] > 0
        assert found["target_words_per_second"] > 0
        assert found["machine"]["threads"] >= 1
        for score in found["scores"].values():
            assert re.match(r"nrefs:1\|case:\w+\|eff:no\|tok:\w+\|smooth:exp\|version:",
                            score["bleu_signature"])  # fmt: skip


def test_prose_stays_and_a_second_time_changes_nothing():
    found = [record("gru0"), record("lgru0", rate=0.2), record()]
    once = report.generate(TEXT, found)
    assert report.generate(once, found) == once
    assert "old" not in once
    assert once.startswith("# Title\n\nProse.\n")
    for name in report.sections([]):
        assert f"<!-- end -->\n\nProse after {name}.\n" in once
    assert report.generate(once, []).count(report.NOTHING) == len(report.sections([]))


def test_a_lost_marker_is_named():
    with pytest.raises(UserError, match="<!-- table 3 -->"):
        report.generate(TEXT.replace("<!-- table 3 -->", ""), [])


def test_runs_are_listed_with_mean_and_spread_over_seeds():
    found = [record(seed=1), record(seed=2), record(seed=1, task="other", settings_hash="d")]
    bleu = [run["scores"]["test"]["bleu"] for run in found[:2]]
    text = report.runs_table([*found, record("gru0", seed=3)])
    assert cells(text, "custom", "dtmt_small", "1,234,567", "2") == [
        *("custom", "dtmt_small", "1,234,567", "2", "100", "12.3", "98,765", "1.5", "1,097"),
        *("1", "4", f"{bleu[1] + 1:.2f}", f"{bleu[1]:.2f}"),
    ]
    mean = cells(text, "custom", "dtmt_small", "", "mean")
    spread = statistics.stdev(bleu)
    assert spread > 0.05
    assert mean[-1] == f"{statistics.mean(bleu):.2f} ± {spread:.2f}"
    assert mean[-2] == f"{statistics.mean(bleu) + 1:.2f} ± {spread:.2f}"
    assert text.count("| other |") == 1
    assert SIGNATURE in text


def test_rows_show_their_scores_beside_the_papers():
    found = [record("lgru1", seed=1), record("lgru1", seed=2), record("gru0", rate=0.5)]
    bleu = [run["scores"]["test"]["bleu"] for run in found]
    text = report.sections(found)["table 6"]
    assert "`custom`, preset small, 100 updates." in text
    line = cells(text, "DTMT#1")
    assert line[3] == "2"
    assert line[-2].startswith(f"{(bleu[0] + bleu[1]) / 2:.2f} ± ")
    assert line[-1] == "44.41"
    assert cells(text, "ShallowRNMT")[-2:] == [f"{bleu[2]:.2f}", "41.57"]
    assert report.NOTHING not in text
    assert report.NOTHING in report.sections(found)["table 5"]


def test_a_comparison_is_sacrebleus_paired_bootstrap():
    texts = [noisy(seed, REFERENCES, rate) for seed, rate in ((1, 0.32), (2, 0.29))]
    baseline, system = compare_systems(dict(zip("ab", texts, strict=True)), REFERENCES)
    found = [record(row, texts=text) for row, text in zip(("gru0", "lgru0"), texts, strict=True)]
    assert 0.002 < system.p_value < 0.9
    line = cells(report.rows_table(TABLES["3"], found), "ShallowRNMT: GRU", "ShallowRNMT: L-GRU")
    change = system.bleu - baseline.bleu
    assert line[2:6] == ["1", f"{change:+.2f}", f"{system.p_value:.3f}", "+2.26"]


def test_a_comparison_takes_the_seeds_that_both_have():
    found = [record("gru0", seed, 0.4) for seed in (1, 2, 3)]
    found += [record("lgru0", seed, 0.2) for seed in (2, 3, 4)]
    bleu = {(run["row"], run["seed"]): run["scores"]["test"]["bleu"] for run in found}
    change = sum(bleu["lgru0", seed] - bleu["gru0", seed] for seed in (2, 3)) / 2
    line = cells(report.rows_table(TABLES["3"], found), "ShallowRNMT: GRU", "ShallowRNMT: L-GRU")
    assert line[2:] == ["2", f"{change:+.2f}", "0.001", "+2.26", "confirmed"]
    swapped = [run | {"row": {"gru0": "lgru0", "lgru0": "gru0"}[run["row"]]} for run in found]
    line = cells(report.rows_table(TABLES["3"], swapped), "ShallowRNMT: GRU", "ShallowRNMT: L-GRU")
    assert line[-1] == "contradicted"


@pytest.mark.parametrize(
    ("change", "p_value", "paper", "verdict"),
    [
        (1.0, 0.01, 0.5, "confirmed"),
        (-1.0, 0.01, -0.5, "confirmed"),
        (-1.0, 0.049, 0.5, "contradicted"),
        (-1.0, 0.05, 0.5, "neither"),
        (1.0, 0.01, None, ""),
    ],
)
def test_verdicts(change, p_value, paper, verdict):
    assert report._verdict(change, p_value, paper) == verdict


def test_other_budgets_are_other_tables():
    found = [record("gru0"), record("lgru0", max_steps=200)]
    text = report.sections(found)["table 3"]
    assert "100 updates." in text and "200 updates." in text
    assert "the paper is" not in text  # the two rows can not be compared
    assert text.count(SIGNATURE) == 2


def test_lengths_score_the_longer_sentences():
    texts = noisy(5, REFERENCES, 0.3)
    found = [record("gru0", texts=texts), record("lgru1", seed=1), record("lgru1", seed=2)]
    text = report.sections(found)["figure 3"]
    longer = [k for k, line in enumerate(REFERENCES) if len(line.split()) > 10]
    assert 0 < len(longer) < len(REFERENCES)
    expected = score_hypotheses([texts[k] for k in longer], [REFERENCES[k] for k in longer]).bleu
    assert cells(text, "longer than") == ["longer than", "0", "10", "20"]
    assert cells(text, "sentences")[1:3] == ["150", str(len(longer))]
    assert cells(text, "ShallowRNMT")[2] == f"{expected:.2f}"
    bleu = [run["scores"]["test"]["bleu"] for run in found[1:]]
    assert cells(text, "DTMT#1")[1] == f"{sum(bleu) / 2:.2f}"


def test_the_figure_shows_each_row(tmp_path):
    found = [record("gru0"), record("lgru4", rate=0.2), record("gru0", max_steps=200)]
    paths = report.draw(found, tmp_path)
    assert paths == [tmp_path / "custom" / name for name in ("figure3.png", "figure3-2.png")]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths)
    axes = report._draw("t", *report._curves(report.FIGURES["3"], found[:2])).axes[0]
    assert [line.get_label() for line in axes.lines] == ["DTMT#4", "ShallowRNMT"]
    assert axes.lines[1].get_ydata()[0] == pytest.approx(found[0]["scores"]["test"]["bleu"])
    assert axes.get_xticks().tolist() == [0, 10, 20]


def test_a_damaged_record_is_named(tmp_path):
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(UserError, match=r"a\.json is damaged"):
        records.read_records(tmp_path)


def test_records_lie_in_the_repository():
    assert records.RECORDS.is_relative_to(common.ROOT) and records.RECORDS.is_dir()
