"""What a training says at its end can be copied and run."""

import re
import shlex
import sys

import pytest

from dtmt_tf.commands import common, options
from dtmt_tf.commands.next_steps import next_steps
from dtmt_tf.export.model_card import SERVER_IMAGE, SERVER_OPTIONS
from tests.end_to_end.conftest import ROOT


def commands_of(text):
    """The indented commands, continued lines joined."""
    lines = re.sub(r" \\\n +", " ", text).splitlines()
    return [shlex.split(line) for line in lines if line.startswith("    ")]


@pytest.mark.parametrize("name", ["mine", "two words"])
def test_commands_name_the_run_as_seen_from_here(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["/usr/bin/dtmt", "train"])
    folder = tmp_path / "saved_models" / "custom" / name
    folder.mkdir(parents=True)
    text = next_steps(folder, "validation")
    translate, evaluate, board, serve = commands_of(text)
    place = f"saved_models/custom/{name}"
    assert board == ["tensorboard", "--logdir", "saved_models"]  # it says custom/mine
    assert serve[-4:-2] == ["-v", f"$PWD/{place}:/models/dtmt"]
    assert serve[-2:] == [SERVER_IMAGE, SERVER_OPTIONS]
    assert translate[:2] == ["dtmt", "translate"]
    assert evaluate == ["dtmt", "evaluate", place, "--split", "validation"]
    parser = options.run_parser("dtmt translate", "", model="")
    assert common.model_place(parser.parse_args(translate[2:])).resolve() == folder
    assert max(map(len, text.splitlines())) <= 80
    found = commands_of(next_steps(folder, "test", tmp_path / "my texts"))
    assert found[1][3:] == ["--split", "test", "--data-dir", str(tmp_path / "my texts")]


def test_a_run_elsewhere_is_named_by_its_whole_path_and_a_script_by_its_door(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "argv", ["pipelines/train.py"])
    translate, evaluate, board, serve, page = commands_of(next_steps(tmp_path, "test"))
    assert translate == ["python", "pipelines/translate.py", "--model", str(tmp_path)]
    assert evaluate == ["python", "pipelines/evaluate.py", str(tmp_path), "--split", "test"]
    assert board[-1] == str(tmp_path.parents[1]) and f"{tmp_path}:/models/dtmt" in serve
    assert (ROOT / page[page.index("-d") + 1] / "index.html").exists()
