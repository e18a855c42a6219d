"""A size of sub-words that came of the text is a ceiling; one that the user set is not."""

import shutil

import pytest

from dtmt_tf.errors import UserError
from dtmt_tf.experiment import resolve
from dtmt_tf.models import MODELS
from dtmt_tf.runs import Run
from dtmt_tf.runs.weights import check_beginning
from dtmt_tf.sizing import SIZED
from dtmt_tf.tasks import TASKS
from tests.training.test_checkpoint import checkpoint

EACH = "data.joint_vocabulary=false"


@pytest.fixture
def run_of(tmp_path):
    """A run on a small text, with sizes for it and settings besides."""
    for side, line in ("en", "This is sentence {}."), ("de", "Das ist der Satz {}."):
        (tmp_path / f"a.{side}").write_text("".join(f"{line.format(n)}\n" for n in range(20)))

    def make(*settings, sizes=(430, 430), name="run"):
        sized = zip(("source", "target"), sizes, strict=True)
        experiment, origins = resolve(
            TASKS["custom"],
            "dtmt_tiny",
            MODELS["dtmt_tiny"],
            ["data.train_source=a.en", "data.train_target=a.de", *settings],
            sized=[(f"data.{side}_vocab_size", size, f"{SIZED}text") for side, size in sized],
        )
        places = tmp_path / "runs" / name, tmp_path, tmp_path / "cache"
        return Run(experiment, *places, origins)

    return make


@pytest.mark.parametrize("settings", [(), (EACH,), (EACH, "data.reverse=true")], ids=str)
def test_the_text_s_own_number_is_what_the_settings_say_and_make_again(run_of, settings):
    run = run_of(*settings)
    found = run.vocabulary
    sizes = found.source.size, found.target.size
    data = run.experiment.data
    assert (data.source_vocab_size, data.target_vocab_size) == sizes < (430, 430)
    assert run.origins["data.source_vocab_size"].startswith(f"{SIZED}all the sub-words")
    given = sizes[::-1] if "data.reverse=true" in settings else sizes
    again = [f"data.{s}_vocab_size={n}" for s, n in zip(("source", "target"), given, strict=True)]
    other = run_of(*settings, *again, name="other")
    assert other.vocabulary.fingerprint == found.fingerprint
    assert other.experiment.data == data


def test_subwords_that_are_there_are_taken_and_said_to_be_as_many(run_of, monkeypatch):
    first = run_of()
    found = first.vocabulary
    monkeypatch.setattr("dtmt_tf.runs.subwords._train", None)
    again = run_of()
    assert again.vocabulary.fingerprint == found.fingerprint
    assert again.settings() == first.settings()


@pytest.mark.parametrize("damaged", ["{", '{"settings": 5}'])
@pytest.mark.parametrize("begins", [True, False], ids=["with another", "by itself"])
def test_a_damaged_record_of_settings_does_not_change_how_many_there_are(run_of, begins, damaged):
    other = run_of(name="other") if begins else None
    if other:
        _ = other.vocabulary
        other.checkpoints.save(checkpoint(10))
    sizes = (30, 30) if begins else (430, 430)

    def opened():
        run = run_of(sizes=sizes)
        run.init_from = other
        return run

    first = opened()
    first.write_settings()
    first.checkpoints.save(checkpoint(10))
    (first.work / "experiment.json").write_text(damaged)
    again = opened()
    check_beginning(again)
    assert again.vocabulary.fingerprint == first.vocabulary.fingerprint
    assert again.settings() == first.settings()
    again.write_settings()
    assert again.record().get("init_from") == first.beginning()


def test_a_size_that_the_user_set_is_refused_with_the_most_that_there_are(run_of):
    most = run_of().vocabulary.source.size
    shutil.rmtree(run_of().work)
    told = rf"`data.source_vocab_size` should be at most {most}: .* Received: 430"
    with pytest.raises(UserError, match=told):
        _ = run_of("data.source_vocab_size=430").vocabulary


def test_enough_text_keeps_its_size(run_of):
    run = run_of(sizes=(60, 60))
    assert run.vocabulary.source.size == run.experiment.data.source_vocab_size == 60
    assert run.origins["data.source_vocab_size"] == f"{SIZED}text"
