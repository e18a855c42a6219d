"""`dtmt serve`: what it serves, under which names, when versions change and when it is stopped."""

import shutil
import signal
import socket
import threading
import time
from http.client import HTTPConnection
from pathlib import Path
from types import SimpleNamespace

import grpc
import numpy as np
import pytest
import requests
from google.protobuf import text_format
from tensorflow_serving.apis.predict_pb2 import PredictRequest
from tensorflow_serving.apis.prediction_service_pb2_grpc import PredictionServiceStub
from tensorflow_serving.config.model_server_config_pb2 import ModelServerConfig

from dtmt_tf import startup
from dtmt_tf.commands import serve
from dtmt_tf.errors import UserError
from dtmt_tf.server import Batching, Models, Server
from dtmt_tf.server.models import ServedModel
from tests.serving.running import running_server


@pytest.fixture
def runs(tmp_path):
    """A folder of runs: two with an exported version, one without."""
    for name, version in (("demo", "1"), ("demo", "2"), ("other", "1"), ("new", "train")):
        (tmp_path / "task" / name / version).mkdir(parents=True)
        if version.isdigit():
            (tmp_path / "task" / name / version / "saved_model.pb").touch()
    return tmp_path


def _config(capsys, *arguments):
    """Returns names and places of the models in the list that is printed."""
    assert serve.command(["--models-config", *map(str, arguments)]) == 0
    text = capsys.readouterr().out
    config = text_format.Parse(text, ModelServerConfig()).model_config_list.config
    assert text.startswith("# ") and {each.model_platform for each in config} == {"tensorflow"}
    return {each.name: each.base_path for each in config}


def test_the_list_of_models_has_all_exported_runs_or_those_that_are_named(
    runs, capsys, monkeypatch
):
    here = "--output-dir", runs
    both = {"task-demo": "/models/task/demo", "task-other": "/models/task/other"}
    assert _config(capsys, *here) == both
    assert _config(capsys, *here, runs / "task" / "demo") == {"dtmt": "/models/task/demo"}
    named = _config(capsys, *here, f"a={runs}/task/demo", runs / "task" / "other")
    assert named == {"a": "/models/task/demo", "task-other": "/models/task/other"}
    monkeypatch.chdir(runs / "task")
    (runs / "task/other").rename("seed=1")  # a folder, not a name for 1
    assert _config(capsys, *here, "seed=1") == {"dtmt": "/models/task/seed=1"}
    Path("seed=1").rename("other")
    shutil.rmtree(runs / "task" / "other")
    assert _config(capsys, *here) == {"dtmt": "/models/task/demo"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["{runs}/task/new"], "holds no exported model"),
        (["{runs}/task/demo/2"], r"demo/2 is a version. Name the folder that .*: .*demo$"),
        (["a={runs}/task/demo", "a={runs}/task/other"], "Two models are called a"),
        (["--models-config", "--output-dir", "{runs}/task/new"], "holds no exported run"),
        (["--models-config", "--output-dir", "{runs}/task/new", "{runs}/task/demo"], "outside"),
        (["{runs}/task/demo", "--rest-port", "65536"], "--rest-port should be"),
        (["{runs}/task/demo", "--batch-sizes", "0", "4"], "--batch-sizes are from 1"),
        (["{runs}/task/demo", "--name", "other"], "demo and --name both name a run"),
        (["{runs}/task/demo", "--batch-timeout-micros", "9"], "micros goes with --batch-sizes"),
        (["{runs}/task/demo"], "task/demo/2 can not be served"),
    ],
)
def test_mistakes_are_told(runs, arguments, words, monkeypatch):
    monkeypatch.setattr(startup, "start_tensorflow", lambda: None)  # it has started
    monkeypatch.setattr(serve, "let_python_pass", lambda: None)
    with pytest.raises(UserError, match=words):
        serve.command([each.format(runs=runs) for each in arguments])


def test_it_looks_for_newer_versions_until_it_is_stopped(runs, monkeypatch, capsys):
    told = []

    class NotedModels(list):
        def __init__(self, folders, batching):
            super().__init__(SimpleNamespace(name=n, folder=f) for n, f in folders.items())
            told.append(batching)

        def refresh(self):
            told.append("refresh")

    class NotedServer:
        rest_port, grpc_port = 11, 12

        def __init__(self, models, *options):
            told.append(options)

        def stop(self, seconds):
            told.append(("stop", seconds))

    def sleep(seconds):
        told.append(seconds)
        if told.count(seconds) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(startup, "start_tensorflow", lambda: None)
    monkeypatch.setattr(serve, "let_python_pass", lambda: told.append("log passes"))
    monkeypatch.setattr("dtmt_tf.server.Models", NotedModels)
    monkeypatch.setattr("dtmt_tf.server.Server", NotedServer)
    monkeypatch.setattr(serve, "time", SimpleNamespace(sleep=sleep))
    monkeypatch.setattr(signal, "signal", lambda *heard: told.append(heard))
    options = "--rest-port=1 --grpc-port=2 --timeout=3 --cors --batch-sizes 4 1"
    assert serve.command([str(runs / "task" / "demo"), *options.split()]) == 0
    assert told == [
        *("log passes", Batching([1, 4], 0.005), (1, 2, 3.0, True)),
        (signal.SIGTERM, signal.default_int_handler),
        *(1.0, "refresh", 1.0, "refresh", 1.0),
        ("stop", 10.0),
    ]
    assert "REST: http://127.0.0.1:11    gRPC: 127.0.0.1:12\n" in capsys.readouterr().out


