"""What may become a record, and what it holds of the run."""

import types

import pytest

from dtmt_tf.config import TrainingConfig
from dtmt_tf.errors import UserError
from dtmt_tf.runs import Run
from dtmt_tf.training import finished
from pipelines.papers import contrasts as contrasts_of
from pipelines.papers import records


def run_of(tmp_path, step, scores=(), parts=("test",), sizes=("validation", "test"), patience=0):
    """As much of a run as is looked at before anything is scored."""
    training = TrainingConfig(max_steps=100, patience=patience)
    scored = {"chrf": 1.0} if "validation" in sizes else {}
    history = [{"step": step}, *({"step": step, "bleu": score, **scored} for score in scores)]
    newest = types.SimpleNamespace(step=step, history=history)
    run = types.SimpleNamespace(
        folder=tmp_path,
        experiment=types.SimpleNamespace(data=None, training=training),
        scored_splits=list(parts),
        corpus=types.SimpleNamespace(sizes=sizes),
        members=[],
        newest=lambda: newest,
        finished=lambda: Run.finished(run),
        check_finished=lambda: Run.check_finished(run),
    )
    return run


@pytest.fixture(autouse=True)
def evaluate(monkeypatch):
    """Ends what scores a run, which was then found fit for it."""

    def interrupt(run, split):
        raise InterruptedError(split)

    monkeypatch.setattr("dtmt_tf.runs.evaluate", interrupt)


def test_an_unfinished_run_is_no_record(tmp_path):
    with pytest.raises(UserError, match="made 99 of 100 updates. Let it end first.$"):
        records.make_record(run_of(tmp_path, 99))
    with pytest.raises(InterruptedError, match="validation"):
        records.make_record(run_of(tmp_path, 100))
    killed = run_of(tmp_path, 100)
    killed.newest().history.clear()  # before its last update was scored
    with pytest.raises(
        UserError, match="100 updates. Let it end first: its last validation is missing"
    ):
        records.make_record(killed)


def test_a_run_that_was_stopped_early_is_one(tmp_path):
    with pytest.raises(InterruptedError):
        records.make_record(run_of(tmp_path, 50, [3.0, 2.0, 1.0], patience=2))
    with pytest.raises(UserError, match="made 50 of 100"):
        records.make_record(run_of(tmp_path, 50, [3.0, 2.0, 3.5], patience=2))


def test_an_ensemble_is_finished_when_its_members_are(tmp_path):
    united = run_of(tmp_path, 0)
    united.members = [run_of(tmp_path / "a", 100), run_of(tmp_path / "b", 70)]
    with pytest.raises(UserError, match="b has made 70 of 100"):
        records.make_record(united)
    united.members[1] = united.members[0]
    with pytest.raises(InterruptedError):
        records.make_record(united)


def test_a_run_without_anything_to_score_is_named(tmp_path):
    with pytest.raises(UserError, match="no test split"):
        records.make_record(run_of(tmp_path, 100, parts=()))


@pytest.mark.parametrize(
    ("step", "scores", "patience", "expected"),
    [
        (99, [], 0, False),
        (100, [], 0, True),
        (50, [3.0, 2.0], 2, False),
        (50, [3.0, 2.0, 2.9], 2, True),
        (50, [3.0, 2.0, 3.0], 2, True),
        (50, [3.0, 2.0, 3.1], 2, False),
        (50, [3.0, 2.0, 1.0], 0, False),
    ],
)
def test_training_ends_after_its_updates_or_old_scores(step, scores, patience, expected):
    training = TrainingConfig(max_steps=100, patience=patience)
    assert finished(training, step, [{"bleu": score} for score in scores]) == expected


def test_contrasts_of_sources_that_were_trained_on_are_left_out_whatever_their_blanks():
    sources = ["A  word\u00a0more.", "For the  Future"]
    contrasts = [
        types.SimpleNamespace(source=source)
        for source in (" A word more.", "For the\u2009Future ", "For theFuture", "Another one.")
    ]
    assert contrasts_of.unseen(contrasts, sources) == contrasts[2:]
