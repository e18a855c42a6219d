"""Changes of a begun run that change nothing are refused, whatever `--allow-changes` says."""

import contextlib
import dataclasses

import pytest

from dtmt_tf.config import DataConfig
from dtmt_tf.errors import UserError
from dtmt_tf.training import Limits, changes
from tests.training.toy_trainer import TRAINING, make_trainer

pytestmark = pytest.mark.usefixtures("without_graphs")
LATE = [f"training.{each}" for each in ("seed", "max_steps", "keep_last", "accumulation_steps")]
LATE.append("conditions.slices")


def ended(folder, **settings):
    """Trains a run to its end; returns how to go on with it under other settings."""
    training = dataclasses.replace(TRAINING, validation_steps=1, **settings)
    falling = iter((50.0, 40.0, 30.0))
    make_trainer(folder, training, scores=lambda: {"bleu": next(falling)}).run()

    def again(beam=None, **changed):
        other = dataclasses.replace(training, **changed)
        limits = Limits(allow_changes=[*LATE, *(["decoding.beam_size"] if beam else [])])
        trainer = make_trainer(folder, other, scores=lambda: {"bleu": 1.0}, limits=limits)
        if beam:
            trainer.settings["decoding"] = {"beam_size": beam}
        return trainer

    return again


def test_an_ended_run_takes_no_change_of_its_training(tmp_path):
    again = ended(tmp_path, max_steps=2)
    with pytest.raises(UserError, match=r"(?s)has ended.*training.seed: \d+ -> 9\nLeave them out"):
        again(seed=9).restore()
    assert again(seed=9, max_steps=3).restore() == 2  # it goes on
    assert again(keep_last=2).restore() == 2  # of what is kept
    assert again(accumulation_steps=3).restore() == 2  # on other devices


def test_an_ended_run_learns_from_no_other_text(tmp_path):
    again = ended(tmp_path, max_steps=2)
    for section, name in (("conditions", "corpus"), ("data", "reverse"), ("model", "units")):
        for steps, raised in ((2, pytest.raises(UserError, match=f"{section}.{name}")), (3, None)):
            trainer = again(max_steps=steps)
            trainer.settings[section] = trainer.settings.get(section, {}) | {name: "other"}
            trainer.limits.allow_changes.append(f"{section}.{name}")
            with raised or contextlib.nullcontext():
                assert trainer.restore() == 2  # with more updates it reads the other
    trainer = again(max_steps=2)
    trainer.settings["data"] = {"train_source": "elsewhere/the_same.en"}
    trainer.limits.allow_changes.append("data.train_source")
    assert trainer.restore() == 2


def test_a_larger_number_of_updates_is_none_where_patience_ended_the_run(tmp_path):
    again = ended(tmp_path, max_steps=9, patience=2)
    with pytest.raises(UserError, match="training.patience=0"):
        again(max_steps=10).restore()
    trainer = again(max_steps=4, patience=0)
    trainer.settings["training"]["patience"] = 2  # as of --allow-changes
    assert trainer.restore() == 3 and trainer.run().step == 4


def test_an_ended_run_stays_ended_and_keeps_its_best_with_another_search(tmp_path):
    trainer = ended(tmp_path, max_steps=9, patience=2)(beam=8)
    assert trainer.restore() == 3 and trainer.finished()
    assert [entry["bleu"] for entry in trainer.history] == [50.0, 40.0, 30.0]
    assert trainer.checkpoints.best(1, trainer.history) == [1]


def test_a_run_that_a_change_ends_may_end(tmp_path):
    training = dataclasses.replace(TRAINING, max_steps=9, validation_steps=9)
    make_trainer(tmp_path, training, stop_after=3).run()
    shorter = dataclasses.replace(training, max_steps=3)
    limits = Limits(allow_changes=["training.max_steps"])
    trainer = make_trainer(tmp_path, shorter, limits=limits)
    assert trainer.restore() == 3 and trainer.finished()


def test_a_run_that_another_measure_ends_may_end(tmp_path):
    training = dataclasses.replace(
        TRAINING, max_steps=9, validation_steps=1, patience=2, stop_on="bleu"
    )
    rising = [{"bleu": 1.0 + k, "cross_entropy": 1.0 + k} for k in range(3)]
    make_trainer(tmp_path, training, scores=iter(rising).__next__, stop_after=3).run()
    other = dataclasses.replace(training, stop_on="cross_entropy")
    limits = Limits(allow_changes=["training.stop_on"])
    trainer = make_trainer(tmp_path, other, scores=lambda: {"bleu": 1.0}, limits=limits)
    assert trainer.restore() == 3 and trainer.finished()


def test_a_name_that_no_setting_has_is_refused(tmp_path):
    make_trainer(tmp_path, TRAINING).run()
    limits = Limits(allow_changes=["training.seed", "training.max_step"])
    with pytest.raises(UserError, match=r"'training.max_step'. Did you mean 'training.max_steps'"):
        make_trainer(tmp_path, TRAINING, limits=limits).restore()


def test_what_cuts_text_into_sub_words_never_changes(tmp_path):
    names = {field.name for field in dataclasses.fields(DataConfig)}
    cut = *changes.CUTTING, *changes.SIZES
    assert {*cut} < names and {name for name in names if "vocab_size" in name} < {*cut}
    for name in cut:
        with pytest.raises(UserError, match=f"data.{name} cannot change .*its sub-words are made"):
            changes.refuse_fixed({f"data.{name}": "a -> b"})
    changes.refuse_fixed({"data.max_length": "5 -> 6", "training.seed": "1 -> 2"})
