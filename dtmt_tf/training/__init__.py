"""Batches to weights, on one or many devices."""

from dtmt_tf.training.checkpoint import Checkpoint, CheckpointFolder
from dtmt_tf.training.schedule import DTMTSchedule
from dtmt_tf.training.step import TrainingStep, Update, multiplies_bfloat16
from dtmt_tf.training.summaries import Summaries
from dtmt_tf.training.trainer import Outcome, Trainer, load_weights

__all__ = [
    "Checkpoint",
    "CheckpointFolder",
    "DTMTSchedule",
    "Outcome",
    "Summaries",
    "Trainer",
    "TrainingStep",
    "Update",
    "load_weights",
    "multiplies_bfloat16",
]
