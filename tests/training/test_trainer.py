"""The loop: bit-exact resume, signals, early stopping, refusals."""

import dataclasses
import errno
import math
import os
import shutil
import signal
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from dtmt_tf.errors import UserError
from dtmt_tf.training import (
    OUT_OF_TIME,
    Limits,
    Validation,
    stopping,
)
from dtmt_tf.training.stopping import Stop, clip_norm
from tests.training.toy_trainer import (
    DTMT,
    SHORT,
    TRAINING,
    Calls,
    graphless,
    make_trainer,
    weights_of,
)

pytestmark = pytest.mark.usefixtures("without_graphs")
RATES = [f"{name}_dropout_rate" for name in ("word", "embedding", "output", "candidate")]


@pytest.fixture(scope="module")
def after_one(tmp_path_factory):
    """Makes folders in which a training has made one update."""
    made = tmp_path_factory.mktemp("one")
    with graphless():
        make_trainer(made, SHORT).run()

    def copy(folder):
        return shutil.copytree(made, folder, dirs_exist_ok=True)

    return copy


def test_faults_of_translations_are_told_when_they_are_scored(tmp_path, capsys):
    trainer = make_trainer(tmp_path, SHORT, scores=dict)
    fault = "3 of 9 translations are empty"
    trainer.validator.validate = lambda: Validation({"bleu": 1.0}, [], [fault])
    trainer.run()
    assert f"bleu 1.00\n  warning     {fault}\n" in capsys.readouterr().err


@pytest.mark.graphs
def test_a_run_stopped_in_mid_epoch_goes_on_bit_for_bit(tmp_path):
    """Of a DTMT, with dropout: the losses of the next 20 updates are those of a whole run."""
    training = dataclasses.replace(TRAINING, max_steps=30, ema_decay=0.9)
    whole = make_trainer(tmp_path / "whole", training, model=DTMT)
    assert whole.run().exit_code == 0
    assert 10 % whole.plan.batches_per_epoch > 1  # in the middle of an epoch

    first = make_trainer(tmp_path / "parts", training, stop_after=10, model=DTMT)
    outcome = first.run()
    assert (outcome.step, outcome.exit_code) == (10, 128 + signal.SIGINT)
    second = make_trainer(tmp_path / "parts", training, model=DTMT)
    assert second.restore() == 10
    second.run()

    assert first.training_step.losses == whole.training_step.losses[:10]
    assert second.training_step.losses == whole.training_step.losses[10:]
    assert weights_of(second) == weights_of(whole)
    for own, other in zip(second.training_step.state, whole.training_step.state, strict=True):
        np.testing.assert_array_equal(own, other)


def test_each_dropout_is_on(tmp_path):
    losses = []
    for off in ({}, *({rate: 0.0} for rate in RATES)):
        training = dataclasses.replace(TRAINING, max_steps=1, **off)
        trainer = make_trainer(tmp_path / str(len(losses)), training)
        trainer.run()
        losses.append(trainer.training_step.losses[0])
    assert len(set(losses)) == 5


def test_a_validation_lost_to_a_crash_is_made_up_for(tmp_path):
    training = dataclasses.replace(TRAINING, max_steps=6, validation_steps=3)

    def crash():
        raise RuntimeError("in the middle of the validation")

    first = make_trainer(tmp_path / "crashed", training, scores=crash)
    with pytest.raises(RuntimeError):
        first.run()
    second = make_trainer(tmp_path / "crashed", training, scores=lambda: {"bleu": 1.0})
    assert second.restore() == 3
    second.run()
    whole = make_trainer(tmp_path / "whole", training, scores=lambda: {"bleu": 1.0})
    whole.run()
    assert [record["step"] for record in second.history] == [3, 6]
    assert second.history == whole.history
    assert weights_of(second) == weights_of(whole)
    assert second.training_step.losses == whole.training_step.losses[3:]


