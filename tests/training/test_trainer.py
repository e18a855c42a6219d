"""The loop: bit-exact resume, signals, early stopping, refusals."""

import dataclasses
import os
import signal

import numpy as np
import pytest
import tensorflow as tf

from dtmt_tf.config import TrainingConfig, UserError
from dtmt_tf.data.pipeline import TrainingSet
from dtmt_tf.models import DTMTConfig
from dtmt_tf.training import CheckpointFolder, Summaries, Trainer, TrainingStep

TRAINING = TrainingConfig(  # every dropout on
    max_steps=30,
    learning_rate=1e-3,
    schedule_replicas=1,
    validation_steps=100,
    log_steps=10,
    patience=0,
    embedding_dropout_rate=0.2,
    output_dropout_rate=0.2,
    candidate_dropout_rate=0.2,
)
MODEL = DTMTConfig(16, 16, 4, encoder_depth=1, query_depth=1, decoder_depth=1)


def encode(texts):
    ids = tf.cast(tf.io.decode_raw(texts, tf.uint8), tf.int32) - 94  # letters to 3, 4, ..
    ids = tf.RaggedTensor.from_tensor(ids, padding=2)
    return tf.concat([ids, tf.fill([ids.nrows(), 1], 1)], axis=1)


def lines(seed):
    rng = np.random.default_rng(seed)
    return ["".join(rng.choice(list("abcdefgh"), rng.integers(4, 13))).ljust(12, "`")
            for _ in range(50)]  # fmt: skip


class Recorder:
    """A training step that notes its losses, and sends a signal after some of them."""

    def __init__(self, step, stop_after=None):
        self.step, self.stop_after, self.losses = step, stop_after, []

    def __getattr__(self, name):
        return getattr(self.step, name)

    def __call__(self, source_ids, target_ids):
        update = self.step(source_ids, target_ids)
        self.losses.append(float(update.loss))
        if len(self.losses) == self.stop_after:
            os.kill(os.getpid(), signal.SIGINT)
        return update


def make_trainer(folder, training=TRAINING, stop_after=None, validate=None):
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    with strategy.scope():
        model = MODEL.build(20, 20, training)
    step = Recorder(TrainingStep(model, training, strategy), stop_after)
    training_set = TrainingSet(lines(1), lines(2), encode, encode, 16)
    return Trainer(
        step,
        training_set,
        CheckpointFolder(folder / "checkpoints", training.keep_last, training.keep_best),
        Summaries(folder / "tensorboard", [v.path for v in model.trainable_variables]),
        validate,
        lambda step: None,
        {"training": dataclasses.asdict(training)} | dict.fromkeys(
            ("model", "data", "decoding", "evaluation"), {}),
        {"training": dataclasses.asdict(TrainingConfig())},
        16,
        128,
    )  # fmt: skip


def weights_of(trainer):
    return b"".join(v.numpy().tobytes() for v in trainer.update.model.trainable_variables)


def test_a_run_stopped_in_mid_epoch_goes_on_bit_for_bit(tmp_path):
    whole = make_trainer(tmp_path / "whole")
    assert whole.run().signal == 0
    assert 1 < 10 % whole.plan.batches_per_epoch  # 10 is in the middle of an epoch

    first = make_trainer(tmp_path / "parts", stop_after=10)
    outcome = first.run()
    assert (outcome.step, outcome.signal) == (10, signal.SIGINT)
    second = make_trainer(tmp_path / "parts")
    assert second.restore() == 10
    second.run()

    assert first.update.losses == whole.update.losses[:10]
    assert second.update.losses == whole.update.losses[10:]
    assert weights_of(second) == weights_of(whole)


@pytest.mark.parametrize(
    "changed",
    [
        {"embedding_dropout_rate": 0.0},
        {"output_dropout_rate": 0.0},
        {"candidate_dropout_rate": 0.0},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_each_dropout_is_on(tmp_path, changed):
    losses = []
    for name, settings in (("with", {}), ("without", changed)):
        training = dataclasses.replace(TRAINING, max_steps=1, **settings)
        trainer = make_trainer(tmp_path / name, training)
        trainer.run()
        losses.append(trainer.update.losses[0])
    assert losses[0] != losses[1]


def test_a_validation_lost_to_a_crash_is_made_up_for(tmp_path):
    training = dataclasses.replace(TRAINING, max_steps=6, validation_steps=3)

    def crash():
        raise RuntimeError("in the middle of the validation")

    first = make_trainer(tmp_path / "crashed", training, validate=crash)
    with pytest.raises(RuntimeError):
        first.run()
    second = make_trainer(tmp_path / "crashed", training, validate=lambda: ({"bleu": 1.0}, []))
    assert second.restore() == 3
    second.run()
    whole = make_trainer(tmp_path / "whole", training, validate=lambda: ({"bleu": 1.0}, []))
    whole.run()
    assert [record["step"] for record in second.history] == [3, 6]
    assert weights_of(second) == weights_of(whole)
    assert second.update.losses == whole.update.losses[3:]


def test_another_corpus_or_division_is_refused(tmp_path):
    short = dataclasses.replace(TRAINING, max_steps=1)
    make_trainer(tmp_path, short).run()
    other = make_trainer(tmp_path, short)
    other.settings["conditions"]["slices"] = 2
    with pytest.raises(UserError, match="conditions.slices: 1 -> 2"):
        other.restore()
    assert other.settings["conditions"]["corpus"] == other.training_set.fingerprint


def test_changed_settings_are_refused_and_listed(tmp_path):
    make_trainer(tmp_path, dataclasses.replace(TRAINING, max_steps=1)).run()
    changed = make_trainer(tmp_path, dataclasses.replace(TRAINING, max_steps=1, clip_norm=1.0))
    with pytest.raises(UserError, match=r"training.clip_norm: 5.0 -> 1.0"):
        changed.restore()


def test_a_checkpoint_of_an_earlier_version_goes_on_with_the_defaults(tmp_path):
    short = dataclasses.replace(TRAINING, max_steps=1)
    first = make_trainer(tmp_path, short)
    del first.settings["training"]["r_drop_alpha"]  # which that version did not have
    first.run()
    assert make_trainer(tmp_path, short).restore() == 1
    with pytest.raises(UserError, match=r"training.r_drop_alpha: 0.0 -> 5.0"):
        make_trainer(tmp_path, dataclasses.replace(short, r_drop_alpha=5.0)).restore()


def test_training_ends_when_bleu_no_longer_rises(tmp_path):
    scores = iter([1.0, 5.0, 4.0, 5.0, 3.0, 9.0])
    training = dataclasses.replace(TRAINING, validation_steps=2, patience=3)
    trainer = make_trainer(tmp_path, training, validate=lambda: ({"bleu": next(scores)}, []))
    outcome = trainer.run()
    assert outcome.step == 10  # the fifth validation is the third without a better one
    assert [record["bleu"] for record in trainer.history] == [1.0, 5.0, 4.0, 5.0, 3.0]


def test_a_loss_that_is_not_finite_stops_with_advice(tmp_path):
    trainer = make_trainer(tmp_path)
    bias = trainer.update.model.readout.logits.bias
    bias.assign(tf.fill(bias.shape, np.nan))
    with pytest.raises(UserError, match="Update 1 has loss nan"):
        trainer.run()
    assert trainer.checkpoints.steps() == []
