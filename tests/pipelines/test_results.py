"""The documents hold what the results say, and nothing else between their markers."""

import functools
import random
import re
import statistics

import pytest

from dtmt_tf.errors import UserError
from dtmt_tf.evaluation import compare_systems, score_hypotheses
from dtmt_tf.evaluation.sentences import count_sentences
from pipelines.papers import probes, records, report, shown, tables
from pipelines.papers.dtmt import PAPER, TABLES

SIGNATURE = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"
WORDS = "der Hund die Katze rot grün blau eins zwei drei".split()
page = functools.partial(report.sections, paper=PAPER)
TEXT = "# Title\n\nProse.\n\n" + "".join(
    f"<!-- {name} -->\nold\n<!-- end -->\n\nProse after {name}.\n" for name in page([])
)


def noisy(seed, lines, rate):
    random_ = random.Random(seed)
    return [" ".join(word if random_.random() > rate else "x" for word in line.split())
            for line in lines]  # fmt: skip


REFERENCES = [" ".join(random.Random(k).choices(WORDS, k=1 + k % 25)) for k in range(150)]


def record(row="", seed=1, rate=0.3, texts=None, max_steps=100, threads=1, **others):
    """A record whose test translations are references with words replaced at this rate."""
    texts = texts or noisy(seed, REFERENCES, rate)
    counts = count_sentences(texts, REFERENCES)
    columns = {name: counts[:, k] for k, name in enumerate(records.COUNTED)}
    columns["source_words"] = [len(line.split()) for line in REFERENCES]
    bleu = score_hypotheses(texts, REFERENCES).bleu
    return {
        "name": f"run{seed}", "task": "custom", "direction": "en-de", "model": "dtmt_small",
        "row": row, "seed": seed, "part": "test", "batches_an_update": 1,
        "curve": {}, "members": [],
        "series": {"preset": "small", "max_steps": max_steps, "set": [], "hash": f"e{max_steps}"},
        "settings_hash": "abc", "changed_settings": {}, "parameters": 1_234_567,
        "updates": max_steps, "epochs": 12.3, "target_words": 98_765,
        "seconds_in_updates": 90.0, "target_words_per_second": 1097.4, "beam_size": 4,
        "machine": {"processor": "P", "threads": threads, "gpus": 0}, "versions": {"keras": "3"},
        "length_penalty": 0.6,
        "scores": {"validation": {"bleu": bleu + 1, "bleu_signature": SIGNATURE},
                   "test": {"bleu": bleu, "bleu_signature": SIGNATURE}},
        "sentences": {name: " ".join(map(str, column)) for name, column in columns.items()},
    } | others  # fmt: skip


def cells(text, *starts):
    """The cells of the one line of a table that begins with these."""
    start = "| " + " | ".join(starts) + " |"
    (line,) = [line for line in text.splitlines() if line.startswith(start)]
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.fixture(scope="module")
def documents():
    """Each document with the parts that the results of the repository make."""
    found = records.read_records(records.RECORDS)
    speeds = records.read_speeds(records.RECORDS)
    others = report.others(found, speeds, probes.read(records.RECORDS))
    return [(report.REPORT, report.summary(found)), *others.items()]


def test_documents_are_what_the_results_say(documents):
    assert {"RESULTS.md", "README.md", "DTMT.md", "LAU.md", "SPEED.md"} <= {
        path.name for path, _ in documents
    }
    for path, parts in documents:
        text = path.read_text(encoding="utf-8")
        assert report.replace(text, parts) == text, path.name


