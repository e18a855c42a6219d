"""A trainer of a small model on letters, and ways to watch it."""

import contextlib
import dataclasses
import json
import os
import signal

import numpy as np
import pytest
import tensorflow as tf

from dtmt_tf.config import DataConfig, TrainingConfig
from dtmt_tf.data.batch import BatchPlan
from dtmt_tf.data.pipeline import TrainingSet
from dtmt_tf.models import DTMTConfig, TransformerConfig
from dtmt_tf.training import (
    CheckpointFolder,
    Inspection,
    Limits,
    Summaries,
    Trainer,
    TrainingStep,
    Validation,
    Validator,
)
from tests.data.toy_corpus import encode_letters, make_shards

DATA = DataConfig(max_length=16, max_tokens_per_batch=128)
TRAINING = TrainingConfig(  # every dropout on
    max_steps=30,
    learning_rate=1e-3,
    schedule_replicas=1,
    validation_steps=100,
    log_steps=10,
    patience=0,
    word_dropout_rate=0.2,
    embedding_dropout_rate=0.2,
    output_dropout_rate=0.2,
    candidate_dropout_rate=0.2,
)
SHORT = dataclasses.replace(TRAINING, max_steps=1)
DTMT = DTMTConfig(16, 16, 4, encoder_depth=0, query_depth=0, decoder_depth=1)
QUICK = TransformerConfig(16, 16, 4, 1, 1)  # to trace; where the loop alone is tested


def lines(seed):
    rng = np.random.default_rng(seed)
    return ["".join(rng.choice(list("abcdefgh"), rng.integers(4, 13))) for _ in range(50)]


class Recorder:
    """A training step that notes its losses, and sends a signal after some of them."""

    def __init__(self, step, stop_after=None):
        self.step, self.stop_after, self.losses = step, stop_after, []

    def __getattr__(self, name):
        return getattr(self.step, name)

    def __call__(self, *arguments):
        update = self.step(*arguments)
        self.losses.append(float(update.loss))
        if len(self.losses) == self.stop_after:
            os.kill(os.getpid(), signal.SIGINT)
        return update


class ToyValidator(Validator):
    """Returns scores that a test makes up, where it makes up any."""

    def __init__(self, scores=None):
        self.scores, self.make = scores is not None, scores
        self.fingerprint = "" if scores is None else "of the split"

    def validate(self):
        return Validation(self.make(), [])

    def inspect(self):
        return Inspection({}, np.zeros((0, 1, 1)), [])

    def texts(self, source_ids, target_ids):
        return list(zip(source_ids.tolist(), target_ids.tolist(), strict=True))


def make_trainer(
    folder, training=TRAINING, *, stop_after=None, scores=None, limits=None, model=QUICK
):
    """Makes a trainer.

    Args:
        folder: Where its files go.
        training: Its settings.
        stop_after: So many updates until a SIGINT.
        scores: Returns the scores of a validation, if there is to be any.
        limits: Of the session.
        model: Settings of its model.
    """
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    with strategy.scope():
        built = model.build(20, 20, training)
    step = Recorder(TrainingStep(built, training, strategy), stop_after)
    shards = make_shards(folder / "shards", lines(1), lines(2), (encode_letters, encode_letters))
    training_set = TrainingSet(shards, DATA.max_length)
    sections = dict.fromkeys(("model", "data", "decoding", "evaluation"), {})
    return Trainer(
        step,
        training_set,
        BatchPlan(DATA, training_set.lengths, step.slices, training.seed),
        CheckpointFolder(folder / "checkpoints", training.keep_last, training.keep_best),
        ToyValidator(scores),
        settings={"training": plain(training)} | sections,
        defaults={"training": plain(TrainingConfig())},
        summaries=Summaries(folder / "tensorboard", built),
        limits=limits or Limits(),
    )


def plain(training):
    """Settings as JSON gives them back."""
    return json.loads(json.dumps(dataclasses.asdict(training)))


def weights_of(trainer):
    """All weights as bytes."""
    return b"".join(v.numpy().tobytes() for v in trainer.training_step.model.trainable_variables)


class AsItIs:
    """A function that stays Python's."""

    def __init__(self, function):
        self.function = function

    def __call__(self, *arguments):
        return self.function(*arguments)

    def get_concrete_function(self):
        return self.function


def as_it_is(function=None, **_):
    """Stands in for `tf.function`, as a decorator with arguments too."""
    return AsItIs(function) if function else AsItIs


@contextlib.contextmanager
def graphless():
    """Within this block what `tf.function` is given stays Python's, and traces nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tf, "function", as_it_is)
        yield


class Calls:
    """Something whose calls go elsewhere."""

    def __init__(self, target, call):
        self.target, self.call = target, call

    def __getattr__(self, name):
        return getattr(self.target, name)

    def __call__(self, *arguments):
        return self.call(*arguments)
