"""The exported model answers under earlier releases of TensorFlow as under this one.

Skipped unless DTMT_OLD_TENSORFLOW names folders, parted by colons, each filled by

    pip install --no-deps --target FOLDER tensorflow-cpu==2.20.0 tensorflow-text==2.20.1
    pip install --no-deps --target FOLDER tensorflow-cpu==2.19.1 tensorflow-text==2.19.0

which takes 1.3 GB each.
"""

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

from dtmt_tf.config import DataConfig, DecodingConfig, TrainingConfig
from dtmt_tf.export import Endpoints, export_saved_model
from dtmt_tf.export.signatures import SIGNATURES
from dtmt_tf.models import DTMTConfig
from dtmt_tf.text import Vocabulary
from tests.cells.twin import randomise

FOLDERS = [name for name in os.environ.get("DTMT_OLD_TENSORFLOW", "").split(os.pathsep) if name]
LINES = ["a small dog runs", "two dogs run in the grass", "the cat sleeps on a mat", "Grüße 🙂"]
ANSWER = """
import ctypes, json, sys
sys.path.insert(0, sys.argv[1])
from c_session import CSession
with CSession(sys.argv[2]) as session:
    version = session._lib.TF_Version
    version.restype = ctypes.c_char_p
    requests = json.load(sys.stdin)
    answers = {name: session.run(name, inputs) for name, inputs in requests.items()}
print(json.dumps([version().decode(), answers]))
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not FOLDERS, reason="DTMT_OLD_TENSORFLOW names no folders"),
]


@pytest.fixture(scope="module")
def version_dir(tmp_path_factory):
    """A DTMT with random weights, exported."""
    vocabulary = Vocabulary.train(LINES * 10, LINES * 10, DataConfig(source_vocab_size=60))
    size = vocabulary.source.size
    config = DTMTConfig(8, 12, num_heads=2, encoder_depth=1, query_depth=1, decoder_depth=1)
    model = randomise(config.build(size, size, TrainingConfig()), np.random.default_rng(1), 0.5)
    decoding = DecodingConfig(beam_size=3, extra_length=5)
    endpoints = Endpoints(model, vocabulary, decoding, 20, "de")
    return export_saved_model(endpoints, tmp_path_factory.mktemp("models") / "1", {"task": "toy"})


def answer(version_dir, libraries=""):
    """Returns TensorFlow's version, and what every signature answers in its C++ session."""
    texts = [*LINES, "", " ".join(LINES * 5)]  # the last is translated in parts
    values = {"text": texts, "source": texts, "target": texts[::-1], "prefix": ["a"] * len(texts)}
    requests = {
        name: {key: values[key] for key in signature.inputs}
        for name, signature in SIGNATURES.items()
    }
    result = subprocess.run(
        [sys.executable, "-c", ANSWER, Path(__file__).parent, version_dir],
        input=json.dumps(requests),
        env={**os.environ, "PYTHONPATH": libraries},
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def expected(version_dir):
    version, answers = answer(version_dir)
    assert version == metadata.version("tensorflow")
    return answers


@pytest.mark.parametrize("folder", FOLDERS)
def test_an_earlier_release_gives_the_same(version_dir, expected, folder):
    version, answers = answer(version_dir, folder)
    (distribution,) = metadata.distributions(name="tensorflow-cpu", path=[folder])
    assert version == distribution.version != metadata.version("tensorflow")
    for name, outputs in expected.items():
        for key, values in outputs.items():
            answered = np.array(answers[name][key])
            if answered.dtype.kind == "U":
                assert answered.tolist() == values, (name, key)
            else:
                np.testing.assert_allclose(answered, values, atol=1e-5, err_msg=f"{name}, {key}")
