"""Two rows of the paper's tables on digits: stopped, resumed, recorded, skipped, reported."""

import contextlib
import dataclasses
import io
import json
import logging
import re
import shutil
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest
import tensorflow as tf

import dtmt_tf.runs
from dtmt_tf import startup
from dtmt_tf.evaluation import score_hypotheses
from dtmt_tf.runs import Run, Session, session
from dtmt_tf.training import Trainer, make_strategy, summaries
from pipelines.papers import PAPERS, records, reproduce
from pipelines.papers.paper import Row
from tests.end_to_end.conftest import ROOT, SETTINGS, picture, write_digits
from tests.training.toy_trainer import graphless

pytestmark = pytest.mark.slow
SWITCH = "enable_op_determinism"  # would hold for all later tests of this process

UPDATES = 4
ROWS = {"gru0": "ShallowRNMT: GRU", "lgru0": "ShallowRNMT: L-GRU"}


def lines_of(path):
    return path.read_text(encoding="utf-8").splitlines()


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """Arguments of a small reproduction, and what its first two commands said."""
    folder = tmp_path_factory.mktemp("reproduce")
    settings = write_digits(folder, {"test": 40, "validation": 10, "train": 400})
    settings += [*SETTINGS, f"training.validation_steps={UPDATES}", "decoding.beam_size=1"]
    settings += ["training.candidate_dropout_rate=0.1", "training.schedule_decay_start=1280"]
    settings += ["training.schedule_decay_end=2560", "model.units=16", "model.embedding_dim=16"]
    settings += ["model.num_heads=4", "decoding.extra_length=5"]
    report = folder / "DTMT.md"
    report.write_text((ROOT / "DTMT.md").read_text(encoding="utf-8"), encoding="utf-8")
    arguments = [
        *("dtmt", "--table", "3", "--figure", "3", "--rows", *ROWS, "--task", "custom"),
        *("--max-steps", str(UPDATES), "--output-dir", str(folder / "models")),
        *("--records", str(folder / "records"), "--report", str(report), "--set", *settings),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "_show", lambda *_: signal.raise_signal(signal.SIGINT))
        stopped = in_this_process(arguments)
    return folder, arguments, stopped, in_this_process(arguments)


@pytest.fixture
def without_graphs():
    """Traces nothing, which takes longer than to score some lines."""
    with graphless():
        yield


def of_rows(arguments, *rows):
    """The same arguments with other rows."""
    k = arguments.index("--rows") + 1
    return [*arguments[:k], *rows, *arguments[k + len(ROWS) :]]


def in_this_process(arguments):
    """What the command says that runs its rows in this process, without graphs."""
    out, errors = io.StringIO(), io.StringIO()
    told = logging.StreamHandler(errors)
    patches = pytest.MonkeyPatch.context()
    redirected = contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors)
    with patches as patch, redirected[0], redirected[1], graphless():
        patch.setattr(Trainer, "rehearse", lambda trainer: None)
        patch.setattr(summaries, "attention_image", picture)
        patch.setattr(sys, "argv", ["pipelines/reproduce.py", *arguments])
        patch.setattr(startup, "start_tensorflow", lambda: None)  # it has started
        patch.setattr(tf.config.experimental, SWITCH, lambda: None)
        patch.setattr(reproduce, "_in_process", lambda work: reproduce._train(*work.args))
        patch.setattr(session, "make_strategy", lambda multiworker: make_strategy(False, ["CPU:0"]))
        patch.setattr(logging.root, "level", logging.INFO)
        patch.setattr(logging.root, "handlers", [told])
        code = reproduce.command()
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), errors.getvalue())


def found(folder):
    return {path.stem.split("-")[1]: json.loads(path.read_text())
            for path in (folder / "records").glob("*.json")}  # fmt: skip


