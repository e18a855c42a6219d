"""Batches to weights, on one or many devices."""

from dtmt_tf.training.checkpoint import Checkpoint, CheckpointFolder
from dtmt_tf.training.schedule import DTMTSchedule
from dtmt_tf.training.step import TrainingStep, Update, load_weights, multiplies_bfloat16
from dtmt_tf.training.strategy import (
    is_chief,
    make_strategy,
    wait_for_all,
)
from dtmt_tf.training.summaries import Summaries
from dtmt_tf.training.trainer import OUT_OF_TIME, Limits, Outcome, Trainer, finished

__all__ = [
    "OUT_OF_TIME",
    "Checkpoint",
    "CheckpointFolder",
    "DTMTSchedule",
    "Limits",
    "Outcome",
    "Summaries",
    "Trainer",
    "TrainingStep",
    "Update",
    "finished",
    "is_chief",
    "load_weights",
    "make_strategy",
    "multiplies_bfloat16",
    "wait_for_all",
]
