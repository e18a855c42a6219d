"""A run that version 0.1 was stopped in, and a model that it exported, are as good as new ones.

Each archive in `tests/fixtures` is kept for all later versions. Its `made-by.sh` says how it came
about: a training of 600 updates, stopped after 331.
"""

import json
import re
import tarfile
from pathlib import Path

import pytest

from dtmt_tf.training import summaries
from dtmt_tf.translator import Translator
from tests.end_to_end.conftest import picture, tags_of, with_few_signatures, without_trial

pytestmark = pytest.mark.slow

FIXTURES = Path(__file__).parents[1] / "fixtures"
# BLEU of 30 lines. Versions of TensorFlow and processors round otherwise: over 270 updates that may
# turn a few words. Adam begun anew has 35.4, another order of batches 42.3.
TOLERANCE = 1.0


def unpack(name, folder):
    with tarfile.open(FIXTURES / f"{name}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture(scope="module")
def run_0_1(tmp_path_factory):
    """The folder that the stopped run lies in, with its corpus."""
    return unpack("run-0.1", tmp_path_factory.mktemp("run"))


def command_of(folder):
    """The command that made the run, of which this version's resumes it."""
    made_by = (folder / "made-by.sh").read_text()
    values = dict(re.findall(r'^(\w+)="(.*)"$', made_by, re.MULTILINE))
    assert "$P/train.py $common --name older  --model dtmt_tiny --set $S" in made_by
    common = values["common"].replace("--output-dir runs", "--output-dir .").split()
    return [*common, "--name", "older", "--model", "dtmt_tiny", "--set", *values["S"].split()]


def test_a_run_goes_on_to_its_end_is_scored_and_exported(run_0_1, here, monkeypatch, caplog):
    caplog.set_level("INFO")
    without_trial(monkeypatch)
    with_few_signatures(monkeypatch)
    monkeypatch.setattr(summaries, "attention_image", picture)
    monkeypatch.chdir(run_0_1)
    result = here("train", "--devices", "CPU:0", *command_of(run_0_1))
    assert result.returncode == 0, result.stderr
    assert "resuming after update 331" in caplog.text
    expected = json.loads((run_0_1 / "scores-after-600.json").read_text())["test"]
    work = run_0_1 / "custom" / "older" / "train"
    found = json.loads((work / "scores.json").read_text())["test"]
    assert found["bleu"] == pytest.approx(expected["bleu"], abs=TOLERANCE)
    assert found["bleu_signature"] == expected["bleu_signature"]
    assert found["checkpoint_steps"] == expected["checkpoint_steps"] == [600]
    assert found["training"]["target_words"] == expected["training"]["target_words"]
    exported = Translator.load(run_0_1 / "custom" / "older")
    lines = (run_0_1 / "test.en").read_text().splitlines()
    translations = [translation.text for translation in exported(lines)]
    assert translations == (work / "test.txt").read_text().splitlines()
    tags = tags_of(run_0_1 / "custom" / "older")
    for tag in (
        *("5 gradient norms/backward/lgru", "5 gradient norms/query/tgru_1"),
        *("6 gates/forward/lgru/r", "6 gates/query/lgru/l", "6 gates/transition/tgru_1/z"),
    ):
        assert any(found.startswith(tag) for found in tags), (tag, sorted(tags))


def test_a_model_translates_as_it_did(tmp_path):
    folder = unpack("export-0.1", tmp_path)
    rows = [line.split("\t") for line in (folder / "exported.tsv").read_text().splitlines()]
    lines = (folder / "test.en").read_text().splitlines()
    found = Translator.load(folder / "custom" / "older")(lines)
    assert [each.text for each in found] == [text for text, _ in rows]
    expected = [float(score) for _, score in rows]
    assert [each.score for each in found] == pytest.approx(expected, abs=1e-3)
