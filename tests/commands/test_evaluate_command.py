"""`dtmt evaluate`: what can not be scored is refused before anything is read or translated."""

import sys

import pytest

import dtmt_tf.runs
from dtmt_tf import startup
from dtmt_tf.commands import evaluate
from dtmt_tf.errors import UserError


def test_comet_takes_one_reference(monkeypatch):
    monkeypatch.setattr(startup, "start_tensorflow", lambda *_, **__: None)
    files = ["--hypotheses", "new.de", "--sources", "text.en", "--comet", "m"]
    with pytest.raises(UserError, match="one reference. Received: 2. Name one of"):
        evaluate.command(["--references", "a.de", "b.de", *files])


def test_comet_is_loaded_before_anything_is_translated(monkeypatch, tmp_path):
    monkeypatch.setattr(startup, "start_tensorflow", lambda *_, **__: None)
    monkeypatch.setitem(sys.modules, "comet", None)
    monkeypatch.setattr(dtmt_tf.runs.Run, "open", lambda *_: None)
    monkeypatch.setattr(dtmt_tf.runs, "evaluate", lambda *_: pytest.fail("it translates"))
    with pytest.raises(UserError, match="pip install unbabel-comet"):
        evaluate.command([str(tmp_path), "--comet", "m"])


def test_files_have_no_splits():
    with pytest.raises(UserError, match="--split is for runs"):
        evaluate.command(["--references", "a.de", "--hypotheses", "b.de", "--split", "test"])
