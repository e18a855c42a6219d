"""Which version of a model answers `pipelines/client.py`, and what it goes on with."""

import socket
from types import SimpleNamespace

import grpc
import pytest
import requests

from dtmt_tf.client.connections import GrpcConnection, LateAnswer, RestConnection, TemporaryFailure
from dtmt_tf.client.sending import Sending
from dtmt_tf.errors import UserError
from dtmt_tf.refusals import Refusals
from tests.serving.shouter import Shouter, over_grpc, over_rest

KINDS = {"--rest": RestConnection, "--grpc": GrpcConnection}


def test_what_one_version_translated_another_does_not_go_on_with(
    run, protocol, tmp_path, monkeypatch
):
    text, options = "line\n" * 12, ("--batch-size", 4, "--concurrency", 1)
    model = Shouter([None, "INTERNAL", None, "INTERNAL"])
    with protocol(model) as server:
        for version, kept in (("1", 4), ("1", 8), ("2", 0)):
            for kind in KINDS.values():
                monkeypatch.setattr(kind, "version", lambda _, version=version: version)
            if kept:
                with pytest.raises(UserError, match="refuses"):
                    run(text, *server, *options)
                assert len((tmp_path / "target.partial").read_text().splitlines()) == kept
        assert run(text, *server, *options)[0] == text.upper()
    assert len(model.requests[4:]) == 3  # from the first line on


def test_what_one_model_or_server_translated_another_does_not_go_on_with(
    run, protocol, tmp_path, monkeypatch
):
    text, options = "line\n" * 12, ("--batch-size", 4, "--concurrency", 1)
    for kind in KINDS.values():
        monkeypatch.setattr(kind, "version", lambda _: "1")
    first, second = Shouter([None, "INTERNAL", None, "INTERNAL"]), Shouter()
    with protocol(first) as server, protocol(second) as other:
        for model in ("a", "b"):
            with pytest.raises(UserError, match="refuses"):
                run(text, *server, *options, "--model", model)
            assert (tmp_path / "target.partial").read_text() == "LINE\n" * 4
        assert run(text, *other, *options, "--model", "b")[0] == text.upper()
    assert len(second.requests) == 3  # from the first line on
    assert len(list(tmp_path.glob("target.partial.old*"))) == 2


def test_while_a_server_is_away_what_was_finished_stays(run, protocol, tmp_path, monkeypatch):
    text, options = "line\n" * 12, ("--batch-size", 4, "--concurrency", 1, "--retries", 1)
    away = []  # what is raised before the version is told

    def version(_):
        if away:
            raise away.pop()
        return "1"

    for kind in KINDS.values():
        monkeypatch.setattr(kind, "version", version)
    model = Shouter([None, "INTERNAL"])
    with protocol(model) as server:
        with pytest.raises(UserError, match="refuses"):
            run(text, *server, *options)
        before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
        assert before["target.partial"] == b"LINE\n" * 4
        away += 2 * [TemporaryFailure("It is away.")]
        with pytest.raises(UserError, match=r"It is away\. Tries: 2\.$"):
            run(text, *server, *options)
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
        away += [TemporaryFailure("It is away.")]
        assert run(text, *server, *options)[0] == text.upper()
    assert len(model.requests) == 4  # the first four lines once
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source", "target"]


def test_waits_double_up_to_half_a_minute(monkeypatch):
    def version():
        raise TemporaryFailure("It is away.")

    sending, waits = Sending(1, 10, Refusals(False)), []
    monkeypatch.setattr(sending._stopped, "wait", waits.append)
    monkeypatch.setattr("random.uniform", lambda low, high: high)
    with pytest.raises(UserError, match=r"Tries: 11\.$"):
        sending.version(SimpleNamespace(version=version))
    assert waits == [0.25, 0.5, 1, 2, 4, 8, 16, 30, 30, 30]


def test_a_server_tells_its_version_or_that_it_has_no_such_model(translator):
    option, address, _, name = translator
    connection = KINDS[option](address, name, "serving_default", 1800.0)
    assert connection.version() == "2"
    connection.translate(["a dog"])
    assert connection.versions == ({2} if option == "--grpc" else set())
    connection.close()
    connection = KINDS[option](address, "absent", "serving_default", 1800.0)
    with pytest.raises(UserError, match="has no model of that name"):  # what was kept stays
        connection.version()
    connection.close()


def test_one_that_has_no_such_call_tells_nothing(protocol):
    with protocol(Shouter()) as (option, address):
        connection = KINDS[option](address, "m", "s", 10.0)
        assert connection.version() == ""
        connection.close()


