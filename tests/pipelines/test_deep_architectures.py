"""The tables of Miceli Barone et al.: rows, recipe, and what is shown before and after runs."""

import argparse
import dataclasses

import pytest

from dtmt_tf.errors import UserError
from dtmt_tf.models import MODELS
from dtmt_tf.tasks import TASKS
from pipelines.papers import PAPERS, figures, jobs, panels, report, reproduce, tables
from pipelines.papers.deep_architectures import FIGURES, PAPER, PRINTED, ROWS, TABLES
from pipelines.papers.paper import Table
from tests.pipelines.test_results import cells, record


def experiment(row, preset="small", task="multi30k_ende"):
    steps = jobs.shared_training(PAPER, task).max_steps
    given = {"paper": PAPER.name, "task": task, "preset": preset, "max_steps": steps, "set": [],
             "begin_with": "", "precision": None, "recipe": ""}  # fmt: skip
    return jobs.make_job(argparse.Namespace(**given), row, 1).experiment


def test_rows_of_the_papers_size_are_the_presets():
    presets = {name.removeprefix("rnn_") for name in MODELS if name.startswith("rnn_")}
    assert {row for table in TABLES.values() for row in table.rows} == presets | {"alternating2"}
    assert presets | {"alternating2", "dtmt1", "dtmt4"} == set(ROWS)
    assert set(PRINTED) == presets
    for row in presets:
        assert experiment(row, "paper", "wmt17_ende").model == MODELS[f"rnn_{row}"], row
    assert experiment("alternating2").model.encoder_depth == 2


def test_rows_of_one_size_differ_in_what_they_say():
    base, deep = experiment("baseline"), experiment("bideep4x2")
    assert (base.model.units, base.model.embedding_dim) == (256, 256)
    assert deep.model == dataclasses.replace(MODELS["rnn_bideep4x2"], units=256, embedding_dim=256)
    assert deep.training == base.training and deep.data == base.data


def test_all_rows_train_to_the_end_of_the_short_recipe():
    training = experiment("baseline").training
    assert (training.max_steps, training.validation_steps, training.patience) == (2700, 540, 0)
    replicas = training.schedule_replicas
    assert training.schedule_decay_start / replicas == 1350
    assert training.r_drop_alpha == 0 and training.ema_decay == 0.999
    assert experiment("baseline").data == TASKS["multi30k_ende"].data


def test_the_largest_corpus_has_a_short_recipe_too_which_dtmt_shares():
    rows = [experiment(row, task="general_ende") for row in ("baseline", "dtmt1", "dtmt4")]
    training = rows[0].training
    assert (training.max_steps, training.validation_steps) == (2700, 2700)
    assert training.schedule_decay_start / training.schedule_replicas == 1350
    assert all((row.training, row.data) == (training, rows[0].data) for row in rows)
    assert [type(row.model).__name__ for row in rows[1:]] == ["DTMTConfig"] * 2
    found = [(row.model.encoder_depth, row.model.transition_offset) for row in rows[1:]]
    assert found == [(1, 0.0), (4, -3.0)]


def test_bleu_is_the_mean_of_three_test_sets_and_cross_entropy_is_printed():
    assert TABLES["1"].rows["baseline"] == ("+ layer normalisation", 25.3)
    assert TABLES["4"].rows["bideep4x2"][1] == 26.8
    assert TABLES["2"].rows["alternating2"][1] is None
    assert TABLES["3"].cross_entropy["decoder_cgru4"] == 44.76
    best = max(PRINTED, key=lambda row: sum(PRINTED[row][1:]))
    assert best == "bideep4x2" == min(PRINTED, key=lambda row: PRINTED[row][0])


def test_rows_without_a_result_are_shown_as_not_run():
    there = report.sections([], PAPER)
    text = there["deep_architectures table 1"]
    assert text.count("| not run |") == 4
    assert cells(text, "baseline")[-3:] == ["24.47", "", "49.98"]
    assert set(there) == {
        *(f"deep_architectures table {number}" for number in TABLES), "deep_architectures figure 5"
    }  # fmt: skip


def of_row(row, **others):
    series = {"paper": PAPER.name, "preset": "small", "max_steps": 100, "set": [], "hash": "e"}
    return record(row, series=series, **others)