def test_all_documents_are_rewritten_with_the_results_of_the_repository(
    documents, tmp_path, monkeypatch
):
    texts = {path.name: path.read_text(encoding="utf-8") for path, _ in documents}
    for name, text in texts.items():
        changed = text.replace("<!-- end -->", "changed\n<!-- end -->", 1)
        (tmp_path / name).write_text(changed, encoding="utf-8")
    monkeypatch.setattr(report, "ROOT", tmp_path)
    monkeypatch.setattr(report, "REPORT", tmp_path / "RESULTS.md")
    monkeypatch.setattr(report.pictures, "PICTURES", tmp_path)
    dark = report.pictures.THEMES["dark"]  # test_pictures draws in both
    monkeypatch.setattr(report.pictures, "THEMES", {"dark": dark})
    report.rewrite(tmp_path / "RESULTS.md", records.RECORDS)
    assert {name: (tmp_path / name).read_text(encoding="utf-8") for name in texts} == texts
    assert (tmp_path / "runs-dark.svg").exists()


def test_the_repositorys_pages_are_not_emptied_for_results_elsewhere(tmp_path):
    for page in ("RESULTS.md", "LAU.md", "DTMT.md"):
        with pytest.raises(UserError, match=f"^{page} shows .* to mine.md, and add --report"):
            report.rewrite(report.ROOT / page, tmp_path)


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
    once = report.replace(TEXT, page(found))
    assert report.replace(once, page(found)) == once
    assert "old" not in once
    assert once.startswith("# Title\n\nProse.\n")
    for name in page([]):
        assert f"<!-- end -->\n\nProse after {name}.\n" in once
    nothing = page([])
    assert all(text in report.replace(once, nothing) for text in nothing.values())


def test_a_lost_marker_is_named():
    with pytest.raises(UserError, match="<!-- dtmt table 3 -->"):
        report.replace(TEXT.replace("<!-- dtmt table 3 -->", ""), page([]))


def test_runs_are_listed_with_mean_spread_and_each_score():
    found = [record(seed=1), record(seed=2), record(seed=1, task="other", settings_hash="d")]
    found[1]["seconds_in_updates"], found[1]["target_words_per_second"] = 102.0, 996.2
    bleu = [run["scores"]["test"]["bleu"] for run in found[:2]]
    text = tables.runs_table([*found, record("gru0", seed=3)])
    spread = statistics.stdev(bleu)
    assert spread > 0.05
    assert cells(text, "custom", "en-de", "run1, run2") == [
        *("custom", "en-de", "run1, run2", "dtmt_small", "1,234,567", "1, 2", "100", "12.3"),
        *("0.1", "1.5–1.7", "996–1,097", "1"),
        *(f"{statistics.mean(bleu) + extra:.2f} ± {spread:.2f} "
          f"({bleu[0] + extra:.2f}, {bleu[1] + extra:.2f})" for extra in (1, 0)),
    ]  # fmt: skip
    assert text.count("| other |") == 1
    assert "gru0" not in text and "| 3 |" not in text


def test_a_seed_that_ran_twice_counts_once_in_the_mean():
    found = [record(seed=1), record(seed=1) | {"name": "again"}]
    assert " ± " not in tables.runs_table(found)
    found.append(record(seed=2))
    bleu = [run["scores"]["test"]["bleu"] for run in found[1:]]
    mean = f"{statistics.mean(bleu):.2f} ± {statistics.stdev(bleu):.2f} "
    assert cells(tables.runs_table(found), "custom", "en-de", "again, run1, run2")[-1].startswith(
        mean
    )


@pytest.mark.parametrize(
    "other",
    [
        {"task": "other"},
        {"sentences": {"source_words": "1 2", "reference_length": "3 4"}},
        {"direction": "de-en"},
        {"settings_hash": "d"},
        {"batches_an_update": 2},
        {"members": ["a", "b"]},
        {"init_from": "custom/a"},
    ],
    ids=str,
)
def test_runs_that_differ_in_more_than_the_seed_have_no_mean(other):
    found = [record(seed=1), record(seed=2) | other]
    assert " ± " not in tables.runs_table(found)


def test_an_ensemble_names_its_members_and_has_no_seed():
    found = [record(seed=1), record() | {"name": "both", "members": ["run1", "run2"]}]
    line = cells(tables.runs_table(found), "custom", "en-de", "both")
    assert line[3:6] == ["run1 + run2", "1,234,567", ""]


