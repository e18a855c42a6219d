"""The time of a training is that of its updates alone, over all its sessions."""

import dataclasses
from types import SimpleNamespace

import pytest

from dtmt_tf.training import clock
from dtmt_tf.training import trainer as trainer_module
from tests.training.toy_trainer import TRAINING, Calls, make_trainer

pytestmark = pytest.mark.usefixtures("without_graphs")


def test_the_time_is_that_of_updates_in_all_sessions(tmp_path, monkeypatch):
    """Each update takes 3 s; validations, checkpoints and what comes before a session, more."""
    now, tokens = 0.0, 0
    monkeypatch.setattr(clock, "time", SimpleNamespace(perf_counter=lambda: now))
    training = dataclasses.replace(
        TRAINING, max_steps=5, validation_steps=2, checkpoint_minutes=1e-9
    )

    def later(seconds, function):
        def call(*arguments):
            nonlocal now
            now += seconds
            return function(*arguments)

        return call

    def count(update):
        nonlocal tokens
        tokens += int(update.tokens)
        return update

    def session(**options):
        scores = later(100, lambda: {"bleu": 1.0})
        trainer = make_trainer(tmp_path, training, scores=scores, **options)
        folder, step = trainer.checkpoints, trainer.training_step.step
        folder.save = later(50, folder.save)
        trainer.training_step.step = Calls(step, later(3, lambda *batch: count(step(*batch))))
        trainer.restore()
        trainer.run = later(1000, trainer.run)
        outcome = trainer.run()
        newest = folder.newest()
        assert (newest.seconds, newest.tokens) == (3 * outcome.step, tokens)
        return outcome

    assert session(stop_after=3).step == 3
    assert session().step == 5


def test_the_rate_is_a_running_mean(monkeypatch):
    instants = iter((0.0, 3.0, 6.0))
    monkeypatch.setattr(clock, "time", SimpleNamespace(perf_counter=lambda: next(instants)))
    watched = clock.Clock()
    watched.count(300)
    assert watched.rate == pytest.approx(100)
    watched.count(600)
    assert watched.rate == pytest.approx(0.9 * 100 + 0.1 * 200)


def test_checkpoints_by_time_are_minutes_apart(tmp_path, monkeypatch):
    now, saved = 0.0, []
    monkeypatch.setattr(trainer_module, "time", SimpleNamespace(monotonic=lambda: now))
    trainer = make_trainer(
        tmp_path, dataclasses.replace(TRAINING, max_steps=4, checkpoint_minutes=1)
    )
    step, save = trainer.training_step.step, trainer.checkpoints.save

    def update(*arguments):
        nonlocal now
        now += 25  # seconds
        return step(*arguments)

    def note(checkpoint):
        saved.append(checkpoint.step)
        return save(checkpoint)

    trainer.training_step.step, trainer.checkpoints.save = Calls(step, update), note
    trainer.run()
    assert {*saved} == {3, 4}  # the last is the end's
