"""`dtmt config`: settings of runs and files compared, and the page that lists them."""

import dataclasses
import json
from pathlib import Path

import pytest

from dtmt_tf.commands import common, options
from dtmt_tf.commands.config import command, settings_of, table
from dtmt_tf.errors import UserError
from dtmt_tf.experiment import to_dict
from dtmt_tf.models import MODELS
from dtmt_tf.settings import about

ROOT = Path(__file__).parents[2]


@pytest.fixture
def places(tmp_path):
    """A run, and a file that leads to other settings."""
    parser = options.run_parser("dtmt train", "")
    options.add_set(parser)
    args = parser.parse_args(["--set", "training.seed=7", "model.units=64"])
    settings = to_dict(common.experiment(args)[0])
    del settings["training"]["loss_unit"]  # which an earlier version did not have
    run = tmp_path / "run"
    (run / "train").mkdir(parents=True)
    values = {"settings": settings, "origins": {}}
    (run / "train/experiment.json").write_text(json.dumps(values), encoding="utf-8")
    file = tmp_path / "run.yaml"
    file.write_text("model_name: dtmt_tiny\ntraining: {seed: 8}\n", encoding="utf-8")
    return run, file


def test_a_run_and_a_file_are_compared(places, capsys):
    run, file = places
    assert command(["diff", str(run), str(file)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "model.units: 64 -> 128",
        "training.seed: 7 -> 8",
    ]
    assert command(["diff", str(run / "train/experiment.json"), str(run)]) == 0
    assert capsys.readouterr().out == "no difference\n"


def test_a_run_is_found_by_its_name(places, tmp_path, capsys):
    task = tmp_path / "runs" / "cldr_ende"
    task.mkdir(parents=True)
    places[0].rename(task / "base")
    below = ["--output-dir", str(tmp_path / "runs")]
    assert command(["diff", "base", str(places[1]), *below]) == 0
    assert "training.seed: 7 -> 8" in capsys.readouterr().out
    assert command(["diff", "base", "cldr_ende/base", *below]) == 0
    assert capsys.readouterr().out == "no difference\n"


def test_another_task_and_model_are_told(places, tmp_path, capsys):
    other = tmp_path / "other.yaml"
    other.write_text("task: wmt14_ende\ndata: {max_length: 64}\n", encoding="utf-8")
    assert command(["diff", str(places[1]), str(other)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["task: cldr_ende -> wmt14_ende", "model_name: dtmt_tiny -> dtmt4"]
    assert "training.seed: 8 -> 1" in lines
    assert not any(line.startswith("data.max_length") for line in lines)


def test_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(UserError, match="is neither a file of settings nor a run's folder"):
        settings_of(tmp_path)
    with pytest.raises(UserError, match="Cannot read .*none.yaml: No such file"):
        settings_of(tmp_path / "none.yaml")


@pytest.mark.parametrize("arguments", [[], ["diff"], ["diff", "a"], ["table", "a"], ["show"]])
def test_wrong_arguments_end_with_code_2(arguments):
    with pytest.raises(SystemExit) as end:
        command(arguments)
    assert end.value.code == 2


def test_the_page_of_settings_is_that_of_this_version(capsys):
    assert command(["table"]) == 0
    page = (ROOT / "SETTINGS.md").read_text(encoding="utf-8")
    assert page == capsys.readouterr().out, "dtmt config table > SETTINGS.md"
    for config in MODELS.values():
        for item in dataclasses.fields(config):
            assert f"| `model.{item.name}` |" in page and about(item).meaning in page
    assert "| `training.label_smoothing` | `0.1` | in [0, 1) | share of" in table()


def test_the_command_line_comes_before_the_file(places, tmp_path):
    parser = options.run_parser("dtmt train", "")
    options.add_config(parser)
    options.add_set(parser)
    file = tmp_path / "own.yaml"
    file.write_text("task: multi30k_ende\nmodel_name: dtmt_small\nmodel.num_heads: 2\n", "utf-8")

    def named(*arguments):
        args = parser.parse_args(["--config", str(file), "--output-dir", "runs", *arguments])
        experiment, _ = common.experiment(args)
        folder = common.run_folder(args)
        return experiment.task, experiment.model_name, experiment.model.num_heads, str(folder)

    folder = "runs/multi30k_ende/dtmt_small"
    assert named() == ("multi30k_ende", "dtmt_small", 2, folder)
    assert named("--set", "model.num_heads=4")[2:] == (4, folder)
    assert named("--task", "custom")[:2] == ("custom", "dtmt_small")
    assert named("--model", "dtmt_tiny", "--name", "x") == (
        "multi30k_ende", "dtmt_tiny", 2, "runs/multi30k_ende/x"
    )  # fmt: skip