def test_another_corpus_or_division_is_refused(after_one, tmp_path):
    other = make_trainer(after_one(tmp_path), SHORT)
    other.settings["conditions"]["slices"] = 2
    with pytest.raises(UserError, match="conditions.slices: 1 -> 2\n.*Give the --devices that"):
        other.restore()
    assert other.settings["conditions"]["corpus"] == other.training_set.fingerprint
    two = make_trainer(tmp_path / "two", SHORT)
    two.settings["conditions"]["slices"] = 2
    two.run()
    with pytest.raises(
        UserError, match="reads 2 .*would read 1. --set training.accumulation_steps=2"
    ):
        make_trainer(tmp_path / "two", SHORT).restore()


def test_another_validation_text_is_refused_unless_allowed(tmp_path):
    training = dataclasses.replace(SHORT, validation_steps=1)

    def trainer(*allowed):
        limits = Limits(allow_changes=allowed)
        return make_trainer(tmp_path, training, scores=lambda: {"bleu": 1.0}, limits=limits)

    earlier = trainer()
    del earlier.settings["conditions"]["validation"]  # as of a version that did not note it
    earlier.run()
    assert trainer().restore() == 1
    training = dataclasses.replace(training, max_steps=2)
    later = trainer("conditions.validation", "training.max_steps")
    later.settings["conditions"]["validation"] = "of another"
    assert later.restore() == 1
    assert [set(entry) for entry in later.history] == [{"step", "loss"}]
    later.save()
    with pytest.raises(UserError, match="of another -> of the split\nThe validation text has ch"):
        trainer().restore()


def test_changed_settings_are_refused_and_listed(after_one, tmp_path):
    changed = make_trainer(after_one(tmp_path), dataclasses.replace(SHORT, clip_norm=1.0))
    with pytest.raises(UserError, match=r"training.clip_norm: 5.0 -> 1.0"):
        changed.restore()


def test_a_checkpoint_of_an_earlier_version_goes_on_with_the_defaults(tmp_path):
    first = make_trainer(tmp_path, SHORT)
    del first.settings["training"]["r_drop_alpha"]  # which that version did not have
    first.run()
    assert make_trainer(tmp_path, SHORT).restore() == 1
    with pytest.raises(UserError, match=r"training.r_drop_alpha: 0.0 -> 5.0"):
        make_trainer(tmp_path, dataclasses.replace(SHORT, r_drop_alpha=5.0)).restore()


def test_a_checkpoint_of_another_model_is_named_with_the_way_out(tmp_path):
    make_trainer(tmp_path, SHORT).run()
    folder = make_trainer(tmp_path, SHORT).checkpoints
    kept = folder.newest()
    odd = dataclasses.replace(kept, weights={f"x{name}": w for name, w in kept.weights.items()})
    folder.save(odd)
    with pytest.raises(UserError, match=f"^{folder.folder}: .* another model: .* --restart"):
        make_trainer(tmp_path, SHORT).restore()


def test_training_ends_when_bleu_no_longer_rises(tmp_path, caplog):
    caplog.set_level("INFO")
    scores = iter([1.0, 5.0, 4.0, 5.0, 3.0, 9.0])
    training = dataclasses.replace(TRAINING, validation_steps=2, patience=3)
    trainer = make_trainer(tmp_path, training, scores=lambda: {"bleu": next(scores)})
    outcome = trainer.run()
    assert outcome.step == 10  # the fifth validation is the third without a better one
    assert [record["bleu"] for record in trainer.history] == [1.0, 5.0, 4.0, 5.0, 3.0]
    assert "No better BLEU in 3 validations" in caplog.text


def test_training_ends_when_cross_entropy_no_longer_falls(tmp_path, caplog):
    caplog.set_level("INFO")
    scores = iter([(1.0, 3.0), (2.0, 2.5), (3.0, 2.6), (4.0, 2.5), (5.0, 2.0)])
    training = dataclasses.replace(
        TRAINING, validation_steps=2, patience=2, stop_on="cross_entropy"
    )

    def score():
        return dict(zip(("bleu", "cross_entropy"), next(scores), strict=True))

    trainer = make_trainer(tmp_path, training, scores=score)
    assert trainer.run().step == 8  # the fourth is the second that is no better
    assert [entry["cross_entropy"] for entry in trainer.history] == [3.0, 2.5, 2.6, 2.5]
    assert "No better cross entropy in 2 validations" in caplog.text
    again = make_trainer(tmp_path, training, scores=score)
    again.restore()
    assert again.finished()


