"""A model whose search state grows, exported: the same translations in Python and in C++."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from dtmt_tf.config import DataConfig, DecodingConfig, TrainingConfig
from dtmt_tf.export import Endpoints, export_saved_model
from dtmt_tf.models import TransformerConfig
from dtmt_tf.text import Vocabulary
from dtmt_tf.translator import Translator
from tests.cells.twin import randomise

RUNNER = Path(__file__).with_name("c_session.py")
LINES = ["a small dog runs", "two dogs run in the grass", "", "the cat sleeps on a mat"]


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The version's folder, and what the model makes of the lines."""
    vocabulary = Vocabulary.train(LINES * 10, LINES * 10, DataConfig(source_vocab_size=40))
    size = vocabulary.source.size
    config = TransformerConfig(8, 12, 2, 1, 2)
    model = randomise(config.build(size, size, TrainingConfig()), np.random.default_rng(1), 0.5)
    decoding = DecodingConfig(beam_size=3, extra_length=5)
    endpoints = Endpoints(model, vocabulary, decoding, 50, "en")
    outputs = endpoints.translate(tf.constant(LINES))
    folder = tmp_path_factory.mktemp("models") / "1"
    version = export_saved_model(endpoints, folder, {"task": "toy"})
    return version, (outputs["translation"], outputs["score"])


pytestmark = pytest.mark.filterwarnings("ignore:You are using a softmax over axis")  # one word


def test_python_gets_the_same(exported):
    folder, (translations, scores) = exported
    assert len(set(translations.numpy())) == 4
    for rows in ([0, 1, 2, 3], [1], [3, 0]):
        found = Translator(folder)([LINES[k] for k in rows])
        assert [each.text.encode() for each in found] == [translations.numpy()[k] for k in rows]
        values = [each.score for each in found]
        np.testing.assert_allclose(values, [scores[k] for k in rows], atol=1e-5)


def test_the_cpp_session_gets_the_same(exported):
    folder, (translations, scores) = exported
    result = subprocess.run(
        [sys.executable, RUNNER, folder, "--input", "text", "--batch", "4"],
        input="".join(f"{line}\n" for line in LINES),
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert result.returncode == 0, result.stderr
    outputs = json.loads(result.stdout)
    assert outputs["translation"] == [text.decode() for text in translations.numpy()]
    np.testing.assert_allclose(outputs["score"], scores, atol=1e-5)
