"""Initial weights from another run: what matches is taken, the rest said, and refusals."""

import dataclasses
import json
import math
import re
import shutil
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from dtmt_tf.config import TrainingConfig
from dtmt_tf.errors import UserError
from dtmt_tf.experiment import resolve, with_overrides
from dtmt_tf.models import MODELS
from dtmt_tf.runs import Run, Session
from dtmt_tf.runs.former import ASIDE
from dtmt_tf.runs.session import other_batches
from dtmt_tf.runs.weights import best_weights, check_beginning, check_source, take_weights
from dtmt_tf.tasks import TASKS
from dtmt_tf.training import CheckpointFolder, Trainer, make_strategy
from tests.end_to_end.test_older_artifacts import unpack
from tests.training.test_checkpoint import checkpoint
from tests.training.toy_trainer import graphless


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return unpack("run-0.1", tmp_path_factory.mktemp("run"))


@pytest.fixture
def source(folder):
    """A trained run."""
    return Run.open(folder / "custom" / "older", folder, folder / "cache")


def beginner(source, name, *settings):
    """A run of the same corpus that begins with the weights of another."""
    experiment, _ = with_overrides(source.experiment, {}, settings)
    places = source.data_dir, source.cache_dir
    return Run(experiment, source.folder.parent / name, *places, init_from=source)


def test_what_matches_is_taken_and_the_rest_is_named(source):
    run = beginner(source, "deeper", "model.decoder_depth=2")
    model = run.build_model()
    before = {v.path: v.numpy() for v in model.trainable_variables}
    new = take_weights(model, source)
    weights, steps = best_weights(source)
    assert steps == [331]
    assert new and all("tgru" in path for path in new)
    for variable in model.trainable_variables:
        expected = before[variable.path] if variable.path in new else weights[variable.path]
        np.testing.assert_array_equal(variable.numpy(), expected)
    assert len(model.trainable_variables) - len(new) == len(weights)


@pytest.mark.parametrize(
    ("average", "count", "bleus", "steps"),
    [
        ("best", 1, [4.0, 9.0, 3.0], [20]),
        ("best", 2, [4.0, 9.0, 3.0], [10, 20]),
        ("last", 1, [4.0, 9.0, 3.0], [30]),
        ("last", 2, [4.0, 9.0, 3.0], [20, 30]),
        ("none", 1, [4.0, 9.0, 3.0], [37]),
        ("best", 1, [], [37]),  # none has been validated
        ("last", 1, [], [37]),
    ],
)
def test_the_weights_that_count_are_those_that_the_setting_names(
    average, count, bleus, steps, tmp_path
):
    folder = CheckpointFolder(tmp_path, keep_last=5, keep_best=5)
    for k, step in enumerate([10, 20, 30, 37], start=1):  # the last was made by a signal
        folder.save(checkpoint(step, bleus[:k], step))
    training = TrainingConfig(average=average, average_count=count)
    experiment = SimpleNamespace(training=training)
    run = SimpleNamespace(
        vocabulary=None, experiment=experiment, newest=folder.newest, checkpoints=folder
    )
    weights, found = best_weights(run)
    assert found == steps
    np.testing.assert_array_equal(weights["a/kernel"], np.full((2, 3), np.mean(steps)))


def test_a_model_of_another_kind_takes_what_has_the_same_name(source):
    model = beginner(source, "again").build_model()
    weights, _ = best_weights(source)
    renamed = {path.replace("dtmt/", "another/", 1): value for path, value in weights.items()}
    source.checkpoints.average = lambda steps: renamed
    assert take_weights(model, source) == []


def test_a_model_that_shares_nothing_is_refused(source):
    model = beginner(source, "again").build_model()
    weights, _ = best_weights(source)
    source.checkpoints.average = lambda steps: {path: np.zeros(999) for path in weights}
    with pytest.raises(UserError, match="No weight of .*older has name and shape"):
        take_weights(model, source)


@pytest.fixture
def without_graphs():
    """Traces nothing, which takes longer than an update."""
    with graphless():
        yield


