"""What several workers agree on, one after the other in this process."""

import dataclasses
import math
import os
import signal

import pytest

from dtmt_tf.training import Limits, trainer
from dtmt_tf.training.stopping import Stop
from tests.training.toy_trainer import TRAINING, Calls, make_trainer

pytestmark = pytest.mark.usefixtures("without_graphs")


def test_workers_that_are_told_to_stop_agree_on_the_update(tmp_path):
    told = make_trainer(tmp_path / "told")
    step = told.training_step.step

    def terminated(*arguments):
        update = step(*arguments)
        if int(step.optimizer.iterations.numpy()) == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        return update

    told.training_step.step = Calls(step, terminated)
    told.training_step.alone = False  # as with another worker, which the third update tells
    outcome = told.run()
    assert (outcome.step, outcome.exit_code) == (3, 128 + signal.SIGTERM)
    assert told.checkpoints.steps()[-1] == 3

    other = make_trainer(tmp_path / "other")
    own = other.training_step.step

    def heard(*arguments):
        *batch, factor, _ = arguments
        return own(*batch, factor, int(own.optimizer.iterations.numpy()) == 2)

    other.training_step.step = Calls(own, heard)
    other.training_step.alone = False
    outcome = other.run()
    assert (outcome.step, outcome.exit_code) == (3, 128 + signal.SIGTERM)
    assert other.checkpoints.steps()[-1] == 3


@pytest.mark.parametrize(
    ("codes", "code"), [(124, 124), (2 * 124, 124), (143, 143), (124 + 143, 143), (130, 143)]
)
def test_a_worker_ends_for_the_reason_of_the_others(codes, code):
    with Stop(math.inf) as stop:
        stop.told(0)
        assert not stop.exit_code
        stop.told(codes)
        assert stop.requested() == code


def test_a_time_that_is_over_is_what_a_worker_tells_the_others(tmp_path):
    late = make_trainer(tmp_path, limits=Limits(max_seconds=0))
    late.training_step.alone = False
    told, step = [], late.training_step.step
    late.training_step.step = Calls(step, lambda *given: told.append(given[-1]) or step(*given))
    outcome = late.run()
    assert (outcome.step, outcome.exit_code, told) == (2, 124, [0, 124])


def test_workers_stop_and_clip_by_the_scores_of_the_chief(tmp_path, monkeypatch):
    training = dataclasses.replace(
        TRAINING, validation_steps=1, max_steps=9, patience=3, clip_norm=1.0, clip_patience=2
    )
    told = []
    monkeypatch.setattr(trainer, "of_chief", lambda _, own: told.append(own) or own)
    workers = []
    for name, rise in (("chief", 0.0), ("other", 0.01)):  # whose score never stands still
        scores = iter([{"bleu": 40.0 + k * rise} for k in range(9)])
        workers.append(make_trainer(tmp_path / name, training, scores=lambda s=scores: next(s)))
        workers[-1].training_step.alone = False
        workers[-1].run()
        monkeypatch.setattr(trainer, "of_chief", lambda *_: told.pop(0))
    chief, other = workers
    assert chief.history == other.history and len(chief.history) == 4
    assert chief.training_step.clip_norm == other.training_step.clip_norm == 0.5