def test_rows_with_a_result_show_the_least_cross_entropy_over_seeds():
    found = [
        of_row("baseline", seed=1, cross_entropy={"50": 2.0, "100": 1.5}),
        of_row("baseline", seed=2, cross_entropy={"50": 1.25, "100": 2.5}),
        of_row("baseline_no_norm", seed=1, rate=0.5),
    ]
    text = report.sections(found, PAPER)["deep_architectures table 1"]
    line = cells(text, "+ layer normalisation", "1,234,567")
    assert line[-3:] == ["25.30", "1.375", "47.53"]
    assert cells(text, "baseline", "1,234,567")[-3:] == ["24.47", "", "49.98"]
    assert text.count("| not run |") == 2
    (compared,) = [line for line in text.splitlines() if line.startswith("| baseline | + layer")]
    assert "+0.83" in compared and "not judged by one seed" in compared


MEASURE = {"contrast_measure": "position"}
CONTRAST = {"subj_verb_agreement.mt": {"0-3": (9, 10), "16+": (1, 4)}, "np": {"0-3": (0, 50)}}


def test_figure_5_shows_accuracy_by_words_as_the_mean_over_seeds():
    other = {"subj_verb_agreement.mt": {"0-3": (5, 10), "4-7": (2, 2)}}
    found = [
        of_row("baseline", seed=1, contrast=CONTRAST, **MEASURE),
        of_row("baseline", seed=2, contrast=other, **MEASURE),
        of_row("bideep4x2", contrast=other, **MEASURE),
        of_row("transition4_8"),
    ]
    text = report.sections(found, PAPER)["deep_architectures figure 5"]
    assert cells(text, "position, words") == ["position, words", "0-3", "4-7", "16+"]
    assert cells(text, "shallow GRU", "1,234,567")[3] == "2"  # seeds, and their BLEU
    assert cells(text, "shallow GRU", "70.0 (10)")[2:] == ["100.0 (2)", "25.0 (4)"]
    assert cells(text, "BiDeep GRU, depth 4 x 2", "50.0 (10)")[2:] == ["100.0 (2)", ""]
    assert "deep transition" not in text
    kinds = ["type of error", "pairs", "shallow GRU", "BiDeep GRU, depth 4 x 2"]
    assert cells(text, "type of error") == kinds
    agreement = ["subj_verb_agreement.mt", "14", "60.7 (35.6-81.2)", "58.3 (32.0-80.7)"]
    assert cells(text, "subj_verb_agreement.mt") == agreement
    assert cells(text, "np") == ["np", "50", "0.0 (0.0-7.1)", ""]
    panel = panels.figure_panel("t", FIGURES["5"], found)
    assert [(line.label, line.points) for line in panel.lines] == [
        ("shallow GRU", [(0, 70.0), (1, 100.0), (2, 25.0)]),
        ("BiDeep GRU, depth 4 x 2", [(0, 50.0), (1, 100.0)]),
    ]
    assert panel.ticks == {0: "0-3", 1: "4-7", 2: "16+"} and panel.x == "position, words"
    by_distance = of_row("bideep2x2", contrast=other, contrast_measure="distance")
    _, curves = figures.contrast_curves(FIGURES["5"], [*found, by_distance])
    assert list(curves) == ["shallow GRU", "BiDeep GRU, depth 4 x 2"]


def test_a_figure_without_scored_sets_is_not_run():
    assert figures.figure_table(FIGURES["5"], [of_row("baseline")]) == tables.NOTHING
    assert not panels.figure_panel("t", FIGURES["5"], [of_row("baseline")]).lines
    assert "longer than" in figures.figure_table(
        Table("t", {"baseline": ("b", None)}), [of_row("baseline")]
    )


def test_a_copy_of_a_page_is_rewritten_as_that_page(tmp_path):
    for name in ("RESULTS.md", *(paper.page for paper in PAPERS.values())):
        copy = tmp_path / "mine.md"
        text = (report.ROOT / name).read_text("utf-8")
        copy.write_text(text.replace("<!-- end -->", "changed\n<!-- end -->", 1), "utf-8")
        report.rewrite(copy, report.records.RECORDS)
        assert copy.read_text("utf-8") == text, name


def test_figure_5_needs_sets(monkeypatch):
    monkeypatch.setattr("sys.argv", ["reproduce.py", PAPER.name, "--figure", "5"])
    with pytest.raises(UserError, match="--contrast SET"):
        reproduce.command()


def test_a_set_that_is_not_there_is_told_before_any_row_trains(monkeypatch, tmp_path):
    missing = tmp_path / "nothere.tsv"
    command = f"reproduce deep_architectures --figure 5 --rows baseline --contrast {missing}"
    monkeypatch.setattr("sys.argv", command.split())
    monkeypatch.setattr(reproduce, "_in_process", lambda _: pytest.fail("a row was trained"))
    with pytest.raises(UserError, match=r"nothere\.tsv"):
        reproduce.command()
