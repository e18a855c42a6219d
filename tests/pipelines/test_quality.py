"""The nightly guard: which records it takes for published, and what it lets pass."""

import argparse
import dataclasses
import json
import sys
import types

import pytest

import dtmt_tf.runs
from dtmt_tf.commands import common
from dtmt_tf.errors import UserError
from pipelines.papers import quality, records

ONE = ("--devices", "CPU:0")  # there are four


def settings(*overrides, task="multi30k_ende_tok", model=None):
    names = argparse.Namespace(task=task, model=model, set=list(overrides))
    return common.experiment(names)[0]


def record(experiment, bleu):
    seed, hash_ = experiment.training.seed, records.settings_hash(experiment)
    scores = {"validation": {"bleu": 1.0}, "test": {"bleu": bleu}}
    return {"seed": seed, "settings_hash": hash_, "part": "test", "scores": scores, "members": [],
            "batches_an_update": 1}  # fmt: skip


@pytest.fixture
def night(tmp_path, monkeypatch):
    """Calls the command over three published runs, with a training that ends at a given score."""
    done = []
    for seed, bleu in ((1, 39.0), (2, 40.0), (3, 41.0)):
        published = record(settings(f"training.seed={seed}"), bleu)
        (tmp_path / f"{seed}.json").write_text(json.dumps(published))
    other = record(settings("model.encoder_depth=2"), 90.0) | {"batches_an_update": 2}
    (tmp_path / "other.json").write_text(json.dumps(other))

    def call(*arguments, bleu=0.0, exit_code=0):
        class Run:
            scored_splits = ("test", "newstest2013")

            def __init__(self, experiment, folder, *_):
                done.append((experiment, folder))

        def evaluate(run, split):
            done.append(split)
            return types.SimpleNamespace(bleu=bleu)

        class Session:
            def __init__(self, run, strategy):
                assert isinstance(run, Run)
                done.append(strategy.extended.worker_devices)

            def train(self, restart):
                done.append("train from scratch" if restart else "train")
                return types.SimpleNamespace(exit_code=exit_code)

        monkeypatch.setattr(dtmt_tf.runs, "Run", Run)
        monkeypatch.setattr(dtmt_tf.runs, "Session", Session)
        monkeypatch.setattr(dtmt_tf.runs, "evaluate", evaluate)
        monkeypatch.setattr(quality.startup, "start_tensorflow", lambda devices: None)  # it runs
        places = ["--records", str(tmp_path), "--output-dir", str(tmp_path / "runs")]
        monkeypatch.setattr(sys, "argv", ["quality.py", *places, *arguments])
        done.clear()
        return quality.command()

    call.folder, call.done = tmp_path, done
    return call


@pytest.mark.parametrize(
    ("bleu", "arguments", "code"),
    [
        (39.01, [], 0),
        (38.99, [], 1),
        (45.0, [], 0),
        (39.51, ["--margin", "0.5"], 0),
        (39.49, ["--margin", "0.5"], 1),
    ],
)
def test_a_score_below_the_mean_less_the_margin_fails(night, capsys, bleu, arguments, code):
    assert night(*ONE, *arguments, bleu=bleu) == code
    line = capsys.readouterr().out
    assert f"BLEU {bleu:.2f}, published mean 40.00 of 3 runs" in line
    assert ("FAILED" in line) == bool(code)


def test_the_recommended_settings_are_trained_from_scratch_under_a_name_of_their_own(night):
    night(*ONE, bleu=40.0)
    (experiment, folder), devices, *steps = night.done
    assert len(devices) == 1
    assert experiment == settings()
    assert experiment.training.seed == 1
    assert folder == night.folder / "runs" / "multi30k_ende_tok" / "quality"
    assert steps == ["train from scratch", "test"]


def test_records_of_changed_settings_are_the_measure_of_those(night):
    changed = ["--devices", "CPU:0", "CPU:1", "--set", "model.encoder_depth=2"]
    assert night(*changed, bleu=89.1) == 0
    assert night(*changed, bleu=88.9) == 1
    (experiment, _), devices, *_ = night.done
    assert experiment.model.encoder_depth == 2
    assert [name.rpartition("/")[2] for name in devices] == ["device:CPU:0", "device:CPU:1"]


def test_a_stopped_training_is_not_judged(night, capsys):
    assert night(*ONE, bleu=40.0, exit_code=130) == 130
    assert "test" not in night.done and "begins anew" in capsys.readouterr().err


def test_without_a_published_mean_nothing_is_trained(night):
    with pytest.raises(UserError, match="no published mean.* multi30k_ende"):
        night(*ONE, "--task", "multi30k_ende", bleu=40.0)
    with pytest.raises(UserError, match="updates of 4 batches"):  # the records' are of one
        night(bleu=40.0)
    accumulated = ("--set", "training.accumulation_steps=2", "model.encoder_depth=2")
    with pytest.raises(UserError, match="updates of 2 batches"):
        night(*ONE, *accumulated, bleu=90.0)
    assert night.done == []


def test_records_of_other_settings_tasks_and_architectures_do_not_count():
    wanted = settings()
    others = [
        settings("training.max_steps=100"),
        settings(task="multi30k_ende"),
        settings(model="transformer_tiny"),
        dataclasses.replace(wanted, decoding=dataclasses.replace(wanted.decoding, beam_size=5)),
    ]
    found = [record(settings("training.seed=2"), 40.0), *(record(other, 90.0) for other in others)]
    found.append(record(wanted, 90.0) | {"members": ["a", "b"]})
    found.append(record(wanted, 90.0) | {"batches_an_update": 2})
    found.append(record(wanted, 90.0) | {"init_from": "custom/a"})
    on_a_base = record(wanted, 90.0)  # as older records tell it
    on_a_base["series"] = {**on_a_base.get("series", {}), "begin_with": "base"}
    found.append(on_a_base)
    assert quality.published_bleu(found, wanted, 1) == [40.0]
    assert quality.published_bleu([*found, record(wanted, 38.0)], wanted, 1) == [40.0, 38.0]
    assert quality.published_bleu([*found, found[0]], wanted, 1) == [40.0]  # of the same seed