def test_the_clipping_norm_halves_while_the_score_stands_still_and_is_resumed(tmp_path):
    # better, better, then 2 no better: halved; 1 no better, a better one, 2 no better: halved
    scores = iter([1.0, 5.0, 4.0, 5.0, 3.0, 6.0, 6.0, 5.0, 5.0])
    training = dataclasses.replace(
        TRAINING, validation_steps=1, max_steps=9, patience=0, clip_norm=1.0, clip_patience=2
    )
    trainer = make_trainer(tmp_path, training, scores=lambda: {"bleu": next(scores)})
    trainer.run()
    assert trainer.training_step.clip_norm == 0.25
    again = make_trainer(tmp_path, training, scores=dict)
    again.restore()
    assert again.training_step.clip_norm == 0.25
    before = [clip_norm(training, trainer.history[:k]) for k in range(10)]
    assert before == [1, 1, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.25, 0.25]


def test_without_scores_the_clipping_norm_stays(tmp_path):
    training = dataclasses.replace(
        TRAINING, validation_steps=1, max_steps=5, patience=0, clip_norm=1.0, clip_patience=1
    )
    trainer = make_trainer(tmp_path, training)
    trainer.run()
    assert len(trainer.history) == 5 and trainer.training_step.clip_norm == 1.0


def test_another_optimizer_is_never_accepted(after_one, tmp_path):
    after_one(tmp_path)
    changed = dataclasses.replace(SHORT, optimizer="adadelta")
    for allowed in ([], ["training.optimizer"]):
        trainer = make_trainer(tmp_path, changed, limits=Limits(allow_changes=allowed))
        with pytest.raises(UserError, match="cannot change within a run.*--init-from and another"):
            trainer.restore()


def test_checkpoints_come_by_time_and_change_nothing(tmp_path):
    training = dataclasses.replace(TRAINING, max_steps=6, keep_last=1, validation_steps=4)
    whole = make_trainer(
        tmp_path / "none",
        dataclasses.replace(training, checkpoint_minutes=0),
        scores=lambda: {"bleu": 1.0},
    )
    whole.run()
    trainer = make_trainer(
        tmp_path / "often",
        dataclasses.replace(training, checkpoint_minutes=1e-9),
        scores=lambda: {"bleu": 1.0},
    )
    saved = []
    save = trainer.checkpoints.save
    trainer.checkpoints.save = lambda checkpoint: saved.append(checkpoint.step) or save(checkpoint)
    trainer.run()
    assert set(saved) == {1, 2, 3, 4, 5, 6}
    assert trainer.checkpoints.steps() == whole.checkpoints.steps() == [4, 6]
    assert weights_of(trainer) == weights_of(whole)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_each_signal_that_ends_a_process_saves_its_work(tmp_path, number, monkeypatch):
    trainer, (reader, end) = make_trainer(tmp_path, SHORT), os.pipe()
    os.close(reader)
    before = signal.getsignal(number)
    step = trainer.training_step.step

    def hung_up(*arguments):
        os.kill(os.getpid(), number)
        return step(*arguments)

    trainer.training_step.step = Calls(step, hung_up)
    with os.fdopen(end, "w") as log:
        monkeypatch.setattr("sys.stderr", log)
        outcome = trainer.run()
    assert (outcome.step, outcome.exit_code) == (1, 128 + number)
    assert trainer.checkpoints.steps() == [1]
    assert signal.getsignal(number) == before


