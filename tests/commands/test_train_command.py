"""What `dtmt train` tells before it begins."""

from types import SimpleNamespace

import pytest

from dtmt_tf import runs
from dtmt_tf.commands import train
from dtmt_tf.config import TrainingConfig
from dtmt_tf.errors import UserError
from dtmt_tf.experiment import resolve, to_dict
from dtmt_tf.models import MODELS
from dtmt_tf.tasks import TASKS


@pytest.mark.parametrize(
    ("task", "model", "told"),
    [
        ("wmt14_ende", "transformer_big", "--task wmt14_ende_big trains transformer_big as its"),
        ("wmt14_enfr", "transformer_big", "--task wmt14_enfr were chosen for dtmt4; transformer_b"),
        ("multi30k_ende", "rnn_bideep2x2", "--task multi30k_ende were chosen for dtmt_tied; rnn_"),
        ("wmt14_ende_base", "transformer_base_biarn", ""),
        ("multi30k_ende", "dtmt_small4", ""),
        ("custom", "transformer_tiny", "of text of one's own are chosen for dtmt_small; transfor"),
        ("custom", "dtmt_tiny", ""),
    ],
)
def test_a_model_of_another_kind_than_the_task_s_is_told_of(caplog, task, model, told):
    settings = SimpleNamespace(task=task, model_name=model, model=MODELS[model])
    train._tell_of_another_model(settings)
    assert told in caplog.text and bool(told) == bool(caplog.text)


@pytest.mark.parametrize(
    ("model", "name", "told"),
    [
        ("rnn_baseline", "model.high_cell", "high_cell changes nothing: no level stands above"),
        ("rnn_bideep2x2", "model.high_cell", ""),
        ("dtmt1", "training.adadelta_rho", "rho changes nothing: schedule dtmt and optimizer adam"),
        ("dtmt1", "training.average_count", ""),  # which averages
    ],
)
def test_a_given_setting_that_nothing_reads_is_told_of(caplog, model, name, told):
    settings = SimpleNamespace(model=MODELS[model], training=TrainingConfig())
    train._tell_of_unread(settings, {name: "--set", "model.high_transition": "preset"})
    assert told in caplog.text and bool(told) == bool(caplog.text)


@pytest.mark.parametrize(
    ("optimizer", "schedule", "rate", "told"),
    [
        ("adadelta", "peak", 1.0, "adadelta: the rate is 1.0e-03 at most, a factor of Adadelta's"),
        ("adadelta", "constant", 1.0, ""),
        ("adam", "constant", 1.0, "adam: the rate is 1.0e+00 at most: Adam moves each weight"),
        ("adam", "constant", 2e-3, ""),
        ("adam", "dtmt", 2e-3, ""),
    ],
)
def test_a_rate_that_was_meant_for_another_optimiser_is_told_of(
    caplog, optimizer, schedule, rate, told
):
    training = TrainingConfig(
        optimizer=optimizer, schedule=schedule, learning_rate=rate, peak_learning_rate=1e-3
    )
    train._tell_of_rate(training)
    assert told in caplog.text and bool(told) == bool(caplog.text)


def test_what_became_of_a_run_is_written_though_its_export_is_refused(capsys, monkeypatch):
    def refuse(run, older):
        assert older  # nothing is exported again that an older version is
        raise UserError("Not published")

    run = SimpleNamespace(experiment=SimpleNamespace(data=None), scored_splits=[])
    monkeypatch.setattr(train.report, "write_report", lambda run: "report.html")
    monkeypatch.setattr(runs, "publish", refuse)
    with pytest.raises(UserError, match="Not published"):
        train.finish(run, 0.0)
    assert capsys.readouterr().out == "\nWhat became of it: report.html\n"


@pytest.mark.parametrize("same", [True, False])
def test_a_restart_that_did_not_begin_names_a_command_that_works(capsys, caplog, same):
    """Its own, with the settings of now, would go on with the run only if that has these."""
    task = TASKS["cldr_ende"]
    experiment, _ = resolve(task, task.model, MODELS[task.model])
    before = to_dict(experiment if same else resolve(task, "dtmt1", MODELS["dtmt1"])[0])
    run = SimpleNamespace(experiment=experiment, former_settings=lambda: {"settings": before})
    train._tell_of_former(run)
    assert ("To go on with them:" in capsys.readouterr().err) == same
    assert ("the command that began it goes on with it" in caplog.text) != same
