"""Models of recurrent kinds, exported: the C++ session translates as Python does.

`test_served_recurrent.py` has DTMT, with all signatures.
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf

from dtmt_tf.config import DataConfig, DecodingConfig, ExportConfig, TrainingConfig
from dtmt_tf.decoding import Shortlist
from dtmt_tf.export import Endpoints
from dtmt_tf.models import (
    DeepLAUConfig,
    DeepRNNConfig,
    Ensemble,
    RecurrenceTransformerConfig,
)
from dtmt_tf.text import Vocabulary
from tests.cells.twin import randomise

LINES = ["a small dog runs", "two dogs run in the grass", "the cat sleeps on a mat", "Grüße"]
KINDS = {
    "bideep": {
        "encoder_depth": 2,
        "encoder_transition": 2,
        "decoder_depth": 2,
        "decoder_transition": 3,
        "high_cell": "rgru",
        "high_transition": 2,
    },
    "crgru": {
        "use_layer_norm": False,
        "encoder_above": 1,
        "decoder_depth": 2,
        "high_cell": "crgru",
        "high_transition": 2,
        "output_depth": 2,
    },
}
ANSWER = """
import json, sys
sys.path.insert(0, sys.argv[1])
from c_session import CSession
kinds, lines = json.load(sys.stdin)
with CSession(sys.argv[2]) as session:
    print(json.dumps({kind: session.run(kind, {"text": lines}) for kind in kinds}))
"""


def test_the_c_session_searches_as_python_does(tmp_path):
    """One SavedModel with a function for each kind, one of them with weights in int8."""
    vocabulary = Vocabulary.train(LINES * 10, LINES * 10, DataConfig(source_vocab_size=60))
    size = vocabulary.source.size
    module = tf.Module()
    module.tokenizers = [vocabulary.source.tokenizer, vocabulary.target.tokenizer]
    module.weights = []
    functions = {}
    configs = {kind: DeepRNNConfig(8, 12, **settings) for kind, settings in KINDS.items()}
    configs["biarn"] = RecurrenceTransformerConfig(8, 12, 2, 1, 2, fusion="gated_sum")
    configs["lau"] = DeepLAUConfig(8, 12, encoder_depth=2, decoder_depth=2)
    models = {
        kind: randomise(config.build(size, size, TrainingConfig()), np.random.default_rng(1), 0.5)
        for kind, config in configs.items()
    }
    models["ensemble"] = Ensemble([models.pop(kind) for kind in KINDS])
    for kind, model in models.items():
        few = Shortlist(np.full([size, 1], 3), np.arange(2, size, 2), size)
        shortlist = few if kind in ("lau", "biarn") else None
        prune = 2.0 if shortlist else 0.0
        decoding = DecodingConfig(beam_size=3, extra_length=5, prune=prune)
        limits = ExportConfig("int8" if kind == "lau" else "none")
        endpoints = Endpoints(model, vocabulary, decoding, 20, "de", limits, shortlist=shortlist)
        module.weights += endpoints.stored.variables
        function = tf.function(endpoints.translate_nbest, autograph=False)
        functions[kind] = function.get_concrete_function(tf.TensorSpec([None], tf.string, "text"))
    tf.saved_model.save(module, str(tmp_path / "1"), functions)
    result = subprocess.run(
        [sys.executable, "-c", ANSWER, Path(__file__).parent, tmp_path / "1"],
        input=json.dumps([list(models), LINES]),
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    different = set()
    for kind, found in json.loads(result.stdout).items():
        expected = functions[kind](tf.constant(LINES))
        translations = [[each.encode() for each in line] for line in found["translations"]]
        assert translations == expected["translations"].numpy().tolist()
        np.testing.assert_allclose(found["scores"], expected["scores"], atol=1e-4)
        different |= {each for line in translations for each in line}
    assert len(different) > 12