def test_ctrl_c_saves_the_row_and_the_same_command_goes_on(shop):
    _, _, stopped, finished = shop
    assert stopped.returncode == 130, stopped.stderr
    assert "Stopped in row 1 of 2; the same command goes on." in stopped.stderr
    assert "Traceback" not in stopped.stderr
    assert finished.returncode == 0, finished.stderr
    assert "resuming after update 1" in finished.stderr
    assert f"Row 2 of 2: lgru0, seed 1: {UPDATES} updates" in finished.stderr


def test_a_record_says_what_was_run_and_what_came_out(shop):
    folder, _, _, finished = shop
    assert set(found(folder)) == set(ROWS)
    for row, record in found(folder).items():
        (work,) = (folder / "models" / "custom").glob(
            f"{row}-{record['settings_hash']}-seed1/train"
        )
        assert (record["row"], record["seed"], record["updates"]) == (row, 1, UPDATES)
        assert record["changed_settings"]["training.schedule_decay_start"] == 1280
        assert record["changed_settings"]["training.patience"] == 0
        assert record["series"]["max_steps"] == UPDATES
        assert record["name"] == work.parent.name
        assert record["curve"].keys() == record["cross_entropy"].keys() == {str(UPDATES)}
        references = lines_of(folder / "test.target")
        test = record["scores"]["test"]
        expected = score_hypotheses(lines_of(work / "test.txt"), references)
        assert (test["bleu"], test["bleu_signature"]) == (expected.bleu, expected.bleu_signature)
        assert record["scores"]["validation"]["num_sentences"] == 10
        rate = record["target_words"] / record["seconds_in_updates"]
        assert record["target_words_per_second"] == pytest.approx(rate, rel=0.1)
        assert record["machine"]["threads"] >= 1
        words = [len(line.split()) for line in lines_of(folder / "test.source")]
        assert record["sentences"]["source_words"] == " ".join(map(str, words))
        assert record["changed_settings"]["model.query_depth"] == 0
    per_epoch = int(re.search(r"(\d+) updates an epoch", finished.stderr)[1])
    assert found(folder)["gru0"]["epochs"] == round(UPDATES / per_epoch, 2)


def test_tables_and_figure_hold_the_scores(shop):
    folder, _, _, finished = shop
    text = (folder / "DTMT.md").read_text(encoding="utf-8")
    for row, label in ROWS.items():
        record = found(folder)[row]
        start = f"| {label} | {record['parameters']:,} | {UPDATES} | 1 |"
        (line,) = [line for line in text.splitlines() if line.startswith(start)]
        assert f"| {record['scores']['test']['bleu']:.2f} |" in line
    assert f"Figure: {folder}/models/custom/dtmt-figure3-light.svg" in finished.stdout
    assert (folder / "models" / "custom" / "dtmt-figure3-light.svg").exists()


@pytest.mark.usefixtures("without_graphs")
def test_what_is_done_is_not_done_again_and_a_run_can_be_added(shop, here, caplog):
    caplog.set_level("INFO")
    folder, arguments, *_ = shop
    before = {path: path.stat().st_mtime_ns for path in (folder / "records").glob("*.json")}
    report = folder / "DTMT.md"
    text = report.read_text(encoding="utf-8")
    report.write_text(text.replace("| ShallowRNMT: GRU |", "| lost |"), encoding="utf-8")
    again = here("reproduce", *arguments)
    assert again.returncode == 0, again.stderr
    assert report.read_text(encoding="utf-8") == text
    assert caplog.text.count(": done, custom-") == 2
    assert {path: path.stat().st_mtime_ns for path in before} == before
    (run_folder,) = (folder / "models" / "custom").glob("gru0-*")
    other = folder / "models" / "custom" / "other"
    shutil.copytree(run_folder, other)
    shutil.copy(ROOT / "RESULTS.md", folder)
    places = ["--records", folder / "records", "--report", folder / "RESULTS.md"]
    scores = json.loads((other / "train" / "scores.json").read_text())
    scores["test"]["bleu"] = 99.0  # older than the run
    (other / "train" / "scores.json").write_text(json.dumps(scores))
    added = here("documents", "add", run_folder, other, *places)
    assert added.returncode == 0, added.stderr
    assert found(folder)["gru0"]["row"] == "gru0"
    bleu = found(folder)["gru0"]["scores"]["test"]["bleu"]
    text = (folder / "RESULTS.md").read_text(encoding="utf-8")
    start = "| custom | en-de | other |"
    (line,) = [line for line in text.splitlines() if line.startswith(start)]
    assert line.endswith(f"| {bleu:.2f} |")


