"""Which scores count after a change that was allowed."""

import dataclasses

import pytest

from dtmt_tf.training import Limits
from tests.training.toy_trainer import TRAINING, make_trainer

pytestmark = pytest.mark.usefixtures("without_graphs")


CHANGES = "conditions.validation", "evaluation.tokenize", "data.target_language", "data.max_length"


@pytest.mark.parametrize("change", CHANGES)
def test_scores_of_another_kind_count_neither_as_best_nor_for_patience(tmp_path, change):
    training = dataclasses.replace(TRAINING, validation_steps=1, max_steps=6, patience=3)
    first = make_trainer(tmp_path, training, scores=lambda: {"bleu": 90.0}, stop_after=3)
    first.run()
    steps = [entry["step"] for entry in first.history]
    assert len(steps) == 3
    rising = iter((1.0, 2.0, 3.0))
    limits = Limits(allow_changes=[change])
    second = make_trainer(tmp_path, training, scores=lambda: {"bleu": next(rising)}, limits=limits)
    section, _, name = change.partition(".")
    second.settings[section] = {**second.settings[section], name: "another"}
    assert second.restore() == 3
    assert second.run().step == 6
    assert [entry.get("bleu") for entry in second.history] == [None, None, None, 1.0, 2.0, 3.0]
    assert second.checkpoints.best(2, second.history) == [5, 6]
    assert second.checkpoints.best(9, second.history) == [4, 5, 6]


def test_the_clipping_norm_stays_where_scores_took_it(tmp_path):
    limits = Limits(allow_changes=["decoding.beam_size"])
    training = dataclasses.replace(
        TRAINING, validation_steps=1, max_steps=8, patience=0, clip_norm=1.0, clip_patience=1
    )
    first = make_trainer(tmp_path, training, scores=lambda: {"bleu": 90.0}, stop_after=3)
    first.run()
    assert first.training_step.clip_norm == 0.25
    for beam_size, done, clip_norm in ((7, 3, 0.125), (8, 5, 0.0625)):
        later = make_trainer(
            tmp_path, training, scores=lambda: {"bleu": 5.0}, limits=limits, stop_after=2
        )
        later.settings["decoding"] = {**later.settings["decoding"], "beam_size": beam_size}
        assert later.restore() == done and later.training_step.clip_norm == 2 * clip_norm
        later.run()
        assert later.training_step.clip_norm == clip_norm


def test_scores_of_another_kind_do_not_count_where_nothing_is_scored_any_more(tmp_path):
    training = dataclasses.replace(TRAINING, validation_steps=1, max_steps=6, patience=3)
    make_trainer(tmp_path, training, scores=lambda: {"bleu": 90.0}, stop_after=3).run()
    limits = Limits(allow_changes=["conditions.validation"])
    later = make_trainer(tmp_path, training, limits=limits)
    later.settings["conditions"] = {**later.settings["conditions"], "validation": "none"}
    assert later.restore() == 3
    assert later.run().step == 6
    assert later.checkpoints.best(2, later.history) == [5, 6]


@pytest.mark.parametrize("change", ["evaluation.exact_match", "decoding.batch_size"])
def test_scores_stay_where_what_changes_moves_none(tmp_path, change):
    training = dataclasses.replace(TRAINING, validation_steps=1, max_steps=6, patience=3)
    make_trainer(tmp_path, training, scores=lambda: {"bleu": 90.0}, stop_after=3).run()
    limits = Limits(allow_changes=[change])
    later = make_trainer(tmp_path, training, scores=lambda: {"bleu": 1.0}, limits=limits)
    section, _, name = change.partition(".")
    later.settings[section] = {**later.settings[section], name: "another"}
    later.restore()
    assert [entry["bleu"] for entry in later.history] == [90.0, 90.0, 90.0]
