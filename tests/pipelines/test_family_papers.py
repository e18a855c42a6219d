"""The tables of Hao et al. and of Wang et al.: rows, sizes, and what is shown of them."""

import argparse
import dataclasses

import numpy as np
import pytest

from dtmt_tf.errors import UserError
from dtmt_tf.models import MODELS
from dtmt_tf.tasks import TASKS
from pipelines.papers import (
    PAPERS,
    costs,
    figures,
    jobs,
    lau,
    panels,
    records,
    recurrence,
    report,
    reproduce,
)
from tests.pipelines.test_results import cells, record

PRESETS = {  # of Hao et al., by row; the others differ from one in what their name says
    "base": "base",
    "big": "big",
    "big_biarn1": "big_biarn",
    "biarn1": "base_biarn",
    "biarn3": "base_biarn3",
    "biarn6": "base_biarn6",
    "birnn6": "base_birnn6",
    "stack_all": "base_biarn_all",
    "gated_top": "base_biarn_gated",
    "gated_all": "base_biarn_gated_all",
    "columns": "base_rnn_columns",
}
STEPS = {"steps1": 1, "steps4": 4, "biarn1": 8, "steps16": 16, "steps_length": 0}


def experiment(paper, row, preset="small", task=None):
    task = task or paper.task
    steps = jobs.shared_training(paper, task).max_steps
    given = {"paper": paper.name, "task": task, "preset": preset, "max_steps": steps, "set": [],
             "begin_with": "", "precision": None, "recipe": ""}  # fmt: skip
    return jobs.make_job(argparse.Namespace(**given), row, 1).experiment


@pytest.mark.parametrize("name", ["recurrence", "lau"])
def test_every_row_stands_in_a_table_and_every_pair_has_its_rows(name):
    paper = PAPERS[name]
    tables = [*paper.tables.values(), *paper.figures.values()]
    assert {row for table in tables for row in table.rows} == set(paper.rows)
    for table in tables:
        assert {row for pair in table.pairs for row in pair} <= set(table.rows)
        assert len({label for label, _ in table.rows.values()}) == len(table.rows)


def _training(row):
    return experiment(recurrence.PAPER, row, "paper", "wmt14_ende").training


def test_a_table_of_another_language_has_its_own_task_and_shows_no_other(monkeypatch, capsys):
    series = {"paper": "lau", "preset": "small", "max_steps": 9, "set": [], "hash": "e"}
    german, french = (record("lau_4_4", series=series) | {"task": task}
                      for task in ("multi30k_ende_tok", "multi30k_enfr_tok"))  # fmt: skip
    assert "not run" in report.sections([german], lau.PAPER)["lau table 3"]
    assert "not run" not in report.sections([french], lau.PAPER)["lau table 3"]
    monkeypatch.setattr(costs, "show", lambda *_: None)
    monkeypatch.setattr("sys.argv", "reproduce.py lau --table 3 --plan".split())
    assert reproduce.command() == 0
    assert "multi30k_enfr_tok, preset small" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "tasks", "alone"),
    [
        ("recurrence --table 1 2 3 4 5 --figure 5", ["multi30k_ende", "general_ende"], (1, "5")),
        ("recurrence --table 5 1 --figure 5", ["general_ende", "multi30k_ende"], (0, "5")),
        ("lau --table 1 2 3 4 --figure 2", ["multi30k_ende_tok", "multi30k_enfr_tok"], (1, "3")),
        ("lau --table 3 1", ["multi30k_enfr_tok", "multi30k_ende_tok"], (0, "3")),
    ],
)
def test_tables_of_several_tasks_come_one_task_after_the_other(
    monkeypatch, capsys, arguments, tasks, alone
):
    shown = []
    monkeypatch.setattr(costs, "show", lambda models, *_: shown.append(list(models)))
    monkeypatch.setattr("sys.argv", f"reproduce.py {arguments} --plan".split())
    assert reproduce.command() == 0
    said = [line for line in capsys.readouterr().out.splitlines() if ", preset small" in line]
    assert [line.partition(",")[0] for line in said] == tasks
    number, table = alone
    assert len(shown) == 2
    assert set(shown[number]) == set(PAPERS[arguments.split()[0]].tables[table].rows)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("lau --table 1 3 --rows lau_4_4", "1 of multi30k_ende_tok; 3 of multi30k_enfr_tok"),
        ("lau --table 3 --task multi30k_ende_tok", "Table 3 is of multi30k_enfr_tok or wmt14_enfr"),
        ("dtmt --table 2 2-french --begin-with gru0", "2 of wmt14_ende; 2-french of wmt14_enfr"),
    ],
)
def test_rows_and_a_task_are_asked_for_of_tables_that_have_them(monkeypatch, arguments, message):
    monkeypatch.setattr("sys.argv", f"reproduce.py {arguments} --plan".split())
    with pytest.raises(UserError, match=message):
        reproduce.command()


