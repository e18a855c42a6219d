"""The other direction, several training files, no test split: from files to scores."""

import json

import pytest
import tensorflow as tf

from dtmt_tf import runs
from tests.end_to_end.conftest import numbers
from tests.end_to_end.killing import MODELS

MODEL = "transformer_tiny"  # it starts in half the time of a DTMT
SIZES = {"a": 60, "b": 60, "dev": 8, "more": 5}
SETTINGS = [
    *("data.source_language=en", "data.target_language=de", "data.reverse=true"),
    *("data.train_source=a.en,b.en", "data.train_target=a.de,b.de"),
    *("data.validation_source=dev.en", "data.validation_target=dev.de"),
    *("data.joint_vocabulary=false", "data.source_vocab_size=14", "data.target_vocab_size=40"),
    *("data.max_length=40", "training.max_steps=2", "training.validation_steps=2"),
    *("decoding.extra_length=5", *MODELS[MODEL]),
]


@pytest.fixture
def without_graphs(monkeypatch):
    """Runs TensorFlow's functions as Python: each is called a few times."""
    monkeypatch.setattr(runs, "publish", lambda run, **_: run.folder)  # other tests export
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.mark.filterwarnings(
    "ignore:Even though the `tf.config:UserWarning",  # tf.data's remain
    "ignore:(.|\n)*You are using a softmax over axis:UserWarning",  # one word
)
@pytest.mark.usefixtures("without_graphs")
def test_a_reversed_run_says_so_and_is_scored_on_validation_for_want_of_a_test(
    here, tmp_path, caplog
):
    caplog.set_level("INFO")
    seen = set()
    for seed, (name, count) in enumerate(SIZES.items()):
        sides = zip(*numbers(count, seed, seen), strict=True)
        for language, lines in zip(("en", "de"), sides, strict=True):
            text = "".join(f"{line}\n" for line in lines)
            (tmp_path / f"{name}.{language}").write_text(text, encoding="utf-8")
    place = ["--data-dir", tmp_path, "--output-dir", tmp_path]
    which = [*place, "--task", "custom", "--model", MODEL, "--name", "back"]

    trained = here("train", *which, "--devices", "CPU:0", "--set", *SETTINGS)
    assert trained.returncode == 0, trained.stderr
    assert "Pairs: 120 train, 8 validation" in caplog.text
    heading = f"custom de-en {MODEL} validation (there is no test; training saw these scores):"
    assert heading in trained.stdout.splitlines()
    work = tmp_path / "custom" / "back" / "train"
    assert list(json.loads((work / "scores.json").read_text())) == ["validation"]
    data = json.loads((work / "experiment.json").read_text())["settings"]["data"]
    assert (data["source_language"], data["target_language"]) == ("de", "en")
    assert (data["train_source"], data["train_target"]) == (["a.de", "b.de"], ["a.en", "b.en"])

    scored = here("evaluate", *which, "--split", "more", "--set", "data.extra_tests=more")
    assert scored.returncode == 0, scored.stderr
    assert scored.stdout.startswith("sentences    5\n")
    assert len((tmp_path / "custom/back/train/more.txt").read_text().splitlines()) == 5