@pytest.mark.parametrize("option", KINDS)
def test_one_that_is_away_is_not_one_that_tells_nothing(option):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    address = f"{'http://' * (option == '--rest')}127.0.0.1:{port}"
    connection = KINDS[option](address, "m", "s", 10.0)
    with pytest.raises(TemporaryFailure, match="cannot be reached"):
        connection.version()
    connection.close()


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (requests.Timeout("late"), "did not answer in time"),
        (requests.ConnectTimeout("nobody there"), "cannot be reached"),
        ((503, b"no healthy upstream"), "is busy .*: Reason"),
        ((200, b'{"model_version_status": [{"version": "3", "state": "LOADING"}]}'), "not loaded"),
        ((200, b'{"model_version_status": [{"version": "3", "state": "AVAILABLE"}]}'), None),
        ((404, b"<html>"), ""),
        ((200, b"{}"), ""),
        (requests.TooManyRedirects("round and round"), ""),
    ],
)
def test_what_an_answer_over_rest_means(monkeypatch, answer, told):
    def get(*_, **unused):
        if isinstance(answer, Exception):
            raise answer
        return SimpleNamespace(status_code=answer[0], reason="Reason", content=answer[1])

    connection = RestConnection("http://localhost:1", "m", "s", 10.0)
    monkeypatch.setattr(connection._session, "request", get)
    if told:
        with pytest.raises(TemporaryFailure, match=told):
            connection.version()
    else:
        assert connection.version() == ("3" if told is None else "")


def test_an_address_that_sends_on_and_loses_the_lines_is_told(monkeypatch):
    connection = RestConnection("http://localhost:1", "m", "s", 10.0)
    sent = SimpleNamespace(
        request=SimpleNamespace(method="GET"), url="https://there:2/v1/models/m:predict"
    )
    monkeypatch.setattr(connection._session, "request", lambda *_, **unused: sent)
    with pytest.raises(UserError, match="sends on to https://there:2. Name that"):
        connection.translate(["a"])


def test_a_host_that_does_not_answer_is_not_a_late_answer(monkeypatch):
    def post(*_, **unused):
        raise requests.ConnectTimeout("nobody there")

    connection = RestConnection("http://localhost:1", "m", "s", 10.0)
    monkeypatch.setattr(connection._session, "request", post)
    with pytest.raises(TemporaryFailure, match="cannot be reached") as error:
        connection.translate(["a"])
    assert not isinstance(error.value, LateAnswer)  # whose lines are divided


@pytest.mark.parametrize("option", KINDS)
def test_an_output_with_lines_of_two_versions_is_told(run, option, monkeypatch, caplog):
    model = Shouter()
    with (over_rest if option == "--rest" else over_grpc)(model) as server:
        kind, translate = KINDS[option], KINDS[option].translate

        def versions(connection, lines):
            connection.versions.add(1 + (lines == ["b"]))
            return translate(connection, lines)

        monkeypatch.setattr(kind, "translate", versions)
        monkeypatch.setattr(kind, "version", lambda _: "1")
        run("a\nb\n", *server, "--batch-size", 1)
    assert "Versions 1, 2 answered one after the other" in caplog.text


def test_another_version_than_was_noted_is_told_of_a_failure_too(run, monkeypatch, caplog):
    def translate(connection, lines):
        if lines == ["b"]:
            raise UserError("it failed")
        connection.versions.add(2)
        return lines

    monkeypatch.setattr(GrpcConnection, "translate", translate)
    monkeypatch.setattr(GrpcConnection, "version", lambda _: "1")
    with over_grpc(Shouter()) as server, pytest.raises(UserError, match="it failed"):
        run("a\nb\n", *server, "--batch-size", 1, "--concurrency", 1)
    assert "Versions 1, 2 answered one after the other" in caplog.text


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("DEADLINE_EXCEEDED", "did not answer in time"),
        ("CANCELLED", "cannot be reached or is busy"),
    ],
)
def test_what_an_answer_over_grpc_means(monkeypatch, code, told):
    class Late(grpc.RpcError):
        code = staticmethod(lambda: grpc.StatusCode[code])
        details = staticmethod(lambda: "late")

    def status(*_, **unused):
        raise Late

    connection = GrpcConnection("localhost:1", "m", "s", 10.0)
    monkeypatch.setattr(connection, "_predict", status)
    with pytest.raises(TemporaryFailure, match=told):
        connection.translate(["a"])
    monkeypatch.setattr(connection, "_status", status)
    if code == "DEADLINE_EXCEEDED":
        with pytest.raises(TemporaryFailure, match=told):
            connection.version()
    loading = SimpleNamespace(version=3, state=20, AVAILABLE=30)
    answer = SimpleNamespace(model_version_status=[loading])
    monkeypatch.setattr(connection, "_status", lambda *_, **unused: answer)
    with pytest.raises(TemporaryFailure, match="not loaded the model yet"):
        connection.version()
    loading.state = 30
    assert connection.version() == "3"
    connection.close()
