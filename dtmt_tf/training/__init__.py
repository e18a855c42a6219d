"""Batches to weights, on one or many devices."""

from dtmt_tf.training.checkpoint import Checkpoint, CheckpointFolder, read_again
from dtmt_tf.training.cross_entropy import CrossEntropy
from dtmt_tf.training.optimizer import strange_rate, unread
from dtmt_tf.training.schedule import make_schedule
from dtmt_tf.training.step import TrainingStep, load_weights
from dtmt_tf.training.stopping import OUT_OF_TIME, Limits, Outcome, finished
from dtmt_tf.training.strategy import (
    agree,
    is_chief,
    make_strategy,
    several_workers,
    wait_for_all,
)
from dtmt_tf.training.summaries import Summaries
from dtmt_tf.training.tracking import TRACKERS, Tracker, Value, check_trackers, open_trackers
from dtmt_tf.training.trainer import Trainer
from dtmt_tf.training.validator import Inspection, Validation, Validator

__all__ = [
    "OUT_OF_TIME",
    "TRACKERS",
    "Checkpoint",
    "CheckpointFolder",
    "CrossEntropy",
    "Inspection",
    "Limits",
    "Outcome",
    "Summaries",
    "Tracker",
    "Trainer",
    "TrainingStep",
    "Validation",
    "Validator",
    "Value",
    "agree",
    "finished",
    "is_chief",
    "load_weights",
    "make_schedule",
    "make_strategy",
    "several_workers",
    "check_trackers",
    "open_trackers",
    "read_again",
    "strange_rate",
    "unread",
    "wait_for_all",
]