def test_the_first_table_has_the_runs_that_are_there(monkeypatch):
    entries = (
        shown.Entry("Text", "custom", ("run1", "run2"), "M"),
        shown.Entry("T", "x", ("a",), "M"),
    )
    monkeypatch.setattr(tables, "HEADLINE", entries)
    found = [record(seed=1), record(seed=2), record("gru0", seed=2)]
    for run in found:
        run["scores"]["test"]["chrf"] = 60.0 + run["seed"]
    bleu = [run["scores"]["test"]["bleu"] for run in found[:2]]
    score = f"{statistics.mean(bleu):.2f} ± {statistics.stdev(bleu):.2f}"
    line = ["Text", "M", "1.2 M", "2 min, 1 core", score, "61.50"]
    assert cells(tables.headline_table(found), "Text") == line
    assert tables.headline_table(found).count("\n") == 2


def test_cross_entropy_is_shown_where_a_result_has_it():
    found = [record("gru0"), record("lgru0", cross_entropy={50: 2.5, 100: 2.25})]
    text = tables.rows_table(TABLES["3"], found).split("\n\n")[0]
    assert cells(text, "ShallowRNMT: L-GRU")[-1] == "2.250"
    assert cells(text, "ShallowRNMT: GRU")[-1] == ""
    assert "validation CE" not in tables.rows_table(TABLES["3"], found[:1])


def test_signatures_are_told_once_with_their_tasks():
    found = [record(), record("gru0", task="other"), record("gru0", seed=2)]
    text = tables.conditions(found)
    assert f"- BLEU: `{SIGNATURE}` (custom, other)" in text.splitlines()
    assert text.count(SIGNATURE) == 1
    assert "- P (custom, other)" in text.splitlines()
    parts = page(found) | report.summary(found)
    assert SIGNATURE not in "".join(parts[name] for name in parts if name != "conditions")


def test_rows_show_their_scores_beside_the_papers():
    found = [record("lgru1", seed=1), record("lgru1", seed=2), record("gru0", rate=0.5)]
    bleu = [run["scores"]["test"]["bleu"] for run in found]
    text = page(found)["dtmt table 6"]
    assert "`custom`, preset small, 100 updates, 12.3 epochs (settings e100)." in text
    line = cells(text, "DTMT#1")
    assert line[3] == "2"
    assert line[-2].startswith(f"{(bleu[0] + bleu[1]) / 2:.2f} ± ")
    assert line[-1] == "44.41"
    assert cells(text, "ShallowRNMT")[-2:] == [f"{bleu[2]:.2f}", "41.57"]
    assert tables.NOTHING not in text
    assert page(found)["dtmt table 5"].count("| not run |") == 3


def test_results_of_another_precision_are_named():
    float32 = {"changed_settings": {"training.precision": "float32"}}
    found = [record("lgru1", seed=1), record("lgru1", seed=2, **float32), record("gru0", **float32)]
    text = page(found)["dtmt table 6"]
    assert (
        "\n\nTrained with `training.precision=float32`: ShallowRNMT (seed 1), DTMT#1 (seed 2)."
        in text
    )
    for run in found[1:]:
        run["series"] = run["series"] | {"set": ["training.precision=float32"]}
    assert "Trained with" not in page(found)["dtmt table 6"]


def test_a_comparison_is_sacrebleus_paired_bootstrap():
    texts = [noisy(seed, REFERENCES, rate) for seed, rate in ((1, 0.32), (2, 0.29))]
    baseline, system = compare_systems(dict(zip("ab", texts, strict=True)), REFERENCES)
    found = [record(row, texts=text) for row, text in zip(("gru0", "lgru0"), texts, strict=True)]
    p_value = system.metrics["BLEU"].p_value
    assert 0.002 < p_value < 0.9
    line = cells(tables.rows_table(TABLES["3"], found), "ShallowRNMT: GRU", "ShallowRNMT: L-GRU")
    change = system.bleu - baseline.bleu
    assert line[2:6] == [f"{change:+.2f}"] * 2 + [f"{p_value:.3f}", "+2.26"]


