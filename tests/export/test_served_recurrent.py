"""An exported DTMT answers in the C++ session as in Python, and under earlier releases, too.

Those are skipped unless DTMT_OLD_TENSORFLOW names folders, parted by colons, each filled by

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
import tensorflow as tf

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

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def endpoints():
    """A DTMT with random weights, and what its signatures do."""
    vocabulary = Vocabulary.train(LINES * 10, LINES * 10, DataConfig(source_vocab_size=60))
    size = vocabulary.source.size
    config = DTMTConfig(8, 12, num_heads=2, encoder_depth=1, query_depth=1, decoder_depth=1)
    model = randomise(config.build(size, size, TrainingConfig()), np.random.default_rng(1), 0.5)
    decoding = DecodingConfig(beam_size=3, extra_length=5)
    return Endpoints(model, vocabulary, decoding, 20, "de")


@pytest.fixture(scope="module")
def version_dir(endpoints, tmp_path_factory):
    """It exported."""
    return export_saved_model(endpoints, tmp_path_factory.mktemp("models") / "1", {"task": "toy"})


TEXTS = [*LINES, "", " ".join(LINES * 5)]  # the last is translated in parts
VALUES = {"text": TEXTS, "source": TEXTS, "target": TEXTS[::-1], "prefix": ["a"] * len(TEXTS)}


def answer(version_dir, libraries=""):
    """Returns TensorFlow's version, and what every signature answers in its C++ session."""
    requests = {
        name: {key: VALUES[key] for key in signature.inputs}
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
def answers(version_dir):
    version, found = answer(version_dir)
    assert version == metadata.version("tensorflow")
    return found


def assert_equal(found, expected, tolerance, name):
    """Texts are the same, numbers nearly."""
    found = np.array(found)
    if found.dtype.kind == "U":
        assert found.tolist() == expected, name
    else:
        np.testing.assert_allclose(found, expected, atol=tolerance, err_msg=name)


def test_every_signature_answers_in_the_c_session_as_in_python(endpoints, answers):
    for name, signature in SIGNATURES.items():
        if name == "info":  # says what is in the file
            continue
        texts = [tf.constant(VALUES[key]) for key in signature.inputs]
        for key, value in getattr(endpoints, name)(*texts).items():
            values = value.numpy()
            if values.dtype == object:
                values = np.char.decode(values.astype(bytes)).tolist()
            assert_equal(answers[name][key], values, 1e-4, f"{name}, {key}")


@pytest.mark.skipif(not FOLDERS, reason="DTMT_OLD_TENSORFLOW names no folders")
@pytest.mark.parametrize("folder", FOLDERS)
def test_an_earlier_release_gives_the_same(version_dir, answers, folder):
    version, found = answer(version_dir, folder)
    (distribution,) = metadata.distributions(name="tensorflow-cpu", path=[folder])
    assert version == distribution.version != metadata.version("tensorflow")
    for name, outputs in answers.items():
        for key, values in outputs.items():
            assert_equal(found[name][key], values, 1e-5, f"{name}, {key}")
