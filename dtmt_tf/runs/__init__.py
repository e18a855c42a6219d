"""Runs: one experiment's folder, trained, scored, published, united with others."""

from dtmt_tf.runs.ensembles import unite
from dtmt_tf.runs.publishing import publish
from dtmt_tf.runs.representations import representer
from dtmt_tf.runs.run import Run
from dtmt_tf.runs.scoring import (
    check_split,
    endpoints,
    evaluate,
    score,
    score_function,
    translate_function,
    translations_file,
    translations_of,
)
from dtmt_tf.runs.session import Session
from dtmt_tf.runs.summary import RunSummary, summaries
from dtmt_tf.runs.weights import best_model

__all__ = [
    "Run",
    "RunSummary",
    "Session",
    "best_model",
    "check_split",
    "endpoints",
    "evaluate",
    "publish",
    "representer",
    "score",
    "score_function",
    "summaries",
    "translate_function",
    "translations_file",
    "translations_of",
    "unite",
]
