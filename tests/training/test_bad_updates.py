"""Updates whose loss or gradient is not finite."""

import dataclasses
import json
import re
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from tqdm import tqdm

from dtmt_tf.errors import UserError
from dtmt_tf.training import Limits, TrainingStep
from dtmt_tf.training import trainer as trainer_module
from dtmt_tf.training.diagnosis import first_non_finite
from tests.training.toy_trainer import DTMT, TRAINING, Calls, make_trainer

pytestmark = pytest.mark.usefixtures("without_graphs")


@pytest.fixture
def undiagnosed(monkeypatch):
    """Bad updates are not computed again: that is tested alone, and slow."""
    monkeypatch.setattr(trainer_module, "first_non_finite", lambda *_: "stub")


def spoil(trainer, steps):
    """Makes the forward pass infinite at some updates."""
    table = trainer.training_step.model.trainable_variables[0]
    step, sound = trainer.training_step.step, table.numpy()

    def call(*arguments):
        at = int(step.optimizer.iterations.numpy())
        if at not in steps:
            return step(*arguments)
        former = table.numpy()
        table.assign(np.full_like(sound, np.inf))
        update = step(*arguments)
        table.assign(former)
        return update

    trainer.training_step.step = Calls(step, call)


def test_an_update_that_is_not_finite_is_left_out_and_noted(tmp_path, undiagnosed):
    training = dataclasses.replace(TRAINING, max_steps=4, ema_decay=0.9)
    trainer = make_trainer(tmp_path, training)
    spoil(trainer, {1})
    kept = []
    step = trainer.training_step.step.call

    def note(*arguments):
        kept.append([v.numpy() for v in state_of(trainer)])
        return step(*arguments)

    trainer.training_step.step.call = note
    assert trainer.run().step == 4
    assert int(trainer.training_step.optimizer.iterations.numpy()) == 4
    for before, after in zip(kept[1], kept[2], strict=True):  # around the second update
        np.testing.assert_array_equal(after, before)
    assert any((a != b).any() for a, b in zip(kept[2], kept[3], strict=True))
    record = json.loads((tmp_path / "bad-step-00000002.json").read_text())
    batch = next(iter(trainer.training_set.batches(trainer.plan, 1, 2).as_numpy_iterator()))
    assert record["pairs"] == [list(map(list, pair)) for pair in trainer.validator.texts(*batch)]
    assert record["step"] == 2
    assert record["loss"] == "nan"
    assert record["first_non_finite"] == "stub"


def test_a_note_that_can_not_be_written_ends_no_training(
    tmp_path, monkeypatch, undiagnosed, caplog
):
    def fail(path, _):
        raise PermissionError(path)

    trainer = make_trainer(tmp_path, dataclasses.replace(TRAINING, max_steps=4))
    spoil(trainer, {1})
    monkeypatch.setattr("dtmt_tf.training.trainer.write_json", fail)
    assert trainer.run().step == 4
    assert "bad-step-00000002.json could not be written" in caplog.text


def test_each_worker_notes_its_own_bad_pairs(tmp_path, monkeypatch, undiagnosed):
    trainer = make_trainer(tmp_path)
    batch = next(iter(trainer.training_set.batches(trainer.plan, 0, 1).as_numpy_iterator()))
    monkeypatch.setattr(TrainingStep, "alone", False)
    monkeypatch.setattr("dtmt_tf.training.trainer.worker_number", lambda strategy: 1)
    trainer.summaries = None  # as of all workers but the chief
    with tqdm(disable=True) as bar:
        assert not trainer._goes_back(bar, batch)
    record = json.loads((tmp_path / "bad-step-00000000-worker-1.json").read_text())
    assert len(record["pairs"]) == len(batch.source_ids)
    assert record["first_non_finite"] == "stub"


@pytest.mark.parametrize("stops", [False, True])
@pytest.mark.parametrize("saved_by", ["time", "validation"])
def test_it_goes_back_to_before_the_first_bad_update_whatever_was_saved_since(
    tmp_path, undiagnosed, saved_by, stops
):
    often = {"checkpoint_minutes": 1e-9} if saved_by == "time" else {"validation_steps": 1}
    training = dataclasses.replace(
        TRAINING, max_steps=6, max_bad_steps=3, keep_last=1, keep_best=1, **often
    )
    trainer = make_trainer(tmp_path, training, stop_after=4 if stops else None)
    spoil(trainer, {2, 3, 4})  # the first time
    if stops:
        assert trainer.run().step == 4
        assert (trainer.checkpoints.steps(), trainer.bad_steps) == ([2, 4], 2)
        trainer = make_trainer(tmp_path, training)
        assert trainer.restore() == 4
        spoil(trainer, {4})
    went_back_to = []
    go_back = trainer._take_over

    def note(checkpoint, history):
        went_back_to.append(checkpoint.step)
        go_back(checkpoint, history)
        trainer.training_step.step = trainer.training_step.step.target  # all are sound again
        assert trainer.checkpoints.steps()[0] == 2

    trainer._take_over = note
    assert trainer.run().step == 6
    assert went_back_to == [2] and trainer.rate_factor == 0.5
    assert trainer.checkpoints.newest().bad_steps == 0


