"""A translator with random weights and two toys, served once for all tests of this folder."""

import shutil
import sys

import grpc
import numpy as np
import pytest
import requests
import tensorflow as tf
from tensorflow_serving.apis import prediction_service_pb2_grpc

from dtmt_tf.commands import client
from dtmt_tf.config import DataConfig, DecodingConfig, TrainingConfig
from dtmt_tf.export import Endpoints, export_saved_model
from dtmt_tf.models import TransformerConfig
from dtmt_tf.text import Vocabulary
from tests.cells.twin import randomise
from tests.serving.calls import LINES
from tests.serving.running import running_server
from tests.serving.shouter import over_grpc, over_rest
from tests.serving.toy import save_toy


class Shouter(tf.Module):
    """A model that translates and has no other signature."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
    def translate(self, text):
        """Gives the text in capitals."""
        return {"translation": tf.strings.upper(text, "utf-8")}


@pytest.fixture(scope="session")
def served_models(tmp_path_factory):
    """Folders by name: `translator`, whose newest version is 2, `toy`, and `shouter`."""
    folder = tmp_path_factory.mktemp("served")
    vocabulary = Vocabulary.train(LINES * 10, LINES * 10, DataConfig(source_vocab_size=40))
    size = vocabulary.source.size
    config = TransformerConfig(8, 12, 2, 1, 2)
    model = randomise(config.build(size, size, TrainingConfig()), np.random.default_rng(1), 0.5)
    decoding = DecodingConfig(beam_size=3, extra_length=5)
    translator = folder / "translator"
    export_saved_model(
        Endpoints(model, vocabulary, decoding, 20, "en"),
        translator / "2",
        {"task": "toy", "notes": "x" * 2000, "limits": {"max_lines": 128}},
    )
    (translator / "1").mkdir()  # older, so a server does not even look at it
    shutil.copytree(translator / "2", translator / "refused-3")
    save_toy(folder / "toy")
    shouter = Shouter()
    tf.saved_model.save(
        shouter,
        str(folder / "shouter" / "1"),
        signatures={"serving_default": shouter.translate},
    )
    return {"translator": translator, "toy": folder / "toy", "shouter": folder / "shouter"}


@pytest.fixture
def toy(tmp_path, served_models):
    """A run's folder with version 1."""
    return shutil.copytree(served_models["toy"], tmp_path / "toy")


@pytest.fixture(scope="session")
def server(served_models):
    """The server without batching."""
    with running_server(served_models, "--timeout=120", "--cors") as running:
        yield running


@pytest.fixture(scope="session")
def batching_server(served_models):
    """The server with batching, where a request waits half a second for others, and is given up
    after two.
    """
    options = (*("--batch-sizes", "1", "4", "16"), "--batch-timeout-micros=500000", "--timeout=2")
    with running_server(served_models, *options) as running:
        with requests.Session() as session:  # a slow machine may need both seconds for the first
            session.trust_env = False
            session.post(f"{running.rest}/v1/models/toy:predict", json={"inputs": ["a"]})
        yield running


@pytest.fixture(scope="session")
def in_python(served_models):
    """The translator's signatures as Python loads them: `in_python(signature, **inputs)`."""
    loaded = tf.saved_model.load(str(served_models["translator"] / "2"))

    def call(signature, **inputs):
        tensors = {name: tf.constant(value, tf.string) for name, value in inputs.items()}
        outputs = loaded.signatures[signature](**tensors)
        return {name: value.numpy() for name, value in outputs.items()}

    call.signatures = loaded.signatures
    return call


@pytest.fixture(scope="session")
def stub(server):
    """The official client of PredictionService."""
    with grpc.insecure_channel(server.grpc) as channel:
        yield prediction_service_pb2_grpc.PredictionServiceStub(channel)


@pytest.fixture(scope="session")
def batching_stub(batching_server):
    """The official client of the server with batching."""
    with grpc.insecure_channel(batching_server.grpc) as channel:
        yield prediction_service_pb2_grpc.PredictionServiceStub(channel)


@pytest.fixture(params=[over_rest, over_grpc], ids=["rest", "grpc"])
def protocol(request):
    """Serves a `Shouter` over either protocol."""
    return request.param


@pytest.fixture(params=["rest", "grpc"])
def translator(request, server):
    """The client's arguments for the translator in the server."""
    return [f"--{request.param}", getattr(server, request.param), "--model", "translator"]


@pytest.fixture
def run(monkeypatch, tmp_path, capsys):
    """Translates text with the client, in this process; returns the output and what it told."""

    def call(text, *arguments):
        source, target = tmp_path / "source", tmp_path / "target"
        source.write_text(text, "utf-8", "surrogateescape")
        argv = ["client.py", str(source), "-o", str(target), *map(str, arguments)]
        monkeypatch.setattr(sys, "argv", argv)
        assert client.command(argv[1:]) == 0
        return target.read_text(), capsys.readouterr().err

    return call