@pytest.fixture
def taken():
    """A port that is taken."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield listening.getsockname()[1]


def test_a_port_that_is_taken_is_told_with_its_option(taken, capfd):
    with pytest.raises(UserError, match="--rest-port"):
        Server(Models({}), taken, 0, 30, False)
    with pytest.raises(UserError, match="--grpc-port"):
        Server(Models({}), 0, taken, 30, False)
    assert not capfd.readouterr().err  # of gRPC's own


def test_a_server_without_its_port_says_so_and_nothing_else(served_models, taken):
    told = f"^2: error: gRPC can not have port {taken}: it is taken. --grpc-port names another.$"
    light = {"shouter": served_models["shouter"]}
    with (
        pytest.raises(RuntimeError, match=told),
        running_server(light, f"--grpc-port={taken}"),
    ):
        pass


@pytest.mark.parametrize(
    ("length", "code"),
    [
        *((None, 411), ("many", 411), ("-1", 411), (str(2**40), 413)),
        pytest.param("9" * 5000, 413, id="a long number"),
    ],
)
def test_a_body_of_no_or_of_great_length_is_not_read(server, length, code):
    connection = HTTPConnection(server.rest.partition("//")[2], timeout=1800)
    connection.putrequest("POST", "/v1/models/toy:predict")
    if length:
        connection.putheader("Content-Length", length)
    connection.endheaders()
    response = connection.getresponse()
    assert response.status == code and b"Content-Length" in response.read()
    connection.close()


def test_a_fault_of_the_servers_own_is_logged_and_answered_in_a_line(monkeypatch, caplog):
    def fail(*unused):
        raise RuntimeError("one line\nanother")

    monkeypatch.setattr(Models, "find", fail)
    server = Server(Models({}), 0, 0, 30, False)
    with requests.Session() as session:
        session.trust_env = False
        for _ in range(2):
            answer = session.get(f"http://127.0.0.1:{server.rest_port}/v1/models/a", timeout=1800)
            assert answer.status_code == 500
            assert answer.json() == {"error": "RuntimeError: one line"}
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        stub = PredictionServiceStub(channel)
        with pytest.raises(grpc.RpcError) as caught:
            stub.Predict(PredictRequest(), timeout=1800)
    assert caught.value.code() == grpc.StatusCode.INTERNAL
    assert caught.value.details() == "RuntimeError: one line"
    assert [bool(record.exc_info) for record in caplog.records] == [True] * 3
    server.stop(0)


def test_pages_may_ask_only_if_they_are_let(batching_server):
    with requests.Session() as session:
        session.trust_env = False
        answer = session.get(f"{batching_server.rest}/v1/models/toy", timeout=1800)
        # a page whose own name leads to this machine is none of its names
        there = {"Host": "pages.example:8501"}
        other = session.get(f"{batching_server.rest}/v1/models/toy", headers=there, timeout=1800)
        # nor may a page have work done whose answer its browser would keep from it
        sent = {
            site: session.post(
                f"{batching_server.rest}/v1/models/toy:predict",
                json={"inputs": ["a"]},
                headers={"Sec-Fetch-Site": site},
                timeout=1800,
            )
            for site in ("cross-site", "same-site", "same-origin", "none")
        }
    assert answer.ok and "Access-Control-Allow-Origin" not in answer.headers
    assert other.status_code == 403 and "--cors" in other.json()["error"]
    codes = {site: each.status_code for site, each in sent.items()}
    assert codes == {"cross-site": 403, "same-site": 403, "same-origin": 200, "none": 200}


@pytest.fixture
def counting(toy):
    """A server, codes of its answers, and what asks it to count so far, begun in a thread."""
    models, codes = Models({"toy": toy}), []
    text = {"text": np.array([b"1"], object)}
    models.find("toy").predict("count", text, (), 1800)  # its first run can take long
    server = Server(models, 0, 0, 30, False)

    def post(end):
        with requests.Session() as session:
            session.trust_env = False
            url = f"http://127.0.0.1:{server.rest_port}/v1/models/toy:predict"
            body = {"signature_name": "count", "inputs": [str(end)]}
            codes.append(session.post(url, json=body, timeout=1800).status_code)

    def begin(end):
        thread = threading.Thread(target=post, args=(end,))
        thread.start()
        while not server._rest.in_flight:
            time.sleep(0.001)
        return thread

    return SimpleNamespace(server=server, codes=codes, post=post, begin=begin)


def test_a_server_that_is_stopped_answers_what_it_has_begun(counting, monkeypatch):
    predict = ServedModel.predict

    def held(*arguments):
        """Waits until the server takes no more."""
        while not counting.server._rest.stopping:
            time.sleep(0.001)
        return predict(*arguments)

    monkeypatch.setattr(ServedModel, "predict", held)
    request = counting.begin(7)
    counting.server.stop(1800)
    request.join()
    assert counting.codes == [200]
    with pytest.raises(requests.ConnectionError):
        counting.post(7)


def test_a_server_that_is_told_to_hurry_gives_up_what_runs(counting, monkeypatch):
    def interrupt(seconds):
        raise KeyboardInterrupt

    request = counting.begin(10**15)
    monkeypatch.setattr(counting.server._rest, "stop", interrupt)
    with pytest.raises(KeyboardInterrupt):
        counting.server.stop(1800)
    request.join()
    assert counting.codes == [499]
    monkeypatch.undo()
    counting.server._rest.stop(0)


def test_a_server_that_is_stopped_gives_up_what_takes_too_long(counting):
    request = counting.begin(10**15)
    counting.server.stop(0.1)
    request.join()
    assert counting.codes == [499]