@pytest.mark.parametrize("task", ["multi30k_enfr_tok", "wmt14_enfr_lau"])
def test_a_table_is_of_the_small_and_of_the_papers_own_text(task):
    assert PAPERS["lau"].by_task(["3"], task) == {task: ["3"]}


def test_a_table_that_is_not_there_is_told(monkeypatch):
    monkeypatch.setattr("sys.argv", "reproduce.py recurrence --table 6".split())
    with pytest.raises(UserError, match="no table 6 here. Choose from 1, 2, 3, 3-chinese, 4, 5"):
        reproduce.command()


def test_a_larger_row_does_not_begin_with_a_smaller_ones_weights(monkeypatch):
    command = "reproduce.py recurrence --table 3 --begin-with base --rows base biarn1 big_biarn1"
    monkeypatch.setattr("sys.argv", command.split())
    with pytest.raises(UserError, match="big_biarn1 has other sizes than base; leave it out"):
        reproduce.command()


def test_rows_of_hao_et_al_are_their_presets():
    for row, preset in PRESETS.items():
        found = experiment(recurrence.PAPER, row, "paper", "wmt14_ende").model
        expected = dataclasses.replace(MODELS[f"transformer_{preset}"])
        if row == "columns":  # its only difference is a setting that columns do not read
            expected = dataclasses.replace(expected, fusion_layers=found.fusion_layers)
        assert found == expected, row
        size = "big" if row.startswith("big") else "base"
        theirs, ours = TASKS[f"wmt14_ende_{size}"].training, _training(row)
        for name in ("schedule", "peak_learning_rate", "adam_beta_2", "embedding_dropout_rate"):
            assert getattr(ours, name) == getattr(theirs, name), (row, name)
    for row, steps in STEPS.items():
        found = experiment(recurrence.PAPER, row).model
        assert (found.recurrence, found.recurrence_layers) == ("biarn", 1)
        assert (found.recurrence_steps, found.fusion, found.fusion_layers) == (
            steps,
            "stack",
            "top",
        )
    relative, directions = (experiment(recurrence.PAPER, row).model
                            for row in ("relative", "directional"))  # fmt: skip
    assert relative.relative_distance == 16 and not relative.directional
    assert directions.directional and not directions.relative_distance


def test_small_rows_of_hao_et_al_have_one_size_and_one_training():
    base = experiment(recurrence.PAPER, "base")
    probed = experiment(recurrence.PAPER, "base", task="general_ende")
    for searched in (base.training, probed.training):
        assert (searched.adam_beta_2, searched.adam_epsilon) == (0.98, 1e-8)
    assert (base.model.model_dim, base.model.pre_norm, base.training.max_steps) == (256, True, 2700)
    sizes = [item.name for item in dataclasses.fields(base.model)]
    for row in set(recurrence.ROWS) - {"base", "relative", "directional", "big", "big_biarn1"}:
        other = experiment(recurrence.PAPER, row)
        assert other.training == base.training and other.data == base.data
        assert all(getattr(other.model, name) == getattr(base.model, name) for name in sizes), row


def test_rows_of_wang_et_al_are_their_presets():
    presets = {name.removeprefix("deep_") for name in MODELS if name.startswith("deep_")}
    replaced = {"gru_4_4-posunk", "lau_4_4-posunk", "lau_4_4-ensemble"}
    assert set(lau.ROWS) == presets | replaced
    for row in presets:
        large = experiment(lau.PAPER, row, "paper")
        assert large.model == MODELS[f"deep_{row}"], row
        assert (large.data.vocabulary_kind, large.data.joint_vocabulary) == ("word", False)
    for row in lau.ROWS:
        found = experiment(lau.PAPER, row)
        assert found.decoding.replace_unknown == (row in replaced)
        assert (found.data.vocabulary_kind, found.data.source_vocab_size) == ("word", 6000)
        assert found.evaluation == TASKS["multi30k_ende_tok"].evaluation
        widths = {"gru_2_2_wide": 512, "lau_8_6_narrow": 128}
        assert (found.model.embedding_dim, found.model.units) == (256, widths.get(row, 256))


def test_the_printed_differences_are_the_papers():
    def printed(paper, table, row):
        return paper.TABLES[table].rows[row][1]

    assert printed(recurrence, "1", "biarn1") - printed(recurrence, "1", "base") == pytest.approx(
        0.9
    )
    assert printed(recurrence, "4", "relative") == 27.64
    assert recurrence.FIGURES["5"].rows["steps16"] == ("16", 27.92)
    assert printed(lau, "4", "lau_4_4") - printed(lau, "4", "gru_4_4") == pytest.approx(4.89)
    assert printed(lau, "2", "lau_4_4-posunk") - printed(lau, "2", "lau_4_4") == pytest.approx(1.7)


