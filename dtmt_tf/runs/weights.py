"""The weights of a run that count: in its own model, or as another's first ones."""

from __future__ import annotations

import dataclasses
import logging
import shlex
from collections.abc import Iterable, Sequence

import numpy as np

from dtmt_tf.errors import UserError
from dtmt_tf.experiment import to_dict
from dtmt_tf.languages import are_opposite
from dtmt_tf.models import MODELS, Ensemble, TranslationModel
from dtmt_tf.runs.ensembles import check_subwords
from dtmt_tf.runs.run import Run
from dtmt_tf.settings import as_override
from dtmt_tf.training import TrainingStep, load_weights, read_again
from dtmt_tf.training.changes import CUTTING

logger = logging.getLogger(__name__)

EMBEDDINGS = ("source_embedding/", "target_embedding/", "readout/logits/")  # layers of sub-words

# settings of models that say how weights start, and nothing else
BEGINNING = (
    *("update_offset", "transition_offset", "transition_offset_step"),
    *("initializer_range", "initializer_stddev", "fusion_from_zero"),
)


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
    weights, steps = best_weights(run)
    model = run.build_model()
    try:
        load_weights(model, weights)
    except UserError as error:
        raise UserError(f"{run.folder}: {error} Train the run anew with --restart.") from error
    return model, steps


def best_weights(run: Run) -> tuple[dict[str, np.ndarray], list[int]]:
    """Returns the weights that count by path, and the steps they are the mean of.

    Raises:
        UserError: If there is no checkpoint.
    """
    run.vocabulary  # noqa: B018 - from now on checkpoints that belong to others are refused
    training = run.experiment.training

    def read() -> tuple[dict[str, np.ndarray], list[int]]:
        newest = run.newest()
        history, steps = newest.history, [newest.step]
        if training.average == "best":
            steps = run.checkpoints.best(training.average_count, history) or steps
        elif training.average == "last":
            steps = run.checkpoints.last(training.average_count, history) or steps
        return run.checkpoints.average(steps), steps

    return read_again(read)


def check_source(run: Run, restart: bool = False) -> None:
    """Checks that a run can begin with its `init_from`; warns where the models' settings differ.

    Args:
        run: The run.
        restart: Whether it begins anew, though it has checkpoints.

    Raises:
        UserError: If that is the run itself or an ensemble, has no checkpoint, cuts text in
            another way, or has sub-words of each language by itself and the other direction.
    """
    source = run.init_from
    if not source:
        return
    if source.folder.resolve() == run.folder.resolve():
        raise UserError(f"{source.folder} can not begin with itself. Choose another --name.")
    if source.members:
        raise UserError(f"{source.folder} is an ensemble. --init-from takes one of its runs.")
    if needed := _others(run, source, "data", CUTTING):
        raise UserError(
            f"This run takes its sub-words from {source.folder}. To cut text as that one does, add "
            f"--set {needed}."
        )
    if restart or not run.checkpoints.steps():  # else its weights are no longer needed
        source.newest()
        _check_direction(run, source)
        if others := _others(run, source, "model", _shared_settings(run, source)):
            logger.warning(
                "The model of %s has other settings. Its weights are taken where they fit, but "
                "this model may use them otherwise. It is the same with --set %s",
                source.folder,
                others,
            )


def _check_direction(run: Run, source: Run) -> None:
    """Raises a UserError if each side would be cut with the other language's sub-words."""
    if source.experiment.data.joint_vocabulary:
        return
    if are_opposite(source.languages, run.languages):
        raise UserError(
            f"The sub-words of {source.folder} are one model for each language, "
            f"{' and '.join(source.languages)}; this run reads {' and '.join(run.languages)}. "
            "Begin with a run of its direction, or without --init-from."
        )


def _others(run: Run, source: Run, section: str, names: Iterable[str]) -> str:
    """Returns those settings of a source that a run has otherwise, as `--set` reads them."""
    theirs, ours = to_dict(source.experiment)[section], to_dict(run.experiment)[section]
    differ = [name for name in names if theirs[name] != ours[name]]
    return shlex.join(f"{section}.{name}={as_override(theirs[name])}" for name in differ)


def _shared_settings(run: Run, source: Run) -> list[str]:
    """Returns the settings that both models have, if one's kind is or builds on the other's.

    Those that only say how weights start are left out.
    """
    models = run.experiment.model, source.experiment.model
    for one, other in models, models[::-1]:
        if isinstance(one, type(other)):
            names = [field.name for field in dataclasses.fields(other)]
            return [name for name in names if name not in BEGINNING]
    return []