def test_rows_begin_with_a_trained_row(shop, here, monkeypatch, tmp_path):
    folder, arguments, *_ = shop
    begun = [*of_rows(arguments, "lgru0"), "--begin-with", "gru0"]
    runs = []

    def session(run, limits):
        assert limits.allow_changes == ["training.precision"]  # so that another machine goes on
        runs.append(run)
        return SimpleNamespace(train=lambda: SimpleNamespace(exit_code=2))

    monkeypatch.setattr(dtmt_tf.runs, "Session", session)
    monkeypatch.setattr(reproduce, "_in_process", lambda work: reproduce._train(*work.args))
    assert "lgru0 failed" in here("reproduce", *begun).stderr
    (run,) = runs
    assert re.fullmatch("lgru0-from_gru0-[0-9a-f]{8}-seed1", run.folder.name)
    assert re.fullmatch("gru0-[0-9a-f]{8}-seed1", run.init_from.folder.name)
    assert run.init_from.newest().step == UPDATES
    refused = here("reproduce", *begun, "--records", tmp_path)
    assert refused.returncode == 2 and len(runs) == 1
    assert "--rows gru0 --seeds 1, without --begin-with" in refused.stderr
    elsewhere = here("reproduce", *begun, "--output-dir", tmp_path)
    assert elsewhere.returncode == 2 and "is of a run elsewhere" in elsewhere.stderr


@pytest.mark.usefixtures("without_graphs")
def test_a_row_with_anothers_weights_is_decoded_alone(shop, here, monkeypatch, tmp_path):
    folder, arguments, *_ = shop
    paper = PAPERS["dtmt"]
    row = Row((*paper.rows["gru0"].settings, "decoding.beam_size=3"), weights_of="gru0")
    table = dataclasses.replace(
        paper.tables["3"], rows={**paper.tables["3"].rows, "wide": ("beam 3", None)}
    )
    shown = {"rows": {**paper.rows, "wide": row}, "tables": {**paper.tables, "3": table}}
    monkeypatch.setitem(PAPERS, "dtmt", dataclasses.replace(paper, **shown))
    monkeypatch.setattr(reproduce, "_in_process", lambda work: reproduce._train(*work.args))
    monkeypatch.setattr(dtmt_tf.runs, "Session", None)  # nothing is trained
    for name in ("models", "records"):
        shutil.copytree(folder / name, tmp_path / name)
    shutil.copy(folder / "DTMT.md", tmp_path)
    places = ["--output-dir", tmp_path / "models", "--records", tmp_path / "records"]
    places += ["--report", tmp_path / "DTMT.md"]
    result = here("reproduce", *of_rows(arguments, "wide"), *places)
    assert result.returncode == 0, result.stderr
    wide, narrow = (found(tmp_path)[name] for name in ("wide", "gru0"))
    assert re.fullmatch("wide-[0-9a-f]{8}-seed1", wide["name"])
    assert (wide["row"], wide["beam_size"], narrow["beam_size"]) == ("wide", 3, 1)
    assert wide["series"] == narrow["series"] and wide["settings_hash"] != narrow["settings_hash"]
    assert wide["seconds_in_updates"] == narrow["seconds_in_updates"]
    opened = Run.open(tmp_path / "models" / "custom" / wide["name"], None, tmp_path)
    assert opened.experiment.decoding.beam_size == 3
    (trained,) = (tmp_path / "models" / "custom").glob("gru0-*")
    kept = json.loads((trained / "train" / "scores.json").read_text())
    assert kept["test"]["decoding"]["beam_size"] == 1
    shutil.rmtree(tmp_path / "models")
    (tmp_path / "records" / f"custom-{wide['name']}.json").unlink()
    refused = here("reproduce", *of_rows(arguments, "wide"), *places)
    assert refused.returncode == 2 and "--rows gru0 --seeds 1." in refused.stderr


