"""What is measured lives in processes of its own, runs in turn, and names its commit."""

import argparse
import os
import re
import shutil
import subprocess

import pytest

from dtmt_tf.errors import UserError
from dtmt_tf.planning import processes
from pipelines.benchmark import command as benchmark
from pipelines.benchmark import timing
from tests.pipelines import pocket


def test_a_subject_lives_in_a_process_of_its_own(monkeypatch):
    monkeypatch.setattr(processes, "start_quietly", pocket.idle)
    options = argparse.Namespace(threads=(1, 1), devices=(), env=["POCKET=a=b"], value="here")
    subject = timing.Elsewhere(pocket.Pocket, options)
    value, age, process, variable = subject.ask("look", "POCKET")
    assert (value, variable) == ("here", "a=b")
    assert "POCKET" not in os.environ
    assert process != os.getpid()
    assert 0 < age < 600  # counts from before the process began
    with pytest.raises(UserError, match="not here"):
        subject.ask("refuse")
    with pytest.raises(UserError, match="memory"):
        subject.ask("die")
    subject.close()


def test_windows_are_run_in_turn():
    class Subject:
        def __init__(self, name):
            self.name = name

        def ask(self, method):
            order.append(self.name)
            return {"amount": len(order)}

    order = []
    found = timing.in_turn({name: Subject(name) for name in "ab"}, 3)
    assert "".join(order) == "abbaab"
    assert [window["amount"] for window in found["a"]] == [1, 4, 5]


def test_a_result_names_the_commit_that_was_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(benchmark, "__file__", str(tmp_path / "command.py"))
    assert benchmark._commit() == ""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    for name in [name for name in os.environ if name.startswith("GIT_")]:  # those of a hook
        monkeypatch.delenv(name)
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):  # which may sign, or have hooks
        monkeypatch.setenv(name, os.devnull)
    author = ["-c", "user.name=a", "-c", "user.email=a@b"]
    (tmp_path / "a").write_text("1")
    for arguments in (["init", "-q"], ["add", "a"], [*author, "commit", "-qm", "a"]):
        subprocess.run(["git", *arguments], cwd=tmp_path, check=True)
    first = benchmark._commit()
    assert re.fullmatch("[0-9a-f]{7,}", first)
    (tmp_path / "a").write_text("2")
    assert benchmark._commit() == first + "+"
