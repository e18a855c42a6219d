"""Hypotheses to sacreBLEU scores with signatures, and reports of them."""

from dtmt_tf.evaluation.report import (
    format_comparison,
    format_means,
    format_scores,
)
from dtmt_tf.evaluation.scores import (
    MetricScore,
    Scores,
    SystemScore,
    choose_tokenizer,
    compare_systems,
    score_hypotheses,
)

__all__ = [
    "MetricScore",
    "Scores",
    "SystemScore",
    "choose_tokenizer",
    "compare_systems",
    "format_comparison",
    "format_means",
    "format_scores",
    "score_hypotheses",
]