@pytest.mark.parametrize(
    "error",
    [OSError(errno.ENOSPC, "No space left"), tf.errors.ResourceExhaustedError(None, None, "full")],
)
def test_where_tensorboard_can_not_write_training_goes_on(tmp_path, caplog, error, monkeypatch):
    trainer = make_trainer(
        tmp_path,
        dataclasses.replace(TRAINING, max_steps=3, log_steps=1, validation_steps=3),
        scores=lambda: {"bleu": 1.0},
    )
    calls = []

    def fail(*arguments, **_):
        calls.append(arguments)
        raise error

    monkeypatch.setattr(tf.summary, "scalar", fail)
    told = []
    tracker = SimpleNamespace(log=lambda step, _: told.append(step), close=lambda: None)
    trainer.summaries.trackers.append(tracker)
    outcome = trainer.run()
    assert (outcome.step, outcome.exit_code) == (3, 0)
    assert trainer.checkpoints.steps() == [3]
    assert len(calls) == 1 and told[:4] == [1, 2, 3, 3]
    assert caplog.text.count("Training goes on without them") == 1


def test_the_first_signal_is_answered_and_the_second_ends_at_once(capfd, monkeypatch):
    with Stop(math.inf) as stop:
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.requested() and "then all is saved" in capfd.readouterr().err
        for number in (signal.SIGTERM, signal.SIGHUP):  # as where a system goes down
            os.kill(os.getpid(), number)
        monkeypatch.setattr(stopping, "ONE_STOP_SECONDS", 0)
        os.kill(os.getpid(), signal.SIGHUP)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_what_nohup_ignores_stays_ignored():
    former = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Stop(math.inf) as stop:
            os.kill(os.getpid(), signal.SIGHUP)
        assert not stop.requested()
    finally:
        signal.signal(signal.SIGHUP, former)


def test_the_average_translates_and_is_what_checkpoints_hold(tmp_path):
    training = dataclasses.replace(TRAINING, ema_decay=0.2, max_steps=4, validation_steps=4)
    seen = []

    def score():
        seen.append(weights_of(trainer))
        return {"bleu": 1.0}

    trainer = make_trainer(tmp_path, training, scores=score)
    first = trainer.training_step.model.trainable_variables[0]
    weights = [first.numpy()]
    trainer.save = lambda: None
    step = trainer.training_step.step
    expected, t = weights[0].astype(float), 0

    def note(*arguments):
        nonlocal expected, t
        update = type(step).__call__(step, *arguments)
        t += 1
        kept = min(0.2, (1 + t) / (10 + t))  # the ramp is below 0.2 at the first update alone
        raw = first.numpy()
        expected = kept * expected + (1 - kept) * raw
        average = trainer.training_step.translating_weights
        np.testing.assert_allclose(average[first.path], expected, atol=1e-6)
        weights.append(raw)
        return update

    trainer.training_step.step = Calls(step, note)
    trainer.run()
    average = trainer.training_step.translating_weights
    assert seen == [b"".join(average[v.path].tobytes()
                             for v in trainer.training_step.model.trainable_variables)]  # fmt: skip
    np.testing.assert_array_equal(first.numpy(), weights[-1])  # training goes on with its own


@pytest.mark.parametrize(("seconds", "updates"), [(0, 1), (25, 4)])
def test_time_that_is_over_ends_it_with_a_checkpoint(tmp_path, monkeypatch, seconds, updates):
    trainer = make_trainer(tmp_path, limits=Limits(max_seconds=seconds))
    losses = trainer.training_step.losses
    clock = SimpleNamespace(monotonic=lambda: 1000 + 10 * len(losses))  # 10 s an update
    monkeypatch.setattr(stopping, "time", clock)
    outcome = trainer.run()
    assert (outcome.step, outcome.exit_code) == (updates, OUT_OF_TIME)
    assert trainer.checkpoints.steps()[-1] == updates


def test_changes_that_are_allowed_are_accepted(after_one, tmp_path):
    after_one(tmp_path)
    changed = dataclasses.replace(TRAINING, max_steps=2, clip_norm=1.0)
    one = Limits(allow_changes=["training.max_steps"])  # is asked for with the other
    for limits in Limits(), one:
        with pytest.raises(UserError, match="changes training.max_steps training.clip_norm"):
            make_trainer(tmp_path, changed, limits=limits).restore()
    limits = Limits(allow_changes=["training.max_steps", "training.clip_norm"])
    trainer = make_trainer(tmp_path, changed, limits=limits)
    assert trainer.restore() == 1
    assert trainer.run().step == 2