@pytest.mark.usefixtures("without_graphs")
def test_a_row_of_trainings_that_predict_together(shop, here, monkeypatch, tmp_path):
    folder, arguments, *_ = shop
    paper = PAPERS["dtmt"]
    settings = (*paper.rows["gru0"].settings, "decoding.beam_size=3")
    row = Row(settings, weights_of="gru0", together=2)
    table = dataclasses.replace(
        paper.tables["3"], rows=paper.tables["3"].rows | {"two": ("", None)}
    )
    shown = {"rows": {**paper.rows, "two": row}, "tables": {**paper.tables, "3": table}}
    monkeypatch.setitem(PAPERS, "dtmt", dataclasses.replace(paper, **shown))
    monkeypatch.setattr(reproduce, "_in_process", lambda work: reproduce._train(*work.args))
    monkeypatch.setattr(dtmt_tf.runs, "Session", None)  # nothing is trained
    shutil.copytree(folder / "records", tmp_path / "records")
    (first,) = (folder / "models" / "custom").glob("gru0-*")
    names = first.name, first.name.replace("seed1", "seed2")
    for seed, name in enumerate(names, start=1):  # the second's weights are the first's
        run = shutil.copytree(first, tmp_path / "models" / "custom" / name)
        settled = json.loads((run / "train" / "experiment.json").read_text())
        settled["settings"]["training"]["seed"] = seed
        (run / "train" / "experiment.json").write_text(json.dumps(settled))
        record = found(folder)["gru0"] | {"name": name, "seed": seed}
        (tmp_path / "records" / f"custom-{name}.json").write_text(json.dumps(record))
    shutil.copy(folder / "DTMT.md", tmp_path)
    places = ["--output-dir", tmp_path / "models", "--records", tmp_path / "records"]
    places += ["--report", tmp_path / "DTMT.md", "--seeds", "1", "2"]
    result = here("reproduce", *of_rows(arguments, "gru0", "two"), *places)
    assert result.returncode == 0, result.stderr
    (path,) = (tmp_path / "records").glob("custom-two-*")
    two, one = json.loads(path.read_text()), found(folder)["gru0"]
    assert (two["row"], two["seed"], two["members"]) == ("two", 1, list(names))
    assert (two["updates"], two["parameters"]) == (2 * UPDATES, 2 * one["parameters"])
    assert (two["beam_size"], one["beam_size"]) == (3, 1)
    assert two["series"] == one["series"]
    refused = here("reproduce", *of_rows(arguments, "two"), *places[:-1])
    assert refused.returncode == 2 and "two is of trainings that predict" in refused.stderr
    assert "--seeds 1 2." in refused.stderr


def test_a_record_is_not_replaced_by_that_of_another_seed(shop, here):
    folder = shop[0]
    (known,) = (folder / "records").glob("custom-gru0-*")
    before = known.read_text()
    known.write_text(json.dumps(json.loads(before) | {"seed": 2}))
    places = ["--records", folder / "records", "--report", folder / "DTMT.md"]
    result = here("documents", "add", *(folder / "models" / "custom").glob("gru0-*"), *places)
    assert result.returncode == 2
    assert "another seed" in result.stderr and "--name" in result.stderr
    assert json.loads(known.read_text())["seed"] == 2
    known.write_text(before)