@pytest.mark.usefixtures("without_graphs")
def test_a_run_begins_with_another_ones_weights_and_subwords(source, caplog, monkeypatch):
    caplog.set_level("INFO")
    monkeypatch.setattr(Trainer, "rehearse", lambda trainer: None)
    settings = ("training.max_steps=1", "training.validation_steps=1", "data.source_vocab_size=40",
                "decoding.beam_size=1", "decoding.extra_length=5")  # fmt: skip
    strategy = make_strategy(False, ["CPU:0"])
    run = beginner(source, "tuned", *settings)
    run.origins = {"data.source_vocab_size": "--set", "data.target_vocab_size": "default"}
    assert Session(run, strategy).train().exit_code == 0
    assert "weights are those of" in caplog.text and "New are: none" in caplog.text
    assert "data.source_vocab_size=40 changes nothing" in caplog.text
    assert "data.target_vocab_size" not in caplog.text
    assert run.vocabulary.fingerprint == source.vocabulary.fingerprint
    recorded = json.loads((run.work / "experiment.json").read_text())
    assert recorded["settings"]["data"]["source_vocab_size"] == source.vocabulary.source.size != 40
    assert recorded["origins"]["data.source_vocab_size"] == "sized: that of --init-from older"
    weights, _ = best_weights(source)
    for path, value in run.newest().weights.items():  # an update moves none by more than the rate
        np.testing.assert_allclose(value, weights[path], rtol=0, atol=2e-3)
    first, *_ = run.newest().history
    assert first["cross_entropy"] < math.log(source.vocabulary.target.size) - 1  # of a fresh model
    noted = json.loads((run.work / "experiment.json").read_text())["init_from"]
    assert noted == {"run": "custom/older"}

    same = beginner(source, "tuned", *settings)  # goes on: the weights are its own by now
    assert Session(same, strategy).train().exit_code == 0
    assert same.settings() == run.settings()
    assert json.loads((run.work / "experiment.json").read_text())["init_from"] == noted
    assert caplog.text.count("weights are those of") == 1
    fresh, _ = with_overrides(source.experiment, {}, settings)
    plain = Run(fresh, run.folder, run.data_dir, run.cache_dir)
    assert Session(plain, strategy).train().exit_code == 0  # the same without the flag
    assert json.loads((run.work / "experiment.json").read_text())["init_from"] == noted


def test_what_can_not_be_begun_with_is_refused(source):
    other = shutil.copytree(source.folder, source.folder.parent / "copy")
    moved = Run.open(other, source.data_dir, source.cache_dir)
    with pytest.raises(UserError, match="older has begun with fresh weights, not with .*copy"):
        check_beginning(beginner(moved, "older"))
    apart = beginner(source, "apart", "data.joint_vocabulary=false", "model.tied_embeddings=target")
    with pytest.raises(UserError, match="data.joint_vocabulary=true"):
        check_source(apart)
    cut = beginner(source, "cut", "data.byte_fallback=true", "data.reserved_symbols=<a>,<b>")
    with pytest.raises(UserError, match="data.byte_fallback=false data.reserved_symbols=\\."):
        check_source(cut)
    with pytest.raises(UserError, match="can not begin with itself"):
        Session(beginner(source, "older"), make_strategy(False, ["CPU:0"])).train(restart=True)
    assert source.checkpoints.steps() == [331]
    untrained = beginner(source, "untrained")
    with pytest.raises(UserError, match="untrained.*holds no checkpoint"):
        check_source(beginner(untrained, "later"))
    moved.init_from = untrained
    with pytest.raises(UserError, match="untrained.*holds no checkpoint"):
        Session(moved, make_strategy(False, ["CPU:0"])).train(restart=True)
    moved.init_from, source.members = source, [moved]
    with pytest.raises(UserError, match="is an ensemble"):
        Session(moved, make_strategy(False, ["CPU:0"])).train(restart=True)
    assert moved.checkpoints.steps() == [331]  # what is refused removes nothing


APART = ("data.joint_vocabulary=false", "model.tied_embeddings=target")


def directed(run, one, other, *settings):
    """A run from one language to another."""
    named = f"data.source_language={one}", f"data.target_language={other}"
    run.experiment, _ = with_overrides(run.experiment, {}, [*named, *settings])
    return run


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [(("en", "de"), ("de", "en")), (("pt-BR", "zh"), ("zho", "pt"))],
    ids=str,
)
def test_a_run_of_the_other_direction_cuts_each_side_as_the_other_one(source, theirs, ours):
    run = directed(beginner(source, "back"), *ours, *APART)
    directed(source, *theirs, *APART)
    message = (
        f"The sub-words of {source.folder} are one model for each language, {theirs[0]} and "
        f"{theirs[1]}; this run reads {ours[0]} and {ours[1]}. Begin with a run of its direction"
    )
    with pytest.raises(UserError, match=re.escape(message)):
        check_source(run)


