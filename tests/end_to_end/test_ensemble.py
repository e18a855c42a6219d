"""Runs that predict together: made, scored, exported; and what is refused."""

import json
import shutil

import pytest

from dtmt_tf.errors import UserError
from dtmt_tf.runs import Run, best_model, evaluate, publish, unite
from dtmt_tf.translator import Translator
from tests.end_to_end.conftest import with_few_signatures, without_trial

pytestmark = pytest.mark.slow


def opened(folder):
    return Run.open(folder, None, folder)


def scores_of(folder):
    return json.loads((folder / "train" / "scores.json").read_text())["test"]


@pytest.fixture(scope="module")
def shelf(workshop, tmp_path_factory):
    """The run twice, its second copy at other weights: those of its first validation."""
    folder = tmp_path_factory.mktemp("ensemble") / "custom"
    for name in ("late", "early"):
        shutil.copytree(workshop.run_folder, folder / name)
    checkpoints = opened(folder / "early").checkpoints
    for step in checkpoints.steps()[-1:]:
        checkpoints.path(step).unlink()
    path = folder / "early" / "train" / "experiment.json"
    settings = json.loads(path.read_text())
    settings["settings"]["training"]["max_steps"] = opened(folder / "early").newest().step
    path.write_text(json.dumps(settings))  # it came to its end
    assert opened(folder / "early").newest().step < opened(folder / "late").newest().step
    return folder


def test_an_ensemble_is_made_scored_and_exported_by_its_name(shelf, here, monkeypatch):
    without_trial(monkeypatch)
    with_few_signatures(monkeypatch)
    places = ["--task", "custom", "--output-dir", shelf.parent]
    made = here("ensemble", *places, "late", "early")
    assert made.returncode == 0, made.stderr
    assert made.stdout == f"Ensemble of late, early: {shelf / 'ensemble'}\n"
    united = opened(shelf / "ensemble")
    evaluate(united, "test")
    scores = scores_of(shelf / "ensemble")
    members = [opened(shelf / name) for name in ("late", "early")]
    assert scores["training"]["updates"] == sum(each.newest().step for each in members)
    assert scores["parameters"] == 2 * scores_of(shelf / "late")["parameters"]
    version = publish(united)
    lines = (shelf / "ensemble" / "train" / "test.txt").read_text().splitlines()
    sources, _ = united.corpus.lines("test")
    assert lines != (shelf / "late" / "train" / "test.txt").read_text().splitlines()
    assert [each.text for each in Translator.load(version)(sources)] == lines
    card = (version / "MODEL_CARD.md").read_text()
    assert "2 models that predict together" in card
    command = "dtmt ensemble --task custom --name ensemble late early"
    assert f"```\n{command}\n```" in card


def test_how_weights_are_averaged_reaches_the_members(shelf):
    late, early = opened(shelf / "late"), opened(shelf / "early")
    unite([late, early], shelf / "averaged")
    change = ["training.average=last", "training.average_count=2", "decoding.beam_size=3"]
    united = Run.open(shelf / "averaged", None, shelf / "averaged", change)
    for each in (united, *united.members):
        assert (each.experiment.training.average, each.experiment.training.average_count) == (
            "last",
            2,
        )
    assert len(best_model(united)[1]) > 2


def test_an_ensemble_of_other_members_has_no_scores_of_the_former(shelf, monkeypatch):
    def missing(*_):
        raise UserError("a.en was not found")

    late, early = opened(shelf / "late"), opened(shelf / "early")
    folder = shelf / "changing"
    scores = unite([late, early], folder).work / "scores.json"
    scores.write_text("{}")
    unite([late, early], folder)
    assert scores.exists()  # and finished lines, of what was stopped
    with monkeypatch.context() as patch:
        patch.setattr("dtmt_tf.runs.run.load_corpus", missing)
        with pytest.raises(UserError, match="a.en was not found"):
            unite([early, late], folder)
    assert scores.exists()
    unite([early, late], folder)
    assert not scores.exists()
    names = [member.folder.name for member in opened(folder).members]
    assert names == ["early", "late"]


def test_what_does_not_fit_is_refused_and_nothing_is_lost(shelf, here):
    late, early = opened(shelf / "late"), opened(shelf / "early")
    before = (shelf / "early" / "train" / "experiment.json").read_bytes()
    with pytest.raises(UserError, match="early holds a run that was trained"):
        unite([late, late], shelf / "early")
    assert (shelf / "early" / "train" / "experiment.json").read_bytes() == before
    halfway = shutil.copytree(shelf / "early", shelf / "halfway")
    shutil.copy(shelf / "late" / "train" / "experiment.json", halfway / "train")
    with pytest.raises(UserError, match="halfway has made 320 of 640 updates. Let it end first"):
        unite([late, opened(halfway)], shelf / "more")
    twins = unite([late, early], shelf / "both")
    with pytest.raises(UserError, match="both is an ensemble itself"):
        unite([late, twins], shelf / "more")
    other = shutil.copytree(shelf / "early", shelf / "other")
    (other / "train" / "target.spm").write_bytes(b"others")
    with pytest.raises(UserError, match="other has other sub-words than .*late .target.spm"):
        unite([late, opened(other)], shelf / "more")
    shutil.rmtree(other / "train" / "checkpoints")
    with pytest.raises(UserError, match="no checkpoint. Train first"):
        unite([late, opened(other)], shelf / "more")
    assert not (shelf / "more").exists()
    result = here("ensemble", "--task", "custom", "--output-dir", shelf.parent, "late", "late")
    assert result.returncode == 2
    assert "each once. Received: late late" in result.stderr
