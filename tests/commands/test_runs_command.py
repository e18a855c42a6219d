"""What `dtmt runs` tells of the runs that there are."""

import json
import shutil

import pytest

from dtmt_tf.commands import runs
from dtmt_tf.errors import UserError
from dtmt_tf.files import write_json
from dtmt_tf.folders import claimed
from tests.end_to_end.test_older_artifacts import unpack


@pytest.fixture
def folder(tmp_path):
    """A folder with a run that version 0.1 was stopped in."""
    unpack("run-0.1", tmp_path)
    return tmp_path


@pytest.fixture
def listed(folder, capsys):
    """Lists the runs of the folder, with options."""

    def call(*options):
        assert runs.command(["--output-dir", str(folder), *options]) == 0
        return capsys.readouterr().out.splitlines()

    return call


def as_json(lines):
    return {row["name"]: row for row in map(json.loads, lines)}


def test_a_run_that_was_stopped_is_told_with_its_updates_and_its_best_validation(listed):
    assert [line.split() for line in listed()] == [
        ["custom"],
        ["run", "model", "updates", "valid.", "test", "version", "state"],
        ["older", "dtmt_tiny", "331", "of", "600", "18.06", "14.62", "stopped"],
    ]
    assert f"{as_json(listed('--json'))['older']['best_validation']:.2f}" == "18.06"


def test_scores_and_exported_versions_are_told(folder, listed):
    older = folder / "custom" / "older"
    write_json(
        older / "train" / "scores.json", {"test": {"bleu": 12.345}, "news": {"bleu": 6}, "odd": {}}
    )
    for name in ("9", "10", "refused-11"):
        (older / name).mkdir()
    assert listed()[-1].split()[-3:] == ["12.35", "10", "stopped"]
    found = as_json(listed("--json"))["older"]
    assert found["test"] == {"test": 12.345, "news": 6} and found["versions"] == [9, 10]


def test_states_of_runs(folder, listed):
    """A run whose updates are all made; one without an update; an ensemble; a damaged one."""
    custom = folder / "custom"
    record = json.loads((custom / "older" / "train" / "experiment.json").read_text())
    for name in ("whole", "unscored", "new", "united", "broken"):
        shutil.copytree(custom / "older", custom / name)
        if name in ("new", "united"):
            shutil.rmtree(custom / name / "train" / "checkpoints")
    for name, updates in (("unscored", 331), ("whole", 330)):  # the last validation was of 330
        record["settings"]["training"]["max_steps"] = updates
        write_json(custom / name / "train" / "experiment.json", record)
    write_json(
        custom / "united" / "train" / "experiment.json", {**record, "members": ["older", "whole"]}
    )
    (custom / "broken" / "train" / "experiment.json").write_text("{")
    shutil.copytree(custom / "older", folder / "cldr_ende" / "elsewhere")
    found = as_json(listed("--json"))
    assert {name: row["state"] for name, row in found.items()} == {
        **{"broken": "damaged", "elsewhere": "stopped", "new": "new", "older": "stopped"},
        **{"united": "ensemble", "whole": "trained", "unscored": "stopped"},
    }
    assert found["united"]["updates"] == 662 and found["whole"]["updates"] == 331
    assert not {*as_json(listed("--json", "--task", "cldr_ende"))} - {"elsewhere"}
    assert "experiment.json is damaged" in listed("--task", "custom")[-1]


def test_a_run_that_a_process_has_is_running(folder, listed):
    with claimed(folder / "custom" / "older"):
        assert as_json(listed("--json"))["older"]["state"] == "running"
        assert listed()[-1].split()[2:5] == ["331", "of", "600"]
    assert as_json(listed("--json"))["older"]["state"] == "stopped"
    (folder / "custom" / "older" / "train").rename(folder / "custom" / "older" / ".former")
    unpack("run-0.1", folder / "again")  # what `--restart` wrote, before its first checkpoint
    begun = folder / "custom" / "older" / "train" / "experiment.json"
    begun.parent.mkdir()
    begun.write_text(
        (folder / "again" / "custom" / "older" / begun.relative_to(begun.parents[1])).read_text()
    )
    assert as_json(listed("--json"))["older"]["state"] == "damaged"
    with claimed(folder / "custom" / "older"):
        assert as_json(listed("--json"))["older"]["state"] == "running"


def test_a_folder_without_runs_is_told(tmp_path):
    with pytest.raises(UserError, match="holds no run of custom. dtmt train makes one"):
        runs.command(["--output-dir", str(tmp_path), "--task", "custom"])
    with pytest.raises(UserError, match="Unknown task 'costum'"):
        runs.command(["--output-dir", str(tmp_path), "--task", "costum"])
