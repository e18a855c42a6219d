"""What a request asks for beyond the export's limits is refused, in every signature, by name."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import config_pb2, saved_model_pb2

from dtmt_tf.config import DataConfig, DecodingConfig, ExportConfig, TrainingConfig
from dtmt_tf.export import Endpoints, export_saved_model
from dtmt_tf.export.signatures import SIGNATURES
from dtmt_tf.models import TransformerConfig
from dtmt_tf.text import Vocabulary
from tests.cells.twin import randomise

LINES = ["a small dog runs", "two dogs run in the grass", "the cat sleeps on a mat"]
LONGEST, EXTRA = 10, 5
LIMITS = ExportConfig(max_lines=4, max_bytes=80, max_parts=3, max_tokens=64)
PART = " ".join("a" * (LONGEST - 1))  # with its <eos> a whole part
TWO, THREE = " ".join([PART] * 2), " ".join([PART] * 3)
IN_CPP = """
import json, sys
sys.path.insert(0, sys.argv[1])
from c_session import CSession, CSessionError
with CSession(sys.argv[2]) as session:
    for line in sys.stdin:
        try:
            print(json.dumps(["OK", session.run(*json.loads(line))]))
        except CSessionError as error:
            print(json.dumps([error.code, str(error)]))
"""


@pytest.fixture(scope="module")
def endpoints():
    """A model with random weights and low limits."""
    vocabulary = Vocabulary.train(LINES * 9, LINES * 9, DataConfig(source_vocab_size=60))
    size = vocabulary.source.size
    config = TransformerConfig(8, 12, 2, 1, 1)
    model = randomise(config.build(size, size, TrainingConfig()), np.random.default_rng(1), 1.0)
    decoding = DecodingConfig(beam_size=2, extra_length=EXTRA)
    endpoints = Endpoints(model, vocabulary, decoding, LONGEST, "de", LIMITS)
    assert len(endpoints.source.encode([PART])[0]) == LONGEST
    return endpoints


@pytest.fixture(scope="module")
def version(endpoints, tmp_path_factory):
    """The model, exported."""
    folder = tmp_path_factory.mktemp("models") / "1"
    card = {"limits": endpoints.described_limits()}
    options = tf.config.optimizer.get_experimental_options()["disable_meta_optimizer"]
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": False})  # as for users
    try:
        export_saved_model(endpoints, folder, card)
        assert not tf.config.optimizer.get_experimental_options()["disable_meta_optimizer"]
    finally:
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": options})
    return folder


@pytest.fixture(scope="module")
def signatures(version):
    """Those of the model, loaded."""
    loaded = tf.saved_model.load(str(version))
    yield loaded.signatures


def of(signature, *texts):
    """The inputs of a signature; each gets the same texts."""
    return {name: list(texts) for name in SIGNATURES[signature].inputs}


MOST_LINES = "A request may hold at most 4 lines (export.max_lines). Received:] [5]"
MOST_BYTES = "A line may hold at most 80 bytes (export.max_bytes). Received:] [81]"
MOST_PARTS = "A line may be cut into at most 3 parts (export.max_parts). Received:] [4]"
MOST_TOKENS = (
    "A request may make the model write or score at most 64 tokens (export.max_tokens). Received:] "
)
BEYOND = [
    *((name, of(name, *"abcde"), MOST_LINES) for name in SIGNATURES),
    *((name, of(name, "a", "x" * 81), MOST_BYTES) for name in SIGNATURES),
    *(
        (name, of(name, f"{THREE} a"), MOST_PARTS)
        for name in ("translate", "translate_nbest", "align", "complete")
    ),
    # a part of 10 sub-words may be translated by 15, one of 2 by 7; align scores them once more
    ("translate", of("translate", THREE, PART, "a"), f"{MOST_TOKENS}[67]"),
    ("translate_nbest", of("translate_nbest", THREE, PART, "a"), f"{MOST_TOKENS}[67]"),
    ("align", of("align", TWO, PART, "a"), f"{MOST_TOKENS}[74]"),
    ("complete", {"source": [PART] * 4, "prefix": ["a a"] * 4}, f"{MOST_TOKENS}[68]"),
    ("score", of("score", TWO, PART, PART), f"{MOST_TOKENS}[78]"),
]
WITHIN = [
    *((name, of(name, *"aaaa")) for name in SIGNATURES),
    *((name, of(name, " " * 80)) for name in ("translate", "translate_nbest", "align", "info")),
    ("translate", of("translate", THREE, PART)),
    ("align", of("align", THREE, PART)),
    ("complete", {"source": [PART] * 4, "prefix": ["a"] * 4}),
    ("score", of("score", TWO, PART)),
]


def test_who_loads_it_is_told_to_leave_the_graphs_as_they_are(version):
    graph = saved_model_pb2.SavedModel.FromString((version / "saved_model.pb").read_bytes())
    functions = graph.meta_graphs[0].graph_def.library.function
    told = [
        config_pb2.ConfigProto.FromString(node.attr["config_proto"].s)
        for function in functions
        for node in function.node_def
        if "config_proto" in node.attr
    ]
    assert told
    assert all(each.graph_options.rewrite_options.disable_meta_optimizer for each in told)


def test_what_is_within_the_limits_is_answered(signatures):
    for name, inputs in WITHIN:
        outputs = signatures[name](**{key: tf.constant(texts) for key, texts in inputs.items()})
        number = len(next(iter(inputs.values())))
        assert {tensor.shape[0] for tensor in outputs.values()} == {number}


def test_what_is_beyond_is_refused_by_name(signatures):
    for name, inputs, message in BEYOND:
        with pytest.raises(tf.errors.InvalidArgumentError) as error:
            signatures[name](**{key: tf.constant(texts) for key, texts in inputs.items()})
        assert message in error.value.message, name


def test_what_is_accepted_is_known_without_the_work(endpoints):
    for name, inputs in WITHIN:
        assert endpoints.accepts(name, *inputs.values()), name
    for name, inputs, _ in BEYOND:
        assert not endpoints.accepts(name, *inputs.values()), name


def test_the_cpp_session_refuses_the_same(version):
    calls = [*WITHIN, *((name, inputs) for name, inputs, _ in BEYOND)]
    result = subprocess.run(
        [sys.executable, "-c", IN_CPP, Path(__file__).parent, version],
        input="".join(json.dumps(call) + "\n" for call in calls),
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert result.returncode == 0, result.stderr
    answers = [json.loads(row) for row in result.stdout.splitlines()]
    assert [code for code, _ in answers] == (
        ["OK"] * len(WITHIN) + ["INVALID_ARGUMENT"] * len(BEYOND)
    )
    for (name, _, message), (_, answer) in zip(BEYOND, answers[len(WITHIN) :], strict=True):
        assert message in answer, name


def test_the_model_tells_its_limits(signatures):
    info = signatures["info"](text=tf.constant([""]))["info"]
    limits = json.loads(info.numpy()[0])["limits"]
    wanted = {"max_lines": 4, "max_bytes": 80, "max_parts": 3, "max_tokens": 64}
    assert wanted.items() <= limits.items()
    assert (limits["longest_part"], limits["extra_length"]) == (LONGEST, EXTRA)
