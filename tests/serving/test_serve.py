"""`dtmt serve`: what it serves, under which names, when versions change and when it is stopped."""

import errno
import gc
import os
import shutil
import signal
import socket
import threading
import time
import weakref
from http.client import HTTPConnection
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
from dtmt_tf.export.warmup import write_warmup
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


def test_the_list_of_models_has_all_exported_runs_or_those_that_are_named(runs, capsys):
    here = "--output-dir", runs
    both = {"task-demo": "/models/task/demo", "task-other": "/models/task/other"}
    assert _config(capsys, *here) == both
    assert _config(capsys, *here, runs / "task" / "demo") == {"dtmt": "/models/task/demo"}
    named = _config(capsys, *here, f"a={runs}/task/demo", runs / "task" / "other")
    assert named == {"a": "/models/task/demo", "task-other": "/models/task/other"}
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
    monkeypatch.setattr("dtmt_tf.server.Models", NotedModels)
    monkeypatch.setattr("dtmt_tf.server.Server", NotedServer)
    monkeypatch.setattr(serve, "time", SimpleNamespace(sleep=sleep))
    monkeypatch.setattr(signal, "signal", lambda *heard: told.append(heard))
    options = "--rest-port=1 --grpc-port=2 --timeout=3 --cors --batch-sizes 4 1"
    assert serve.command([str(runs / "task" / "demo"), *options.split()]) == 0
    assert told == [
        *(Batching([1, 4], 0.005), (1, 2, 3.0, True)),
        (signal.SIGTERM, signal.default_int_handler),
        *(1.0, "refresh", 1.0, "refresh", 1.0),
        ("stop", 10.0),
    ]
    assert "REST: http://127.0.0.1:11    gRPC: 127.0.0.1:12\n" in capsys.readouterr().out


@pytest.fixture
def toy(tmp_path, served_models):
    """A run's folder with version 1."""
    return shutil.copytree(served_models["toy"], tmp_path / "toy")


def test_a_version_that_was_moved_away_and_back_is_tried_again(toy, caplog):
    models = Models({"toy": toy}, Batching([1, 4], 0.01))
    (toy / "2").mkdir()
    for told, name in ((1, "2"), (1, "withdrawn-2"), (2, "2"), (2, "2")):
        for found in toy.glob("*2"):
            found.rename(toy / name)
        models.refresh()
        assert caplog.text.count("toy stays at version 1") == told
    models.close()


def test_a_version_that_another_replaces_under_its_number_is_loaded(toy):
    models = Models({"toy": toy}, Batching([1, 4], 0.01))
    old = models.find("toy")
    shutil.copytree(toy / "1", toy / "made-1")
    os.utime(toy / "made-1" / "saved_model.pb")
    shutil.rmtree(toy / "1")
    for _ in range(2):
        models.refresh()
        assert models.find("toy") is old  # there is no other
    (toy / "made-1").rename(toy / "1")
    models.refresh()
    new = models.find("toy")
    assert new is not old and new.version == 1
    models.refresh()
    assert models.find("toy") is new
    models.close()


def test_a_newer_version_takes_over_and_its_requests_are_answered(toy):
    models = Models({"toy": toy}, Batching([1, 4], 0.01))
    text = {"text": np.array([b"3"], object)}
    old = models.find("toy")
    assert old.predict("count", text, (), 10)["last"].tolist() == [3]
    shutil.copytree(toy / "1", toy / "2")
    (toy / "3").mkdir()
    models.refresh()
    assert models.find("toy") is old  # version 3 can not be loaded
    (toy / "3").rmdir()
    models.refresh()
    new = models.find("toy")
    assert (old.version, new.version) == (1, 2)
    for model in (old, new):  # a request may have found the old one before
        assert model.predict("count", text, (), 10)["last"].tolist() == [3]
    (toy / "2").rename(toy / "withdrawn-2")
    models.refresh()
    assert models.find("toy").version == 1
    models.close()


def test_a_version_that_was_replaced_goes_with_its_last_request(toy):
    models = Models({"toy": toy}, Batching([1, 4], 0.01))
    text = {"text": np.array([b"3"], object)}
    old = models.find("toy")
    old.predict("count", text, (), 10)
    shutil.copytree(toy / "1", toy / "2")
    models.refresh()
    assert old.predict("grid", text, (), 10)["grid"].shape == (1, 5)  # it was found before
    gone = threading.Event()
    weakref.finalize(old, gone.set)
    gc.disable()
    try:
        del old
        assert gone.wait(10)  # its threads end
    finally:
        gc.enable()
    models.close()