@pytest.mark.parametrize(
    ("theirs", "ours", "settings"),
    [
        (("en", "de"), ("en", "de"), APART),
        (("en", "de"), ("fr", "de"), APART),
        (("pt", "pt-BR"), ("pt-BR", "pt"), APART),
        (("", "de"), ("de", ""), APART),
        (("mul", "en"), ("en", "mul"), APART),
        (("en", "de"), ("de", "en"), ()),  # one model for both
    ],
    ids=str,
)
def test_subwords_of_the_same_languages_of_both_or_of_unknown_ones_are_taken(
    source, theirs, ours, settings, caplog
):
    run = directed(beginner(source, "tuned"), *ours, *settings)
    directed(source, *theirs, *settings)
    check_source(run)
    assert not caplog.text


def test_settings_that_the_weights_were_trained_without_are_named(source, caplog):
    check_source(beginner(source, "same", "training.max_steps=3", "data.max_length=20"))
    assert not caplog.text
    heads = source.experiment.model.num_heads
    other = "model.use_positional_signal=false", f"model.num_heads={heads // 2}"
    check_source(beginner(source, "fewer", *other))
    assert f"with --set model.num_heads={heads} model.use_positional_signal=true" in caplog.text


@pytest.mark.parametrize(
    ("model", "settings"),
    [
        ("dtmt_tiny", ["update_offset=-1", "transition_offset_step=-3", "initializer_range=0.3"]),
        ("rnn_baseline", ["transition_offset=-3"]),
        ("deep_lau_4_4", ["initializer_stddev=0.08"]),
        ("transformer_base_biarn", ["fusion_from_zero=true"]),
    ],
)
def test_settings_that_only_start_weights_are_no_difference(source, caplog, model, settings):
    source.experiment = dataclasses.replace(source.experiment, model=MODELS[model])
    run = beginner(source, "other", *(f"model.{setting}" for setting in settings))
    assert run.experiment.model != source.experiment.model
    check_source(run)
    assert not caplog.text


def test_an_offset_that_stays_is_a_difference(source, caplog):
    source.experiment = dataclasses.replace(source.experiment, model=MODELS["deep_lau_4_4"])
    check_source(beginner(source, "other", "model.gate_offset=-3"))
    assert "It is the same with --set model.gate_offset=0.0" in caplog.text


def test_what_is_added_to_a_transformer_is_no_difference_but_its_own_settings_are(source, caplog):
    plain, recurrent = (MODELS[f"transformer_tiny{end}"] for end in ("", "_biarn"))
    for name, model, other in (
        ("biarn", recurrent, plain),
        ("without", plain, recurrent),
        ("dtmt", MODELS["dtmt_tiny"], recurrent),
    ):
        run = beginner(source, name)
        source.experiment = dataclasses.replace(source.experiment, model=other)
        run.experiment = dataclasses.replace(run.experiment, model=model)
        check_source(run)
    assert not caplog.text
    run.experiment = dataclasses.replace(
        run.experiment, model=dataclasses.replace(recurrent, directional=True)
    )
    source.experiment = dataclasses.replace(source.experiment, model=plain)
    check_source(run)
    assert "with --set model.directional=false" in caplog.text


