"""The weights of a run that count, in its model."""

from __future__ import annotations

from dtmt_tf.models import Ensemble, TranslationModel
from dtmt_tf.runs.ensembles import check_subwords
from dtmt_tf.runs.run import Run
from dtmt_tf.training import load_weights


def best_model(run: Run) -> tuple[TranslationModel, list[int]]:
    """Returns the model with the weights that count, and the steps they are the mean of.

    Raises:
        UserError: If there is no checkpoint, or the members of an ensemble do not fit.
    """
    if run.members:
        check_subwords(run.members)
        found = [best_model(member) for member in run.members]
        ensemble = Ensemble([model for model, _ in found])
        return ensemble, [step for _, steps in found for step in steps]
    training, newest = run.experiment.training, run.newest()
    history, steps = newest.history, [newest.step]
    if training.average == "best":
        steps = run.checkpoints.best(training.average_count, history) or steps
    elif training.average == "last":
        steps = run.checkpoints.last(training.average_count, history) or steps
    model = run.build_model()
    load_weights(model, run.checkpoints.average(steps))
    return model, steps