def state_of(trainer):
    """Everything that an update changes but its count."""
    optimizer = trainer.training_step.optimizer
    moments = [v for v in optimizer.variables if len(v.shape)]
    return [*trainer.training_step.model.trainable_variables, *moments, *optimizer.averages]


@pytest.mark.graphs
def test_the_first_tensor_that_is_not_finite_is_named(tmp_path):
    trainer = make_trainer(tmp_path, model=DTMT)
    batch = next(iter(trainer.training_set.batches(trainer.plan, 0, 1).as_numpy_iterator()))
    bias = trainer.training_step.model.readout.logits.bias
    bias.assign([3e38] + 19 * [-3e38])  # finite; their differences are not
    found = first_non_finite(trainer.training_step, *batch, 0)
    assert re.fullmatch(
        r'Infinity or NaN in output 0 of graph op "\w+", made at \S*dtmt_tf/training/loss.py .*',
        found,
    ), found
    bias.assign(tf.fill(bias.shape, np.nan))
    assert first_non_finite(trainer.training_step, *batch, 0) == f"the weight {bias.path}"


def test_every_slice_is_computed_again():
    calls = []
    step = SimpleNamespace(
        model=SimpleNamespace(trainable_variables=[]), weights=[], first_slice=4, own_slices=3
    )
    step.slice_sums = lambda *given: calls.append(given) or tf.constant(0.0)
    found = first_non_finite(step, "source", "target", 7)
    assert found.startswith("the gradient's norm, or a sum")
    assert [(*ids, int(k), int(at)) for *ids, k, at, _ in calls] == [
        ("source", "target", k, 7) for k in (4, 5, 6)
    ]


def test_after_some_bad_updates_it_goes_back_at_half_the_rate_then_stops(tmp_path, undiagnosed):
    training = dataclasses.replace(TRAINING, max_steps=12, validation_steps=4, max_bad_steps=2)
    trainer = make_trainer(tmp_path, training)
    bad = {6, 7}
    spoil(trainer, bad)
    rates = {}
    step = trainer.training_step.step.call

    def note(*arguments):
        at = int(trainer.training_step.optimizer.iterations.numpy())
        update = step(*arguments)
        rates.setdefault(at, []).append(float(update.learning_rate))
        if at == 7 and len(rates[7]) == 1:
            bad.clear()
        if at == 9:
            bad.update({9, 10, 11})
        return update

    trainer.training_step.step.call = note
    with pytest.raises(UserError, match="the rate was halved before"):
        trainer.run()
    assert rates[4][1] == rates[4][0] / 2  # went back to the checkpoint of update 4
    assert len(rates[6]) == len(rates[7]) == 2
    assert trainer.step == 12
    again = make_trainer(tmp_path, training)
    assert again.restore() == 8
    assert again.rate_factor == 0.5


def test_bad_updates_count_in_a_row_alone(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(trainer_module, "first_non_finite", lambda *each: seen.append(each[-1]))
    training = dataclasses.replace(TRAINING, max_steps=6, max_bad_steps=2)
    trainer = make_trainer(tmp_path, training)
    spoil(trainer, {1, 3, 5})
    assert trainer.run().step == 6 and trainer.rate_factor == 1 and trainer.bad_steps == 1
    assert seen == [1, 3, 5]  # each is computed again with its own dropout masks


def test_it_goes_back_with_a_lower_rate_that_is_saved_and_without_scores_that_no_longer_count(
    tmp_path, undiagnosed
):
    training = dataclasses.replace(TRAINING, max_steps=6, validation_steps=2, max_bad_steps=2)
    shown = {"bleu": 9.0}
    make_trainer(tmp_path, training, stop_after=4, scores=lambda: shown).run()
    limits = Limits(allow_changes=["evaluation.lowercase"])
    trainer = make_trainer(tmp_path, training, scores=lambda: shown, limits=limits)
    trainer.settings = {**trainer.settings, "evaluation": {"lowercase": True}}
    trainer.defaults = {**trainer.defaults, "evaluation": {"lowercase": False}}
    assert trainer.restore() == 4
    spoil(trainer, {4, 5})
    go_back = trainer._take_over

    def killed(*_):
        raise KeyboardInterrupt

    def note(*arguments):
        go_back(*arguments)
        trainer.training_step.step.call = killed

    trainer._take_over = note
    with pytest.raises(KeyboardInterrupt):
        trainer.run()
    found = trainer.checkpoints.newest()
    assert (found.step, found.rate_factor) == (4, 0.5)
    assert [sorted(entry) for entry in found.history] == [["loss", "step"]] * 2