def test_a_worker_passes_by_checkpoints_that_the_chief_will_remove(source, monkeypatch):
    other = shutil.copytree(source.folder, source.folder.parent / "other")
    run = beginner(Run.open(other, source.data_dir, source.cache_dir), "older")
    session = Session(run, make_strategy(False, ["CPU:0"]))
    session.chief = False
    monkeypatch.setattr(Session, "_train", lambda self: "trained")
    assert session.train(restart=True) == "trained"
    with pytest.raises(UserError, match="has begun with fresh weights"):
        session.train()


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("tracker", "wandb"),
        ("scorer", "nosuch"),
        ("sub-words", "source_vocab_size"),
        ("memory", "Memory does not suffice"),
    ],
)
def test_a_restart_that_fails_leaves_the_run_as_it_was(source, monkeypatch, what, told):
    folder = shutil.copytree(source.folder, source.folder.parent / what)
    settings = {
        "scorer": ["evaluation.tokenize=nosuch"],
        "sub-words": ["data.source_vocab_size=9"],
    }
    run = Run.open(folder, source.data_dir, source.cache_dir)
    run.experiment, _ = with_overrides(run.experiment, {}, settings.get(what, []))
    fingerprint = Run.open(folder, source.data_dir, source.cache_dir).vocabulary.fingerprint
    monkeypatch.setitem(sys.modules, "wandb", None)  # not installed
    begun = []

    def rehearse(trainer):
        begun.extend(run.checkpoints.steps())
        raise UserError("Memory does not suffice.")

    monkeypatch.setattr(Trainer, "rehearse", rehearse)
    trackers = ["wandb"] if what == "tracker" else []
    session = Session(run, make_strategy(False, ["CPU:0"]), trackers=trackers)
    steps = run.checkpoints.steps()
    if what in ("tracker", "scorer"):  # which need no look at the run
        monkeypatch.setattr("dtmt_tf.runs.session.set_aside", lambda _: pytest.fail("it is moved"))
    with pytest.raises(UserError, match=told):
        session.train(restart=True)
    assert begun == []
    assert run.checkpoints.steps() == steps != []
    again = Run.open(folder, source.data_dir, source.cache_dir)
    assert again.vocabulary.fingerprint == fingerprint
    assert not (folder / ASIDE).exists()


def test_fresh_weights_are_not_frozen(source):
    run = beginner(source, "fresh", "training.frozen=encoder/*")
    run.init_from = None
    told = "(?s)would keep weights that are new, and not trained:.*  encoder/"
    with pytest.raises(UserError, match=told):
        Session(run, make_strategy(False, ["CPU:0"])).train()


def test_a_training_does_not_take_over_an_ensemble(source):
    run = beginner(source, "both")
    run.init_from = None
    run.work.mkdir(parents=True)
    settled = {"settings": {"model_name": "dtmt_tiny"}, "origins": {}, "members": ["a", "b"]}
    (run.work / "experiment.json").write_text(json.dumps(settled))
    with pytest.raises(UserError, match="both holds an ensemble. Give this run another --name"):
        Session(run, make_strategy(False, ["CPU:0"])).train()


def test_a_training_does_not_go_on_with_another_kind_of_model(source):
    run = Run.open(source.folder, source.data_dir, source.cache_dir)
    check_beginning(run)
    other = {"model_name": "transformer_base", "model": MODELS["transformer_base"]}
    run.experiment = dataclasses.replace(run.experiment, **other)
    told = "holds a run of --model dtmt_tiny; transformer_base is another kind of model. Give"
    with pytest.raises(UserError, match=told):
        Session(run, make_strategy(False, ["CPU:0"])).train()


def test_what_finds_no_place_is_told(source, caplog):
    deeper = beginner(source, "narrow", "model.decoder_depth=0")
    take_weights(deeper.build_model(), source)
    assert re.search("Not taken, as no weight here has name and shape: .*tgru", caplog.text)
    caplog.clear()
    take_weights(beginner(source, "again").build_model(), source)
    assert "Not taken" not in caplog.text


@pytest.mark.parametrize(
    ("task", "slices", "told"),
    [
        ("wmt14_ende", 8, ""),
        ("custom", 3, ""),  # any will do
        ("multi30k_ende", 2, ""),
        ("wmt17_ende", 1, ""),
        ("wmt17_ende", 2, "2 batches. Train on one device (--devices), or with a lower data.sen"),
        ("nist_zhen_lau", 2, "(--devices), or with a lower data.sentences_per_batch."),
        ("nist_zhen", 8, "on 2 devices (--devices), or with a lower data.max_tokens_per_batch."),
        ("wmt14_ende", 1, "for 8 batches an update; here it is 1 batch. --set training.accumu"),
        ("wmt14_ende", 2, "here it is 2 batches. --set training.accumulation_steps=4 makes"),
        ("wmt14_ende", 3, "here it is 3 batches. Choose devices by which 8 can be divided"),
    ],
)
def test_updates_of_other_batches_than_the_task_is_meant_for_are_told(task, slices, told):
    experiment, _ = resolve(TASKS[task], "dtmt_tiny", MODELS["dtmt_tiny"])
    said = other_batches(experiment, slices)
    assert told in said and bool(told) == bool(said)
