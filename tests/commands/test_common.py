"""What commands share: the runs, models and folders that arguments name."""

import argparse
from pathlib import Path

import pytest

from dtmt_tf.commands import common, options
from dtmt_tf.errors import UserError
from tests.end_to_end.test_older_artifacts import unpack


@pytest.mark.parametrize("named", ["dem", "cldr_ende/dem", "runs/cldr_ende/dem"])
def test_a_model_that_is_misspelt_is_looked_for_beside_those_that_are_there(
    named, tmp_path, monkeypatch
):
    (tmp_path / "runs" / "cldr_ende" / "demo").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    arguments = ["--output-dir", "runs", "--model", named]
    args = options.run_parser("", "", model="").parse_args(arguments)
    assert common.model_place(args) == Path("runs/cldr_ende/dem")
    args.model += "o"
    assert common.model_place(args) == Path("runs/cldr_ende/demo")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("# mine\ntask: nowhere\n", "run.yaml:2: unknown task 'nowhere'. Choose one of"),
        ("task: cldr_ende\nmodel_name: dtmt5\n", "run.yaml:2: unknown model 'dtmt5'. Did you"),
    ],
)
def test_a_name_that_a_file_has_wrong_is_told_with_file_and_line(text, told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("run.yaml").write_text(text)
    parser = options.run_parser("", "")
    options.add_config(parser)
    options.add_set(parser)
    given = ["--config", "run.yaml"]
    with pytest.raises(UserError) as error:
        common.experiment(parser.parse_args(given))
    assert str(error.value).startswith(told)
    named = parser.parse_args([*given, "--task", "nowhere", "--model", "dtmt5"])
    with pytest.raises(UserError, match="^Unknown task 'nowhere'"):
        common.experiment(named)


@pytest.mark.parametrize(("value", "found"), [("", None), ("/data", Path("/data"))])
def test_an_empty_variable_names_no_data(monkeypatch, value, found):
    monkeypatch.setenv(common.DATA_DIR_VARIABLE, value)
    parser = argparse.ArgumentParser()
    options.add_folders(parser)
    assert parser.parse_args([]).data_dir == found


def test_a_run_is_found_by_its_name_or_its_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    models = Path("models")
    for run in ("toy/a", "custom/a", "custom/b"):
        (models / run).mkdir(parents=True)
    assert common.find_run(Path("."), models, "custom") == tmp_path.resolve()
    assert common.find_run(Path(".."), models, "custom") == tmp_path.resolve().parent
    assert common.find_run(Path("b"), models, "toy") == models / "custom" / "b"
    assert common.find_run(Path("a"), models, "custom") == models / "custom" / "a"
    assert common.find_run("b", models, "toy", elsewhere=False) == Path("b")
    with pytest.raises(UserError, match="^a may be models/custom/a or models/toy/a. Name one"):
        common.find_run(Path("a"), models)
    Path("a").mkdir()  # such as a folder of texts
    Path("b").touch()
    with pytest.raises(UserError, match="^a may be models/custom/a or models/toy/a. Name one"):
        common.find_run("a", models)
    (Path("a") / "train").mkdir()
    (Path("a") / "train" / "a.en").touch()
    with pytest.raises(UserError, match="^a may be models/custom/a or models/toy/a. Name one"):
        common.find_run("a", models)
    (Path("a") / "train" / "experiment.json").touch()
    assert common.find_run(Path("a"), models, "custom") == models / "custom" / "a"
    assert common.find_run("./a", models, "custom") == Path("a")
    assert common.find_run("a/", models, "custom") == Path("a")
    assert common.find_run(Path("a"), models) == Path("a")
    assert common.find_run("b", models) == models / "custom" / "b"
    assert common.find_run("no", models) == Path("no")
    Path("no").mkdir()
    assert common.find_run("no", models) == Path("no")


def test_a_name_with_its_task_is_no_run_of_another_task(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("runs/multi30k_ende/small").mkdir(parents=True)
    parser = options.run_parser("", "", model="")
    given = ["--output-dir", "runs", "--model", "small"]
    found = common.model_place(parser.parse_args(given))
    assert found == Path("runs/multi30k_ende/small")
    elsewhere = parser.parse_args([*given, "--task", "multi30k_enfr_tok"])
    assert common.model_place(elsewhere) == Path("runs/multi30k_enfr_tok/small")  # there is none
    with pytest.raises(UserError, match="^Unknown task 'multi30k_edne'. Did you mean"):
        common.model_place(parser.parse_args([*given, "--task", "multi30k_edne"]))
    assert common.named_run("small", elsewhere) == found  # where any will do, such as a teacher


def test_a_task_that_a_file_names_comes_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for run in ("cldr_ende/base", "multi30k_ende/base"):
        (Path("runs") / run).mkdir(parents=True)
    Path("my.yaml").write_text("task: multi30k_ende\n")
    parser = options.run_parser("", "")
    options.add_config(parser)
    given = ["--output-dir", "runs"]
    with pytest.raises(UserError, match="^base may be runs/cldr_ende/base or runs/multi"):
        common.named_run("base", parser.parse_args(given))
    args = parser.parse_args([*given, "--config", "my.yaml"])
    assert common.named_run("base", args) == Path("runs/multi30k_ende/base")


def test_a_run_of_another_model_than_was_asked_for_is_refused(tmp_path):
    unpack("run-0.1", tmp_path)
    parser = options.run_parser("", "")
    given = ["--output-dir", str(tmp_path), "--task", "custom", "--name", "older"]
    run = common.open_run(parser.parse_args(given))
    model = run.experiment.model_name
    assert common.open_run(parser.parse_args([*given, "--model", model])).folder == run.folder
    with pytest.raises(UserError, match=f"older is a run of --model {model}, not of dtmt1"):
        common.open_run(parser.parse_args([*given, "--model", "dtmt1"]))


def test_a_run_is_named_by_its_folder_or_where_it_is_one_of_a_kind(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    parser = options.run_parser("", "")
    options.add_run(parser)

    def folder(name):
        return common.run_folder(parser.parse_args([name, "--output-dir", "models"]))

    for name in ("custom/a", "custom/b", "cldr_ende/b", "cldr_ende/c"):
        Path("models", name, "train").mkdir(parents=True)
    assert folder("models/custom/b") == Path("models/custom/b")
    assert folder("a") == folder("custom/a") == Path("models/custom/a")
    with pytest.raises(UserError, match="b may be models/cldr_ende/b or models/custom/b. Name one"):
        folder("b")
    assert folder("d") == Path("models/cldr_ende/d")  # of the default task: its runs are told
    assert folder("x/d") == Path("x/d")
    Path("a/1").mkdir(parents=True)
    assert folder("a") == Path("models/custom/a")
    Path("a/1/saved_model.pb").touch()
    assert folder("a") == Path("a")