def test_the_page_lists_all_rows_until_they_are_run():
    parts = report.sections([], recurrence.PAPER) | report.sections([], lau.PAPER)
    for module in (recurrence, lau):
        for number, table in module.TABLES.items():
            text = parts[f"{module.PAPER.name} table {number}"]
            assert text.count("| not run |") == len(table.rows)
    assert cells(parts["recurrence figure 5"], "16")[-1] == "27.92"
    assert parts["lau figure 2"] == "Not run yet."


def test_the_budget_with_most_rows_is_first_and_lists_what_was_not_run():
    def of(row, updates):
        series = {"paper": "recurrence", "preset": "small", "max_steps": updates, "set": []}
        return record(row, series={**series, "hash": f"e{updates}"})

    found = [of("base", 5), of("base", 7), of("biarn1", 7)]
    parts = report.sections(found, recurrence.PAPER)["recurrence table 1"].split("\n\n")
    assert [part.count("not run") for part in parts if part.startswith("| row")] == [5, 0]
    assert ["7 updates" in part for part in parts if part.startswith("`")] == [True, False]


def test_lengths_stand_in_intervals_or_beyond_bounds_with_bands():
    series = {"paper": "recurrence", "preset": "small", "max_steps": 9, "set": [], "hash": "e"}
    found = [record(row, seed=1, series=series) for row in ("base", "biarn1")]
    words = [10] * 25 + [15] * 15 + [16] * 14 + [20] * 16 + [50] * 20  # (0, 15], (15, 30], ...
    rows = np.array([[10, 10, 8, 6, 4, 2], [10, 10, 5, 3, 2, 1]])[np.arange(len(words)) % 2]
    columns = {"source_words": words, **dict(zip(records.COUNTED, rows.T, strict=True))}
    texts = {name: " ".join(map(str, values)) for name, values in columns.items()}
    found = [{**each, "sentences": texts} for each in found]
    table = recurrence.FIGURES["length"]
    panel = panels.figure_panel("t", table, found)
    assert list(panel.ticks.values()) == ["1-15\n40", "16-30\n30", "46+\n20"]
    beyond = panels.figure_panel("t", dataclasses.replace(table, bounds=()), found)
    assert list(beyond.ticks.values()) == ["0\n90", "10\n65", "20\n20", "30\n20", "40\n20"]
    for line in (*panel.lines, *beyond.lines):
        for (_, bleu), (low, high) in zip(line.points, line.band, strict=True):
            assert low < bleu < high
    assert panels.compares(panel, table)
    assert not panels.compares(panels.figure_panel("t", table, found[:1]), table)
    text = figures.figure_table(table, found)
    assert "| words | 1-15 | 16-30 | 46+ |" in text and "| sentences | 40 | 30 | 20 |" in text
    less = [high - low for low, high in beyond.lines[0].band]
    assert less[0] < less[-1]  # more sentences, a narrower band


def test_figure_5_shows_bleu_by_steps_beside_the_papers():
    series = {"paper": "recurrence", "preset": "small", "max_steps": 9, "set": [], "hash": "e"}
    found = [record(row, seed=1, series=series) for row in ("base", "steps1", "biarn1")]
    panel = panels.figure_panel("t", recurrence.FIGURES["5"], found)
    assert list(panel.ticks.values()) == ["none", "1", "4", "8", "16", "length"]
    ours, paper = panel.lines
    assert [place for place, _ in ours.points] == [0, 1, 3]
    assert paper.points == [(0, 27.31), (1, 27.5), (3, 28.21)] and paper.dashed
    bleu = found[0]["scores"][found[0]["part"]]["bleu"]
    assert ours.points[0] == (0, bleu)
    assert not panels.figure_panel("t", recurrence.FIGURES["5"], []).lines
    assert panels.compares(panel, recurrence.FIGURES["5"])
    for few in ([], found[:1]):
        alone = panels.figure_panel("t", recurrence.FIGURES["5"], few)
        assert not panels.compares(alone, recurrence.FIGURES["5"])


@pytest.mark.parametrize(("row", "place"), [("base", "--table 1"), ("steps1", "--figure 5")])
def test_a_row_to_begin_with_is_found_in_tables_and_figures(row, place, tmp_path):
    args = argparse.Namespace(
        **{"paper": "recurrence", "task": "multi30k_ende", "preset": "small", "max_steps": 9},
        **{"set": [], "begin_with": row, "output_dir": tmp_path, "records": tmp_path},
        precision=None,
        recipe="",
    )
    command = f"--task multi30k_ende {place} --rows {row} --seeds 2, without --begin-with"
    with pytest.raises(UserError, match=command):
        jobs.beginning(args, 2)