def test_a_comparison_takes_the_seeds_that_both_have():
    found = [record("gru0", seed, 0.4) for seed in (1, 2, 3)]
    found += [record("lgru0", seed, 0.2) for seed in (2, 3, 4)]
    bleu = {(run["row"], run["seed"]): run["scores"]["test"]["bleu"] for run in found}
    changes = [bleu["lgru0", seed] - bleu["gru0", seed] for seed in (2, 3)]
    shown = [", ".join(f"{change:+.2f}" for change in changes), f"{sum(changes) / 2:+.2f}"]
    line = cells(tables.rows_table(TABLES["3"], found), "ShallowRNMT: GRU", "ShallowRNMT: L-GRU")
    assert line[2:] == [*shown, "0.001", "+2.26", "confirmed"]
    swapped = [run | {"row": {"gru0": "lgru0", "lgru0": "gru0"}[run["row"]]} for run in found]
    line = cells(tables.rows_table(TABLES["3"], swapped), "ShallowRNMT: GRU", "ShallowRNMT: L-GRU")
    assert line[-1] == "contradicted"


@pytest.mark.parametrize(
    ("changes", "p_value", "paper", "verdict"),
    [
        ([1.0, 0.1], 0.01, 0.5, "confirmed"),
        ([-1.0, -1.0], 0.01, -0.5, "confirmed"),
        ([-1.0, -0.1], 0.049, 0.5, "contradicted"),
        ([-1.0, -1.0], 0.05, 0.5, "neither"),
        ([2.0, -0.1], 0.01, 0.5, "neither"),
        ([-0.1, 2.0], 0.01, 0.5, "neither"),
        ([1.0], 0.01, 0.5, "not judged by one seed"),
        ([1.0, 1.0], 0.01, None, ""),
    ],
    ids=str,
)
def test_verdicts(changes, p_value, paper, verdict):
    assert tables._verdict(changes, p_value, paper, len(changes)) == verdict
    if len(changes) == 2 and paper:
        assert tables._verdict(changes, p_value, paper, 1) == "not judged by one seed"


def test_parts_without_a_test_are_compared_on_validation():
    found = [record("gru0"), record("lgru0", rate=0.1)]
    for run in found:
        run["part"] = "validation"
        del run["scores"]["test"]
    change = found[1]["scores"]["validation"]["bleu"] - found[0]["scores"]["validation"]["bleu"]
    text = tables.rows_table(TABLES["3"], found)
    assert "| validation BLEU, by seed |" in text and "test" not in text
    assert cells(text, "ShallowRNMT: GRU", "ShallowRNMT: L-GRU")[2] == f"{change:+.2f}"


def test_rows_on_top_of_a_trained_one_have_a_table_of_their_own():
    found = [record("gru0", 1), record("lgru0", 2, rate=0.2), record("lgru0", 3, rate=0.1)]
    begun = {"hash": "e100+gru0", "begin_with": "gru0", "set": ["training.clip_norm=1"]}
    found[2]["series"] = found[2]["series"] | begun
    text = tables.each_budget(found, TABLES["3"], tables.rows_table)
    fresh, begun = text.split("100 updates, 12.3 epochs, on top of a trained `gru0`")
    assert cells(fresh, "ShallowRNMT: L-GRU")[3] == cells(begun, "ShallowRNMT: L-GRU")[3] == "1"
    assert "| ShallowRNMT: GRU |" not in begun


def test_other_budgets_are_other_tables():
    found = [record("gru0"), record("lgru0", max_steps=200)]
    text = page(found)["dtmt table 3"]
    assert "100 updates, 12.3" in text and "200 updates, 12.3" in text
    assert "the paper is" not in text  # the two rows can not be compared


def test_other_settings_of_all_rows_are_other_tables():
    others = record("gru0"), record("lgru0"), record("lgru0") | {"batches_an_update": 2}
    others[1]["series"]["hash"] = "f6"
    text = page(others)["dtmt table 3"]
    assert "(settings e100)" in text and "(settings f6)" in text
    assert "updates of 2 batches, 12.3 epochs (settings e100)" in text
    assert "the paper is" not in text