@pytest.mark.usefixtures("without_graphs")
def test_a_finished_run_keeps_the_machine_that_trained_it(shop, tmp_path, monkeypatch):
    monkeypatch.setattr(tf.config.experimental, SWITCH, lambda: None)
    (run_folder,) = (shop[0] / "models" / "custom").glob("gru0-*")
    folder = tmp_path / "custom" / "later"
    shutil.copytree(run_folder, folder)
    path = folder / "train" / "experiment.json"
    settled = json.loads(path.read_text())
    elsewhere = {"processor": "another", "threads": 99, "gpus": 0}
    path.write_text(json.dumps(settled | {"machine": elsewhere}))
    outcome = Session(Run.open(folder, None, tmp_path), make_strategy(False, ["CPU:0"])).train()
    assert (outcome.exit_code, outcome.step) == (0, UPDATES)
    assert json.loads(path.read_text())["machine"] == elsewhere
    assert json.loads(path.read_text())["settings"] == settled["settings"]
    path.write_text(json.dumps(settled | {"init_from": {"run": "custom/base"}}))
    run = Run.open(folder, None, tmp_path)
    found = records.make_record(run)
    assert found["init_from"] == "custom/base"
    (other,) = {"float32", "bfloat16"} - {run.experiment.training.precision}
    training = dataclasses.replace(run.experiment.training, precision=other)
    run.experiment = dataclasses.replace(run.experiment, training=training)
    records.check_same(path, found, run)
    again = records.make_record(run)
    for name in "settings_hash", "changed_settings":  # as it was trained
        assert again[name] == found[name]


def test_a_report_without_a_place_for_tables_is_found_before_training(shop, here, tmp_path):
    arguments = [*shop[1], "--report", tmp_path / "none.md", "--records", tmp_path / "none"]
    result = here("reproduce", *arguments)
    assert result.returncode == 2
    assert "none.md was not found" in result.stderr


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGABRT])
def test_a_row_that_the_system_ends_is_told_of_memory(shop, here, monkeypatch, tmp_path, number):
    monkeypatch.setattr(reproduce, "_in_process", lambda function: 128 + number)
    result = here("reproduce", *shop[1], "--records", tmp_path)
    assert result.returncode == 2
    assert "gru0 was killed. Memory may have run out" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "texts"),
    [
        ([], ["PAPER"]),
        (["dtmt"], ["--table 3"]),
        (["dtmt", "--table", "7"], ["dtmt has no table 7", "1, 2, 2-french, 3, 4"]),
        (["dtmt", "--table", "3", "--rows", "gru9"], ["Unknown row 'gru9'", "lgru4"]),
        (["dtmt", "--table", "3", "--task", "wmt15"], ["Unknown task 'wmt15'", "wmt14_ende"]),
        (["dtmt", "--table", "3", "--begin-with", "gru9"], ["Unknown row 'gru9'", "lgru4"]),
        (["dtmt", "--table", "3", "--set", "training.max_steps=9"], ["--max-steps"]),
        (["dtmt", "--table", "3", "--set", "training.seed=9"], ["--seeds"]),
        (["dtmt", "--table", "3", "--set", "training.patience=5"], ["all their updates"]),
        (
            ["dtmt", "--table", "1", "--rows", "transformer", "--set", "model.pre_norm=true"],
            ["model.pre_norm is a setting of Transformer", "all rows", "pipelines/papers/dtmt.py"],
        ),
        (
            ["dtmt", "--table", "1", "--set", "training.schedule_decay_end=5"],
            ["equal minutes", "--rows"],
        ),
    ],
    ids=str,
)
def test_mistakes_end_with_code_2_and_advice(here, arguments, texts):
    result = here("reproduce", *arguments)
    assert result.returncode == 2, result.stderr
    assert "Traceback" not in result.stderr
    for text in texts:
        assert text in result.stderr
