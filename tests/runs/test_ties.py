"""What a run's checkpoints are tied to, and which runs may be members of an ensemble."""

import json
import shutil

import pytest

from dtmt_tf.config import DataConfig
from dtmt_tf.errors import UserError
from dtmt_tf.runs import Run, unite
from dtmt_tf.runs.subwords import note_subwords
from dtmt_tf.runs.weights import best_weights
from dtmt_tf.text import Vocabulary
from tests.end_to_end.test_older_artifacts import unpack


@pytest.fixture
def older(tmp_path):
    """A run of version 0.1, which made no mark and noted no sub-words."""
    return opened(unpack("run-0.1", tmp_path) / "custom" / "older")


def opened(folder):
    top = folder.parents[1]
    return Run.open(folder, top, top / "cache")


def test_subwords_of_an_earlier_version_are_noted_once_and_no_others_accepted(older, caplog):
    caplog.set_level("INFO")
    for _ in range(2):
        note_subwords(older)
    assert caplog.text.count("did not note its sub-words") == 1
    noted = json.loads((older.work / "experiment.json").read_text())["vocabulary"]
    assert noted == older.vocabulary.fingerprint
    other = shutil.copytree(older.folder, older.folder.parent / "other")
    lines = (older.data_dir / "train.de").read_text().splitlines()
    Vocabulary.train(lines, lines, DataConfig(source_vocab_size=40)).save(other / "train")
    for read in (lambda run: run.vocabulary, best_weights):
        with pytest.raises(UserError, match="are not those that the run was trained with"):
            read(opened(other))


def test_a_member_that_has_not_come_to_its_end_is_refused(older):
    assert not older.finished()
    other = opened(shutil.copytree(older.folder, older.folder.parent / "other"))
    with pytest.raises(UserError, match="older has made 331 of 600 updates. Let it end first"):
        unite([older, other], older.folder.parent / "united")
    assert not (older.folder.parent / "united").exists()