def test_batches_larger_than_a_model_takes_are_refused_at_the_start(served_models):
    translator = {"translator": served_models["translator"]}
    with pytest.raises(UserError, match="sizes: .* at most 128 lines .*max_lines.*Received: 1 129"):
        Models(translator, Batching([1, 129], 0.01))
    Models(translator, Batching([1, 128], 0.01)).close()


def test_a_folder_that_is_out_of_reach_for_now_is_served_on(toy, monkeypatch):
    def fail(_):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    models = Models({"toy": toy})
    shutil.copytree(toy / "1", toy / "2")
    with monkeypatch.context() as patch:
        patch.setattr("dtmt_tf.server.models.live_versions", fail)
        models.refresh()
        assert models.find("toy").version == 1
    with monkeypatch.context() as patch:
        patch.setattr("dtmt_tf.translator.places.models_near", pytest.fail)  # it takes long
        toy.rename(toy.with_name("away"))
        models.refresh()
        assert models.find("toy").version == 1
        toy.with_name("away").rename(toy)
    models.refresh()
    assert models.find("toy").version == 2
    models.close()


def test_a_version_that_was_refused_while_it_was_copied_is_tried_when_it_is_whole(toy, caplog):
    models = Models({"toy": toy})
    whole = shutil.copytree(toy / "1", toy / "copied-2")
    (toy / "2").mkdir()
    told = []
    for file in sorted(path for path in whole.rglob("*") if path.is_file()):
        for _ in range(2):
            models.refresh()
            told.append(len(caplog.records))
        assert models.find("toy").version == 1
        (toy / "2" / file.relative_to(whole)).parent.mkdir(exist_ok=True)
        shutil.copy2(file, toy / "2" / file.relative_to(whole))
    models.refresh()
    assert models.find("toy").version == 2
    assert told[::2] == told[1::2] == [*range(1, 1 + len(told) // 2)]  # once a change
    models.close()


def test_a_model_is_warm_at_its_default_first_and_elsewhere_soon(toy, monkeypatch):
    asked, run = [], ServedModel._run
    monkeypatch.setattr(ServedModel, "_run", lambda *args: asked.append(args[1]) or run(*args))
    text = {"text": ["dogs"]}
    write_warmup(toy / "1", [("batch", text), ("serving_default", text), ("grid", text)])
    models = Models({"toy": toy})
    assert asked == ["serving_default"]
    models.warm_up()
    while len(asked) < 3:
        time.sleep(0.001)
    assert asked == ["serving_default", "batch", "grid"]
    models.close()
    write_warmup(toy / "1", [("serving_default", {"txt": ["dogs"]})])
    with pytest.raises(UserError, match="toy/1 can not be served"):
        Models({"toy": toy})


def test_what_is_written_while_a_model_warms_up_is_seen(toy, monkeypatch, capfd):
    write_warmup(toy / "1", [("batch", {"text": ["dogs"]})])
    monkeypatch.setattr(ServedModel, "_run", lambda *args: os.write(2, b"a warning"))
    (model,) = Models({"toy": toy})
    model.warm_up()
    assert capfd.readouterr().err == "a warning"


@pytest.fixture
def taken():
    """A port that is taken."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield listening.getsockname()[1]


def test_a_port_that_is_taken_is_told_with_its_option(taken, capfd):
    with pytest.raises(UserError, match="--rest-port"):
        Server(Models({}), taken, 0)
    with pytest.raises(UserError, match="--grpc-port"):
        Server(Models({}), 0, taken)
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
    server = Server(Models({}), 0, 0)
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
    assert answer.ok and "Access-Control-Allow-Origin" not in answer.headers


@pytest.fixture
def counting(toy):
    """A server, codes of its answers, and what asks it to count so far, begun in a thread."""
    models, codes = Models({"toy": toy}), []
    text = {"text": np.array([b"1"], object)}
    models.find("toy").predict("count", text, (), 1800)  # its first run can take long
    server = Server(models, 0, 0)

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


def test_a_server_that_is_stopped_gives_up_what_takes_too_long(counting):
    request = counting.begin(10**15)
    counting.server.stop(0.1)
    request.join()
    assert counting.codes == [499]