def check_beginning(run: Run) -> None:
    """Checks that a run did not begin with other weights than those of its `init_from`.

    Raises:
        UserError: If it did, or its folder holds an ensemble or a model of another kind.
    """
    former = run.former_settings()  # none: damaged, and written anew
    if "members" in former:
        raise UserError(
            f"{run.folder} holds an ensemble. Give this run another --name, or put it in the "
            "ensemble's place with --restart."
        )
    name, ours = former.get("settings", {}).get("model_name"), run.experiment
    if run.checkpoints.steps() and type(MODELS.get(name, ours.model)) is not type(ours.model):
        raise UserError(
            f"{run.folder} holds a run of --model {name}; {ours.model_name} is another kind of "
            "model. Give this run another --name, or start over with --restart."
        )
    source = run.init_from
    if not source:
        return
    began = former.get("init_from")
    if former and run.checkpoints.steps() and began != run.beginning():
        raise UserError(
            f"{run.folder} has begun with {began['run'] if began else 'fresh weights'}, not with "
            f"{source.folder}. To go on with it, leave out --init-from. Or give this run another "
            "--name, or start over with --restart."
        )


def refuse_stuck(new: Sequence[str], step: TrainingStep) -> None:
    """Raises a UserError if `training.frozen` would keep weights that no training has made.

    Args:
        new: Their paths: all, or what `take_weights` returns.
        step: Knows the weights that are frozen.
    """
    weights = zip(step.model.trainable_variables, step.frozen, strict=True)
    if stuck := [each.path for each, frozen in weights if frozen and each.path in new]:
        raise UserError(
            "`training.frozen` would keep weights that are new, and not trained:\n  "
            + "\n  ".join(map(_without_kind, stuck))
            + "\nName what is to stay so that these move; in patterns, * also stands for /."
        )


def take_weights(model: TranslationModel, source: Run) -> list[str]:
    """Gives a new model those weights of a trained run that match by name and shape.

    Names are compared without their first part, which is the kind of model.

    Args:
        model: The model.
        source: The run.

    Returns:
        Paths of the weights that stay as they were.

    Raises:
        UserError: If none matches, or embeddings of another kind of model alone; or the run has no
            checkpoint.
    """
    weights, steps = best_weights(source)
    theirs = {_without_kind(path): value for path, value in weights.items()}
    new, taken = [], set()
    for variable in model.trainable_variables:
        name = _without_kind(variable.path)
        value = theirs.get(name)
        if value is not None and value.shape == tuple(variable.shape):
            variable.assign(value)
            taken.add(name)
        else:
            new.append(variable.path)
    if not taken:
        raise UserError(
            f"No weight of {source.folder} has name and shape of one of this model. Its settings: "
            f"{source.work / 'experiment.json'}"
        )
    firsts = next(iter(weights)), model.trainable_variables[0].path
    kinds = [path.partition("/")[0] for path in firsts]
    if kinds[0] != kinds[1] and all(name.startswith(EMBEDDINGS) for name in taken):
        raise UserError(
            f"Only embeddings of {source.folder}, a model of kind {kinds[0]}, fit this one of "
            f"kind {kinds[1]}. Train without --init-from, or a model like that one: "
            f"{source.work / 'experiment.json'} has its settings."
        )
    logger.info(
        "%s of %s weights are those of %s, the mean of updates %s. New are: %s",
        len(taken),
        len(taken) + len(new),
        source.folder,
        ", ".join(map(str, steps)),
        _by_layer(map(_without_kind, new), taken) or "none",
    )
    if left := sorted(theirs.keys() - taken):
        logger.warning(
            "Not taken, as no weight here has name and shape: %s", _by_layer(left, taken)
        )
    return new


def _by_layer(names: Iterable[str], others: Iterable[str]) -> str:
    """Lists weights by name; a layer that holds none of `others` becomes a single entry."""
    layers: dict[str, list[str]] = {}
    for name in names:
        above = [name[: k + 1] for k, letter in enumerate(name) if letter == "/"]
        whole = (layer for layer in above if not any(other.startswith(layer) for other in others))
        layers.setdefault(next(whole, name), []).append(name)
    return ", ".join(
        f"{layer[:-1]} ({len(inside)} weights)" if len(inside) > 1 else inside[0]
        for layer, inside in layers.items()
    )


def _without_kind(path: str) -> str:
    return path.partition("/")[2]
