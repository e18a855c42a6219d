"""What a session does before it trains, and the training pairs that it trains on."""

from types import SimpleNamespace

import pytest
import tensorflow as tf

from dtmt_tf.data.batch import BatchPlan
from dtmt_tf.errors import UserError
from dtmt_tf.runs import Session, session
from dtmt_tf.training import Limits, make_strategy
from tests.runs.test_scoring import CORPUS, SMALL, VALIDATION, run_of


@pytest.fixture
def begun(tmp_path, monkeypatch):
    """Begins a session of a run with settings, up to where it trains; gives what it asked for."""
    asked = []
    kernels = tf.config.experimental
    monkeypatch.setattr(kernels, "enable_op_determinism", lambda: asked.append("deterministic"))
    monkeypatch.setattr(Session, "_train", lambda self: asked.append("trained"))

    def begin(*settings):
        Session(run_of("custom", tmp_path, *settings), make_strategy(False, ["CPU:0"])).train()
        return asked

    return begin


def test_kernels_are_deterministic_where_the_setting_says_so(begun):
    assert begun() == ["trained"]
    assert begun("training.deterministic=true") == ["trained", "deterministic", "trained"]


@pytest.mark.parametrize(
    ("precision", "has_bfloat16", "told"),
    [("bfloat16", False, True), ("bfloat16", True, False), ("float32", False, False)],
)
def test_a_processor_that_multiplies_bfloat16_slowly_is_told(
    precision, has_bfloat16, told, begun, monkeypatch, caplog
):
    monkeypatch.setattr(session, "multiplies_bfloat16", lambda: has_bfloat16)
    begun(f"training.precision={precision}")
    assert ("training.precision=float32 is faster" in caplog.text) is told


def test_settings_reach_order_batches_checkpoints_and_limits(corpus, monkeypatch):
    class Enough(Exception):
        pass

    def trainer(step, pairs, plan, folder, validator, *, limits, **_):
        assert (plan.seed, pairs.seed) == (7, 7)
        assert plan.sizes[0] == 3 * run.experiment.data.batch_size(plan.bounds[0])
        assert (folder.keep_last, folder.keep_best) == (2, 1)
        assert limits is given and validator.fingerprint
        raise Enough

    monkeypatch.setattr(session, "Trainer", trainer)
    given = Limits(5.0, ["training.max_steps"])
    kept = "training.keep_last=2", "training.keep_best=1"
    drawn = "training.seed=7", "training.accumulation_steps=3", "training.subword_dropout_rate=0.1"
    run = run_of("custom", corpus, *CORPUS, *VALIDATION, *SMALL, *kept, *drawn)
    with pytest.raises(Enough):
        Session(run, make_strategy(False, ["CPU:0"]), given).train()


def test_trackers_are_told_of_no_training_that_is_refused(corpus, monkeypatch):
    class Refusing:
        def __init__(self, *_, **__):
            self.summaries = SimpleNamespace(trackers=[])

        def restore(self):
            raise UserError("The settings have changed")

    opened = []
    monkeypatch.setattr(session, "Trainer", Refusing)
    monkeypatch.setattr(session, "check_trackers", lambda names: None)
    monkeypatch.setattr(session, "open_trackers", lambda *given: opened.append(given))
    run = run_of("custom", corpus, *CORPUS, *VALIDATION, *SMALL)
    with pytest.raises(UserError, match="have changed"):
        Session(run, make_strategy(False, ["CPU:0"]), trackers=["mlflow"]).train()
    assert not opened


def test_dropped_merges_cut_the_pairs_anew_in_each_epoch(tmp_path):
    texts = {"en": "banana bandana " * 5 + "ban", "de": "otto motto lotto " * 5 + "ton"}
    for side, text in texts.items():
        (tmp_path / f"train.{side}").write_text(f"{text}\n")
    for rate, anew in ((0.0, False), (0.3, True)):
        sizes = ["data.source_vocab_size=24", f"training.subword_dropout_rate={rate}"]
        run = run_of("custom", tmp_path, *CORPUS, *sizes)
        pairs = run.training_set()
        assert run.shards.with_text is anew
        plan = BatchPlan(run.experiment.data, pairs.lengths, 1, 1)
        epochs = list(pairs.batches(plan, 0, 2))  # of the only pair
        languages = run.vocabulary.source, run.vocabulary.target
        for first, second, text, subwords in zip(*epochs, texts.values(), languages, strict=True):
            assert (first.numpy().tolist() != second.numpy().tolist()) is anew
            for ids in (first, second):
                assert subwords.decode(ids).numpy() == [text.encode()]