def test_a_changed_series_of_one_budget_stands_below_and_is_not_compared():
    found = [record("gru0"), record("lgru0", rate=0.1), record("lgru0", rate=0.2)]
    found[2]["series"] = found[2]["series"] | {"hash": "f6", "set": ["model.update_offset=-2"]}
    for order in (found, found[::-1]):
        text = page(order)["dtmt table 3"]
        assert text.count("(settings ") == 1 and "(settings e100)" in text
        scores = [f"{run['scores']['test']['bleu']:.2f}" for run in found]
        label = "ShallowRNMT: L-GRU"
        assert cells(text, f"{label}, `model.update_offset=-2`")[-2] == scores[2]
        assert text.count("| ShallowRNMT: GRU | ShallowRNMT: L-GRU |") == 1
        line = cells(text, "ShallowRNMT: GRU", label)
        assert line[3] == f"{float(scores[1]) - float(scores[0]):+.2f}"
        assert f"{label}, `model.update_offset=-2`" in page(order)["dtmt table 6"].replace(
            "ShallowRNMT + L-GRU", label
        )


def test_equal_settings_are_one_table_however_they_were_written():
    found = [record("gru0"), record("lgru0", rate=0.1)]
    found[1]["series"]["set"] = ["training.seed=1"]
    assert "the paper is" in page(found)["dtmt table 3"]


@pytest.mark.parametrize("number", [149, 150])
def test_rows_of_another_corpus_are_not_compared(number):
    other = record("lgru0") | {"name": "later"}
    words = other["sentences"]["source_words"].split()
    other["sentences"]["source_words"] = " ".join(["3", *words][:number])
    with pytest.raises(UserError, match="run1 and later were scored on different sentences"):
        page([record("gru0"), other])


def test_rows_of_other_contrasts_are_not_compared():
    found = [record(row, contrast={}) for row in ("gru0", "lgru0")]
    page(found)  # of sets that nobody knows
    found = [record("gru0", contrast={}, contrast_sets=["a"]), record("lgru0"), record("lgru4")]
    page(found)
    found[2] |= {"contrast": {}}
    with pytest.raises(UserError, match="run1 has other sets of contrasts than run1. Run the rows"):
        page(found)


def test_two_records_of_one_row_and_seed_are_named():
    found = [record("gru0"), record("gru0") | {"name": "later"}, record("lgru0")]
    with pytest.raises(UserError, match="gru0 has two records of one seed: run1, later"):
        page(found)


def test_lengths_of_few_sentences_have_no_score():
    for number, lengths in ((20, ["0", "10", "20"]), (19, ["0", "10"])):
        run = record("gru0")
        words = [21] * number + [11] * (len(REFERENCES) - number)
        run["sentences"]["source_words"] = " ".join(map(str, words))
        text = page([run])["dtmt figure 3"]
        assert cells(text, "longer than") == ["longer than", *lengths]


def test_lengths_score_the_longer_sentences():
    texts = noisy(5, REFERENCES, 0.3)
    found = [record("gru0", texts=texts), record("lgru1", seed=1), record("lgru1", seed=2)]
    text = page(found)["dtmt figure 3"]
    longer = [k for k, line in enumerate(REFERENCES) if len(line.split()) > 10]
    assert 0 < len(longer) < len(REFERENCES)
    expected = score_hypotheses([texts[k] for k in longer], [REFERENCES[k] for k in longer]).bleu
    assert cells(text, "longer than") == ["longer than", "0", "10", "20"]
    assert cells(text, "sentences")[1:3] == ["150", str(len(longer))]
    assert cells(text, "ShallowRNMT")[2] == f"{expected:.2f}"
    bleu = [run["scores"]["test"]["bleu"] for run in found[1:]]
    assert cells(text, "DTMT#1")[1] == f"{sum(bleu) / 2:.2f}"
