"""The exported model is the model: in a strange process, and in the C++ session."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from dtmt_tf.batched_lines import translate_lines
from dtmt_tf.export import check_servable
from dtmt_tf.export.manifest import problems
from dtmt_tf.runs import Run, best_model, endpoints, translate_function
from dtmt_tf.translator import Translator, latest_version
from tests.end_to_end.conftest import ROOT, without_trial

ODD = ["", "   ", "12 345 " * 150, "🙂 12 👩‍👩‍👧", "漢字 7", "مرحبا 42", "x\ty\u00a0z", "e\u0301 9"]

STRANGER = """
import importlib.abc, json, sys
class Wall(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "dtmt_tf":
            raise ImportError(f"{name} is out of reach")
sys.meta_path.insert(0, Wall())
sys.modules.update(dict.fromkeys(("jax", "matplotlib", "sklearn")))  # it starts sooner
import tensorflow as tf, tensorflow_text
model = tf.saved_model.load(sys.argv[1])
translate = model.signatures["serving_default"]
lines = json.loads(sys.stdin.read())
for size in map(int, sys.argv[2:]):
    for start in range(0, len(lines), size):
        outputs = translate(text=tf.constant(lines[start : start + size]))
        for text, score in zip(outputs["translation"].numpy(), outputs["score"].numpy()):
            print(json.dumps([text.decode(), float(score)]))
"""


@pytest.fixture(scope="module")
def expected(workshop):
    """Lines, and what the Python decoder makes of them."""
    opened = Run.open(workshop.run_folder, None, workshop.folder)
    model, _ = best_model(opened)
    lines = (workshop.folder / "test.source").read_text().splitlines() + ODD
    outputs = tf.function(endpoints(opened, model).translate)(tf.constant(lines))
    texts = translate_lines(lines, translate_function(opened, model), 32)
    assert texts == [text.decode() for text in outputs["translation"].numpy()]
    return lines, texts, outputs["score"].numpy()


@pytest.fixture(scope="module")
def signature(workshop):
    """What the export answers in this process."""
    return tf.saved_model.load(str(workshop.run_folder / "1")).signatures["serving_default"]


def same(rows, expected):
    _, translations, scores = expected
    assert [row[0] for row in rows] == translations
    np.testing.assert_allclose([row[1] for row in rows], scores, atol=1e-5)


def test_a_process_without_the_package_gets_the_same(workshop, expected, tmp_path):
    result = subprocess.run(
        [sys.executable, "-c", STRANGER, workshop.run_folder / "1", "1", "32"],
        input=json.dumps(expected[0]),
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=1800,
    )
    assert result.returncode == 0, result.stderr
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    half = len(expected[0])
    same(rows[:half], expected)
    same(rows[half:], expected)


@pytest.mark.parametrize("batch_size", [1, 32])
def test_the_cpp_session_gets_the_same(workshop, expected, batch_size):
    result = subprocess.run(
        [sys.executable, ROOT / "tests/export/c_session.py", workshop.run_folder / "1",
         "--input", "text", "--batch", str(batch_size)],
        input="".join(f"{line}\n" for line in expected[0]),
        capture_output=True,
        text=True,
        timeout=1800,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    batches = [json.loads(line) for line in result.stdout.splitlines()]
    rows = [row for batch in batches
            for row in zip(batch["translation"], batch["score"], strict=True)]  # fmt: skip
    same(rows, expected)


def test_blank_lines_stay_blank(expected):
    lines, translations, scores = expected
    blank = [k for k, line in enumerate(lines) if not line.strip()]
    assert len(blank) == 2
    assert [(translations[k], scores[k]) for k in blank] == [("", 0.0)] * 2


def test_no_rows_in_no_rows_out_and_bad_bytes_are_survived(signature):
    empty = signature(text=tf.constant([], tf.string))
    assert empty["translation"].shape == (0,) and empty["score"].shape == (0,)
    mixed = signature(text=tf.constant([b"\xff\xfe 12", b"31"]))
    alone = signature(text=tf.constant([b"31"]))
    mixed["translation"].numpy()[0].decode("utf-8")
    assert mixed["translation"][1] == alone["translation"][0]


def test_versions_count_up(workshop, here, tmp_path, monkeypatch):
    copy = shutil.copytree(workshop.run_folder, tmp_path / "digits")
    release = sys.modules["dtmt_tf.export.release"]  # the package has the function of that name
    monkeypatch.setattr(
        release, "export_saved_model", lambda _, folder, *__: (folder / "saved_model.pb").touch()
    )
    without_trial(monkeypatch)
    same, forced = (here("export", copy, *options) for options in ([], ["--force"]))
    assert (same.returncode, forced.returncode) == (0, 0), same.stderr + forced.stderr
    assert latest_version(copy) == copy / "2" and problems(copy / "2") == []
    assert same.stdout == f"Exported to {copy / '1'}\n"
    assert forced.stdout == f"Exported to {copy / '2'}\n"


def test_a_version_carries_its_records(workshop):
    version = latest_version(workshop.run_folder)
    assert version.name == "1" and problems(version) == []
    manifest = json.loads((version / "manifest.json").read_text())
    assert manifest["canary"]["bleu"] > 60
    assert check_servable(version) == []
    assert json.loads((version / "scores.json").read_text())["test"]["bleu"] > 60
    settings = json.loads((version / "experiment.json").read_text())
    assert settings["settings"]["model"]["model_dim"] == 32
    assert settings["origins"]["model.model_dim"] == "--set"


def test_a_packed_model_is_had_by_its_name_from_a_catalogue(
    workshop, signature, here, tmp_path, monkeypatch
):
    catalogue = tmp_path / "models.json"
    done = here("pack", workshop.run_folder, "--name", "digits", "--license", ROOT / "LICENSE",
                "--output", tmp_path)  # fmt: skip
    assert done.returncode == 0, done.stderr
    command = f"DTMT_MODELS={catalogue} python pipelines/translate.py --model digits"
    assert f"{command} --output-dir {tmp_path}" in done.stdout  # where no run of that name lies
    monkeypatch.setenv("DTMT_MODELS", catalogue.as_uri())
    monkeypatch.chdir(tmp_path)
    translator = Translator.load("digits")
    assert translator.folder.parents[1].name == "digits"
    text = signature(text=tf.constant(["31 4"]))["translation"].numpy()[0].decode()
    assert translator(["31 4"])[0].text == text
