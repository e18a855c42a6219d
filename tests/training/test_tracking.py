"""Trackers of experiments, with stand-ins for their packages, which are not installed here."""

import json
import sys
from types import ModuleType, SimpleNamespace

import pytest

from dtmt_tf.commands import train
from dtmt_tf.errors import UserError
from dtmt_tf.training import TRACKERS, open_trackers

SETTINGS = {f"training.setting_{k}": k for k in range(250)} | {"training.deterministic": True}


@pytest.fixture
def packages(monkeypatch):
    """Stand-ins that note their calls: `[(name of the call, arguments)]`."""
    calls = []

    def note(name, answer=None):
        def call(*arguments, **named):
            calls.append((name, *arguments, named))
            return answer

        return call

    mlflow = ModuleType("mlflow")
    mlflow.start_run = note("start_run", SimpleNamespace(info=SimpleNamespace(run_id="m1")))
    for name in ("set_experiment", "log_params", "log_metrics", "end_run"):
        setattr(mlflow, name, note(name))
    wandb = ModuleType("wandb")
    run = SimpleNamespace(
        id="w1", log=note("log"), finish=note("finish"), define_metric=note("define_metric")
    )
    wandb.init = note("init", run)
    for module in (mlflow, wandb):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return calls


def test_mlflow_gets_a_run_of_the_tasks_experiment_and_goes_on_with_it(packages, tmp_path):
    memory = tmp_path / "trackers.json"
    (tracker,) = open_trackers(["mlflow", "mlflow"], "toy_ende", "mine", SETTINGS, memory)
    tracker.log(7, {"1 progress/loss": 2.5})
    tracker.close()
    assert packages[:2] == [
        ("set_experiment", "toy_ende", {}),
        ("start_run", {"run_id": None, "run_name": "mine"}),
    ]
    parts = [call[1] for call in packages if call[0] == "log_params"]
    assert [len(part) for part in parts] == [100, 100, 51]
    assert {name: value for part in parts for name, value in part.items()} == SETTINGS
    assert packages[-2:] == [
        ("log_metrics", {"1 progress/loss": 2.5}, {"step": 7}),
        ("end_run", {}),
    ]
    assert json.loads(memory.read_text()) == {"mlflow": "m1"}
    packages.clear()
    open_trackers(["mlflow"], "toy_ende", "mine", {"training.seed": 2}, memory)
    assert packages == [
        ("set_experiment", "toy_ende", {}),
        ("start_run", {"run_id": "m1", "run_name": "mine"}),
    ]


def test_wandb_gets_a_run_of_the_tasks_project_and_goes_on_with_it(packages, tmp_path):
    memory = tmp_path / "trackers.json"
    memory.write_text('{"mlflow": "m0"}')
    settings = {"training.seed": 1}
    for kept in (None, "w1"):
        (tracker,) = open_trackers(["wandb"], "toy_ende", "mine", settings, memory)
        tracker.log(7, {"loss": 2.5})
        tracker.close()
        named = {"project": "toy_ende", "name": "mine", "config": settings}
        assert packages == [
            ("init", {**named, "id": kept, "resume": "allow"}),
            ("define_metric", "update", {}),  # W&B drops what goes back by its own step
            ("define_metric", "*", {"step_metric": "update"}),
            ("log", {"loss": 2.5, "update": 7}, {}),
            ("finish", {}),
        ]
        packages.clear()
        assert json.loads(memory.read_text()) == {"mlflow": "m0", "wandb": "w1"}


def test_without_trackers_nothing_is_imported_or_written(packages, tmp_path):
    assert open_trackers([], "toy_ende", "mine", SETTINGS, tmp_path / "trackers.json") == []
    assert packages == [] and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", TRACKERS)
def test_a_package_that_is_not_installed_is_named(monkeypatch, tmp_path, name):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UserError, match=f"--track {name} needs .* pip install {name}"):
        open_trackers([name], "toy_ende", "mine", {}, tmp_path / "trackers.json")


def test_a_tracker_that_does_not_begin_is_told_before_training(packages, monkeypatch, tmp_path):
    def fail(**_):
        raise RuntimeError("no key is set")

    monkeypatch.setattr(sys.modules["wandb"], "init", fail)
    memory = tmp_path / "trackers.json"
    with pytest.raises(UserError, match="--track wandb does not begin: no key is set"):
        open_trackers(["mlflow", "wandb"], "t", "m", {}, memory)
    assert packages[-1] == ("end_run", {})
    assert json.loads(memory.read_text()) == {"mlflow": "m1"}  # the next session goes on with it


@pytest.mark.parametrize("content", ["{", "[1]", "5", "\udcff"])
def test_a_damaged_memory_is_named(packages, tmp_path, content):
    (tmp_path / "trackers.json").write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(UserError, match="trackers.json is damaged .*Remove it: then"):
        open_trackers(["mlflow"], "t", "m", {}, tmp_path / "trackers.json")
    assert packages == []


def test_the_command_offers_every_tracker(capsys):
    with pytest.raises(SystemExit):
        train.command(["--track", "paper"])
    said = capsys.readouterr().err.replace("'", "")  # not all versions of argparse quote choices
    assert f"(choose from {', '.join(TRACKERS)})" in said
