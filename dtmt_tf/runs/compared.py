"""A run's settings as TensorBoard's hyperparameters and trackers of experiments show them."""

from __future__ import annotations

from typing import Any

from dtmt_tf.models import TranslationModel
from dtmt_tf.runs.run import Run
from dtmt_tf.settings import as_override, is_built_in
from dtmt_tf.training import Value

COMPARED = (  # columns of the tab, the same of all runs, so that it has room for the scores
    *("data.source_vocab_size", "data.max_tokens_per_batch", "training.accumulation_steps"),
    *("training.seed", "training.max_steps", "training.optimizer", "training.schedule"),
    *("training.learning_rate", "training.peak_learning_rate", "training.label_smoothing"),
    *("training.embedding_dropout_rate", "training.output_dropout_rate"),
    *("training.candidate_dropout_rate", "training.r_drop_alpha", "training.ema_decay"),
    "training.precision",
)


def compared(run: Run, model: TranslationModel) -> dict[str, Value]:
    """Returns what tells runs apart: task, model, size, main settings, and what the user set."""
    values = all_settings(run)
    chosen = [
        f"{name}={as_override(values[name])}"
        for name, origin in run.origins.items()
        if name in values and not is_built_in(origin)
    ]
    return {
        "task": run.experiment.task,
        "model": run.experiment.model_name,
        "parameters": model.count_params(),
        **{name: values[name] for name in COMPARED},
        "set": " ".join(chosen),
    }


def all_settings(run: Run) -> dict[str, Value]:
    """Returns every setting by its name; lists and what is not set as `--set` reads them."""
    sections: dict[str, Any] = run.settings()["settings"]
    return {
        f"{section}.{name}": value if isinstance(value, bool | int | float | str)
        else as_override(value)
        for section, values in sections.items() if isinstance(values, dict)
        for name, value in values.items()
    }  # fmt: skip
