"""What a model of each architecture takes from another one, and what of it is new."""

import dataclasses
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from dtmt_tf.config import TrainingConfig
from dtmt_tf.errors import UserError
from dtmt_tf.runs import weights
from dtmt_tf.training.step import frozen_weights
from tests.models.test_dropout import MODELS

DEPTHS = ("encoder_depth", "query_depth", "decoder_depth")


@pytest.fixture
def taken(monkeypatch):
    """Gives a model the weights of another; returns the names of those that are new."""

    def take(one, other):
        source, model = (
            config.build(9, 8, TrainingConfig(seed=seed))
            for seed, config in enumerate((one, other))
        )
        theirs = {variable.path: variable.numpy() for variable in source.trainable_variables}
        monkeypatch.setattr(weights, "best_weights", lambda run: (theirs, [1]))
        new = weights.take_weights(model, SimpleNamespace(folder=Path("other"), work=Path("w")))
        own = {variable.path: variable for variable in model.trainable_variables}
        for path in own.keys() - new:
            np.testing.assert_array_equal(own[path].numpy(), theirs[path])
        assert own.keys() - theirs.keys() == {*new}
        return [path.partition("/")[2] for path in new]

    return take


@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_the_same_kind_takes_all(taken, name):
    assert taken(MODELS[name], MODELS[name]) == []


@pytest.mark.parametrize(
    ("one", "other", "kinds"),
    [
        ("dtmt", "transformer", "kind dtmt, fit this one of kind transformer"),
        ("deep rnn", "dtmt", "kind deep_rnn, fit this one of kind dtmt"),
        ("recurrence", "deep lau", "kind transformer, fit this one of kind deep_lau"),
    ],
)
def test_embeddings_alone_are_no_beginning(taken, one, other, kinds):
    with pytest.raises(UserError, match=f"Only embeddings of other, a model of {kinds}. Train"):
        taken(MODELS[one], MODELS[other])


def test_recurrence_and_what_reads_it_is_new_beside_a_transformer(taken, caplog):
    caplog.set_level("INFO")
    new = taken(MODELS["transformer"], MODELS["recurrence"])
    fusions = [path for path in new if path.startswith("decoder/layer_1/fusion/")]
    recurrent = [path for path in new if path.startswith("recurrence/")]
    assert len(fusions) == 8 and len(recurrent) == 15 and len(new) == 8 + 15
    told = "New are: decoder/layer_1/fusion (8 weights), recurrence (15 weights)\n"
    assert told in caplog.text


def test_what_is_new_is_not_frozen():
    model = MODELS["recurrence"].build(9, 8, TrainingConfig())
    new = [each.path for each in model.trainable_variables if "/fusion/" in each.path]
    step = SimpleNamespace(model=model, frozen=frozen_weights(model, ["encoder/*"]))
    weights.refuse_stuck(new, step)
    step.frozen = frozen_weights(model, ["encoder/*", "decoder/*"])
    with pytest.raises(UserError, match="are new, and not trained:\n  decoder/layer_1/fusion/"):
        weights.refuse_stuck(new, step)


@pytest.mark.parametrize(
    ("name", "former", "deeper", "added"),
    [
        (
            "dtmt",
            dict.fromkeys(DEPTHS, 1),
            dict.fromkeys(DEPTHS, 2),
            {
                *(f"encoder/{way}/prepared/{way}/tgru_2" for way in ("forward", "backward")),
                *(f"decoder/prepared/decoder/{part}/tgru_2" for part in ("query", "transition")),
            },
        ),
        (
            "deep rnn",
            {},
            {"encoder_transition": 2},
            {
                f"encoder/{level}/prepared/{level}/gru_2"
                for level in ("forward_1", "forward_2", "backward_1", "backward_2")
            },
        ),
        ("deep lau", {}, {"encoder_depth": 3}, {"encoder/encoder_3/prepared/encoder_3"}),
    ],
    ids=["dtmt", "deep rnn", "deep lau"],
)
def test_of_a_deeper_model_the_added_cells_are_new(taken, name, former, deeper, added):
    one = dataclasses.replace(MODELS[name], **former)
    new = taken(one, dataclasses.replace(one, **deeper))
    cells = {cell for path in new for cell in added if path.startswith(f"{cell}/")}
    assert cells == added
    assert all(path.startswith(tuple(f"{cell}/" for cell in added)) for path in new)
