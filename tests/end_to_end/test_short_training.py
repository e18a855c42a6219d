"""A short training of the embedded task reaches a score that it does not reach when a part breaks.

`make quality` does the same at full size.
"""

import json
import subprocess
import sys

import pytest

from dtmt_tf.data.cldr import render_corpus
from tests.end_to_end.conftest import ROOT, run

pytestmark = pytest.mark.slow

SETTINGS = [
    *("data.max_tokens_per_batch=1024", "decoding.batch_size=1000"),
    *("training.max_steps=600", "training.validation_steps=600"),
    *("training.learning_rate=4e-4", "training.schedule_warmup=10"),  # the peak is 8 times that
    *("training.schedule_decay_start=1600", "training.schedule_decay_end=4800"),
]
# Seeds 1 to 3: BLEU 94.2 to 96.4, exact match 87.1 to 92.2 %. Broken, seed 1: BLEU 76.3 when cells
# forget (h' = z * c), 89.4 without decay, 13.7 at a constant lr0, 34.7 when no hypothesis finishes.
BOUNDS = {"bleu": 92.0, "exact_match": 82.0}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of runs, and what training said."""
    folder = tmp_path_factory.mktemp("quality")
    result = subprocess.run(
        [sys.executable, "pipelines/train.py", "--output-dir", folder, "--set", *SETTINGS],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert result.returncode == 0, result.stderr
    return folder, result.stdout


def test_a_short_training_reaches_its_score(trained):
    folder, said = trained
    path = folder / "cldr_ende" / "dtmt_tiny" / "train" / "scores.json"
    scores = json.loads(path.read_text())["test"]
    assert scores["num_sentences"] == 1000
    for name, bound in BOUNDS.items():
        assert scores[name] >= bound, said


def test_much_padding_changes_no_translation(trained):
    # Training has little padding, to which a model without the attention's mask gets used: it
    # scores BLEU 95.3. Beside a line of 150 digits, 37 of its 100 translations stay.
    folder, _ = trained
    lines = render_corpus("en", "de", {"test": 100})["test"][0]
    path = folder / "cldr_ende" / "dtmt_tiny" / "train" / "test.txt"
    alone = path.read_text(encoding="utf-8").split("\n")[:100]
    text = "".join(f"{line}\n" for line in [*lines, "7" * 150])
    result = run("translate", "--output-dir", folder, "--batch-size", "101", stdin=text)
    assert result.returncode == 0, result.stderr
    beside = result.stdout.split("\n")[:100]
    same = sum(a == b for a, b in zip(alone, beside, strict=True))
    assert same >= 98  # a tie may fall the other way
