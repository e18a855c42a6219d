"""Weights to a SavedModel that takes and returns strings."""

from dtmt_tf.export.canary import Canary
from dtmt_tf.export.endpoints import Endpoints
from dtmt_tf.export.release import made_of, program_hash, release, weights_hash
from dtmt_tf.export.saved_model import export_saved_model
from dtmt_tf.export.servable import check_servable
from dtmt_tf.export.unknown import never_written
from dtmt_tf.export.warmup import sample_pairs

__all__ = [
    "Canary",
    "Endpoints",
    "check_servable",
    "export_saved_model",
    "made_of",
    "program_hash",
    "weights_hash",
    "never_written",
    "release",
    "sample_pairs",
]
