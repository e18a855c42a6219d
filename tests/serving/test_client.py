"""Files through a server with `pipelines/client.py`, over gRPC and REST."""

import io
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from grpc import StatusCode

from dtmt_tf.client import sending
from dtmt_tf.client.connections import GrpcConnection
from dtmt_tf.commands import client, serve
from dtmt_tf.errors import UserError
from dtmt_tf.export.model_card import SERVED_AS
from dtmt_tf.server.rest import HTTP_CODES
from tests.serving.calls import LINES
from tests.serving.running import ROOT
from tests.serving.shouter import PATIENCE_SECONDS, Shouter, over_grpc, over_rest

CLIENT = [sys.executable, str(ROOT / "pipelines" / "client.py")]


def test_translations_are_the_models_own_in_the_order_of_the_lines(run, translator, in_python):
    lines = [f"{line} {end}".rstrip() for end in ("", "a", "mat runs", "dog dog") for line in LINES]
    lines += ["", "  ", "", LINES[0]]
    expected = in_python("translate", text=lines)["translation"]
    assert len(set(expected)) > 10  # else order would prove little
    text, told = run("\n".join(lines) + "\n", *translator, "--batch-size", 3, "--concurrency", 4)
    assert text.encode() == b"".join(line + b"\n" for line in expected)
    assert re.search(r"\b20 lines in [\d.]+ s, [\d.]+ sentences/s\n7 requests: ", told)
    percentiles = re.search(r"p50 (.*) s, p95 (.*) s, p99 (.*) s; 0 retries\n$", told).groups()
    p50, p95, p99 = map(float, percentiles)
    assert 0 < p50 <= p95 <= p99


def test_a_late_first_answer_still_comes_first(run, protocol):
    model = Shouter(hold=lambda model, number: number == 0 and model.answered < 9)
    with protocol(model) as server:
        lines = "".join(f"line {k}\n" for k in range(20))
        text, _ = run(lines, *server, "--batch-size", 2, "--concurrency", 4)
    first = model.requests[0]  # whichever of those sent at once came first
    assert first in [[f"line {k}", f"line {k + 1}"] for k in (0, 2, 4, 6)]
    assert text == "".join(f"LINE {k}\n" for k in range(20))


@pytest.mark.parametrize("number", [1, 3])
def test_as_many_requests_at_once_as_wanted_and_never_more(run, protocol, number):
    def hold(model, unused):
        """Waits for as many as may come, then a little for one too many."""
        model.wait_for(lambda: model.most >= number)
        model.changed.wait_for(lambda: model.most > number, timeout=0.05)
        return False

    model = Shouter(hold=hold)
    with protocol(model) as server:
        run("x\n" * 12, *server, "--batch-size", 1, "--concurrency", number)
    assert len(model.requests) == 12
    assert model.most == number


@pytest.mark.parametrize(
    "failures",
    [["UNAVAILABLE", "RESOURCE_EXHAUSTED"], ["DEADLINE_EXCEEDED", "DROPPED"]],
    ids=lambda names: " ".join(names).lower(),
)
def test_what_fails_for_a_while_is_sent_again_after_growing_waits(run, protocol, failures):
    model = Shouter(failures)
    with protocol(model) as server:
        text, told = run("a\nb\nc\nd\ne\n", *server, "--batch-size", 2, "--concurrency", 1)
    assert text == "A\nB\nC\nD\nE\n"
    assert model.requests == [["a", "b"]] * 3 + [["c", "d"], ["e"]]
    assert "3 requests" in told and "; 2 retries" in told
    first, second = (model.times[k + 1] - model.times[k] for k in (0, 1))
    assert first >= 0.125 and second >= 0.25  # half of what doubles, the rest is chance


def test_the_last_failure_is_told_when_no_try_is_left(run, protocol):
    model = Shouter(["UNAVAILABLE"] * 9)
    with protocol(model) as server, pytest.raises(UserError, match="busy .*: in my words"):
        run("a\n", *server, "--retries", 1)
    assert len(model.requests) == 2


def test_what_is_refused_together_is_sent_in_halves(run, protocol):
    model = Shouter(["INVALID_ARGUMENT", None, "INVALID_ARGUMENT"])
    with protocol(model) as server:
        text, told = run("a\nb\nc\nd\ne\n", *server, "--batch-size", 4, "--concurrency", 1)
    assert text == "A\nB\nC\nD\nE\n"
    assert model.requests == [list("abcd"), ["a", "b"], ["c", "d"], ["c"], ["d"], ["e"]]
    assert "4 requests" in told and "; 0 retries" in told


def test_what_is_late_again_is_sent_in_halves(run, protocol):
    model = Shouter(["DEADLINE_EXCEEDED"] * 2)
    options = "--batch-size", 2, "--concurrency", 1, "--retries", 1
    with protocol(model) as server:
        text, _ = run("a\nb\nc\n", *server, *options)
    assert text == "A\nB\nC\n"
    assert model.requests == [["a", "b"], ["a", "b"], ["a"], ["b"], ["c"]]


def test_little_is_translated_before_a_line_that_is_missing(run, protocol, monkeypatch):
    monkeypatch.setattr(sending, "_AHEAD", 3)
    seen = []

    def hold(model, number):
        """Holds the first until as many others are there as may be, then for one too many."""
        if number == 0:
            model.wait_for(lambda: ahead() >= 6)
            model.changed.wait_for(lambda: ahead() > 6, timeout=0.2)
            seen.append(ahead())
        return False

    def ahead():
        """How many came that wait for the first; "line 1" may have come before it."""
        return len(model.requests) - (model.requests[0] == ["line 1"])

    model = Shouter(hold=hold)
    lines = "".join(f"line {k}\n" for k in range(40))
    with protocol(model) as server:
        text, _ = run(lines, *server, "--batch-size", 1, "--concurrency", 2)
    assert text == lines.upper()
    assert seen == [6]


def test_what_is_too_large_together_is_sent_in_halves(run, monkeypatch):
    lines = [letter * 1_000_000 for letter in "ABCDE"]  # gRPC takes 4 MiB
    text = "".join(f"{line}\n" for line in lines)
    model = Shouter()
    with over_grpc(model) as server:
        assert run(text, *server, "--concurrency", 1)[0] == text
    assert model.requests == [lines[:2], lines[2:]]
    monkeypatch.setitem(HTTP_CODES, StatusCode.RESOURCE_EXHAUSTED, 413)
    model = Shouter(["RESOURCE_EXHAUSTED"] * 2)
    with over_rest(model) as server:
        with pytest.raises(UserError, match="does not take so large a request"):
            run("a\nb\n", *server, "--concurrency", 1)
    assert model.requests == [["a", "b"], ["a"]]


def test_a_line_that_is_refused_alone_ends_it(run, protocol):
    model = Shouter(["INVALID_ARGUMENT"] * 9)
    with protocol(model) as server, pytest.raises(UserError, match="refuses.*: in my words"):
        run("a\nb\n", *server, "--concurrency", 1)
    assert model.requests == [["a", "b"], ["a"]]


class Limited(Shouter):
    """Refuses requests that hold "bad", as one beyond its limits."""

    words = "[A line may hold at most 2 bytes (export.max_bytes). Received:] [3]"

    def answer(self, lines):
        found = super().answer(lines)
        return "INVALID_ARGUMENT" if "bad" in lines else found


def test_lines_before_one_that_is_refused_are_awaited_and_kept(run, protocol, tmp_path, caplog):
    model = Limited(hold=lambda model, n: model.requests[n] == ["a", "b"] and model.answered < 2)
    options = "--batch-size", 2, "--concurrency", 2
    with protocol(model) as server:
        with pytest.raises(UserError, match="Line 3: .*max_bytes.* --skip-refused leaves such"):
            run("a\nb\nbad\nd\ne\n", *server, *options)
        assert (tmp_path / "target.partial").read_text() == "A\nB\n"
        text, told = run("a\nb\nbad\nd\ne\n", *server, *options, "--skip-refused")
    assert text == "A\nB\n\nD\nE\n" and "2 requests" in told
    assert "Beyond the limits of the export, and left empty: line 3." in caplog.text


def test_lines_that_are_refused_beside_others_are_sent_again_alone(run, protocol):
    beside = []

    def hold(model, number):
        """Has the first two come together, and waits a little for one beside a later one."""
        if number < 2:
            return len(model.requests) < 2
        model.changed.wait_for(lambda: model.in_flight > 1, timeout=0.05)
        beside.append(model.in_flight)
        return False

    model = Shouter(["INVALID_ARGUMENT"] * 2, hold)
    model.words = Limited.words
    with protocol(model) as server:
        text, _ = run("a\nb\n", *server, "--batch-size", 1, "--concurrency", 2, "--skip-refused")
    assert (text, beside) == ("A\nB\n", [1, 1])


def test_what_is_refused_for_another_reason_is_not_skipped(run, protocol):
    with protocol(Shouter(["INVALID_ARGUMENT"] * 9)) as server:
        with pytest.raises(UserError, match="Line 1: .*refuses.*: in my words.$"):
            run("a\nb\n", *server, "--skip-refused")


def test_what_can_not_succeed_is_sent_once(run, protocol, tmp_path):
    model = Shouter(["INTERNAL"])
    with protocol(model) as server, pytest.raises(UserError, match="refuses.*: in my words"):
        run("a\n" * 40, *server, "--concurrency", 1)
    assert len(model.requests) == 1
    assert not (tmp_path / "target").exists()


def test_a_late_answer_is_not_awaited(run, protocol):
    model = Shouter(hold=lambda model, number: True)
    with protocol(model) as server, pytest.raises(UserError, match="in time.* Tries: 2."):
        run("a\n", *server, "--timeout", 0.2, "--retries", 1)
    assert len(model.requests) <= 2  # a busy server may not have seen them by now


def test_an_empty_file_gives_an_empty_file_without_a_request(run, protocol):
    model = Shouter()
    with protocol(model) as server:
        assert run("", *server)[0] == ""
        assert model.requests == []
        assert run("\n", *server)[0] == "\n"
    assert model.requests == [[""]]


def test_a_model_that_is_not_there_is_told(run, translator):
    with pytest.raises(UserError, match="no model of that name"):
        run("a\n", *translator, "--model", "absent")


@pytest.mark.parametrize(
    ("signature", "words"),
    [("summarise", "refuses"), ("score", "refuses"), ("translate_nbest", "gives no `translation`")],
)
def test_a_signature_that_does_not_translate_is_told(run, translator, signature, words):
    with pytest.raises(UserError, match=words):
        run("a\n", *translator, "--signature", signature)


def test_any_signature_that_translates_will_do(run, translator, in_python):
    text, _ = run(f"{LINES[1]}\n", *translator, "--signature", "align")
    assert text.encode() == in_python("align", text=[LINES[1]])["translation"][0] + b"\n"


@pytest.mark.parametrize(
    "arguments",
    [["--concurrency", 0], ["--batch-size", 0], ["--retries", -1], ["--timeout", 0]],
    ids=lambda arguments: arguments[0],
)
def test_impossible_numbers_are_told(run, arguments):
    with pytest.raises(UserError, match=f"{arguments[0]} should be at least"):
        run("a\n", "--rest", "http://127.0.0.1:1", *arguments)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--grpc", "http://localhost:8500"], "--grpc takes host:port; a URL goes to --rest"),
        (["--grpc", "localhost"], "a port from 1 to 65535. Received: localhost."),
        (["--grpc", "localhost:99999"], "a port from 1 to 65535"),
        (["--rest", "localhost:8501"], "--rest takes a URL"),
        (["--rest", "http://a:1/v1/models/m:predict"], "Leave out what begins with /v1/models"),
    ],
)
def test_an_address_that_can_not_be_one_is_told(run, arguments, told):
    with pytest.raises(UserError, match=told):
        run("a\n", *arguments)


def test_the_model_has_the_name_that_the_ready_files_give_it():
    assert client._parser().get_default("model") == SERVED_AS == serve.ALONE


@pytest.mark.parametrize("terminal", [True, False])
def test_a_terminal_has_a_progress_bar_and_a_log_has_none(run, monkeypatch, terminal):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    sys.stderr.isatty = lambda: terminal
    with over_rest(Shouter()) as server:
        run("a\n" * 20, *server, "--batch-size", 1)
    assert ("translate:   0%" in sys.stderr.getvalue()) == terminal


def _alone(*arguments, text="", **options):
    """Runs the client in a process of its own."""
    options |= {"capture_output": True, "encoding": "utf-8", "timeout": 1800}
    return subprocess.run([*CLIENT, *arguments], input=text, **options)


@pytest.mark.parametrize("address", ["http://server..example:8501", "http://" + "a" * 64])
def test_an_address_that_is_none_is_told(run, address):
    with pytest.raises(UserError, match=re.escape(address)):
        run("a\n", "--rest", address)


def test_a_server_that_is_gone_ends_with_code_2(tmp_path):
    with over_rest(Shouter()) as server:
        pass
    target = tmp_path / "target"
    result = _alone(*server, "-o", target, "--retries", "1", text="a\n")
    assert result.returncode == 2
    told = f"error: The server at {server[1]} cannot be reached or is busy (another address: --g"
    assert result.stderr.startswith(told)
    assert "refused. Tries: 2." in result.stderr
    assert not target.exists()


def test_a_grpc_server_that_is_gone_is_told(run):
    with over_grpc(Shouter()) as server:
        pass
    with pytest.raises(UserError, match=f"server at {server[1]} cannot be reached"):
        run("a\n", *server, "--retries", 1)


def test_grpc_itself_says_nothing_unless_asked_to(monkeypatch):
    monkeypatch.delenv("GRPC_VERBOSITY", raising=False)
    monkeypatch.setenv("GRPC_TRACE", "nonsense")  # a mistake that gRPC tells of as it starts
    with over_grpc(Shouter()) as server:
        result = _alone(*server, text="a\n")
        assert (result.returncode, result.stdout, "nonsense" in result.stderr) == (0, "A\n", False)
        monkeypatch.setenv("GRPC_VERBOSITY", "ERROR")
        GrpcConnection(server[1], "m", "", 1).close()  # which leaves that as it is
    starts = [sys.executable, "-c", "import grpc; grpc.insecure_channel('localhost:1')"]
    assert "nonsense" in subprocess.run(starts, capture_output=True, text=True).stderr


def test_rest_needs_no_tensorflow_and_grpc_says_what_it_needs(tmp_path):
    (tmp_path / "tensorflow.py").write_text("raise ModuleNotFoundError('no tensorflow here')")
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    with over_rest(Shouter()) as server:
        result = _alone(*server, text="Grüße\r\nb", env=env)
        assert (result.returncode, result.stdout) == (0, "GRÜSSE\nB\n"), result.stderr
    result = _alone("--grpc", "127.0.0.1:1", text="a\n", env=env)
    assert result.returncode == 2
    assert result.stderr.startswith("error: gRPC needs")
    assert "pip install tensorflow-serving-api" in result.stderr and "--rest" in result.stderr


def test_a_bad_line_far_on_ends_it_after_those_before_were_sent(run, protocol, tmp_path):
    text = "x\n" * 99 + "\udcff\n"
    with protocol(Shouter()) as server, pytest.raises(UserError, match="source:100: byte 0xff"):
        run(text, *server, "--concurrency", 1)
    kept = (tmp_path / "target.partial").read_text()
    assert kept and set(kept) == {"X", "\n"}


def test_ctrl_c_keeps_finished_lines_and_does_not_wait_for_the_server(protocol, tmp_path):
    target = tmp_path / "target"
    target.write_text("of yesterday")
    source = tmp_path / "source"
    source.write_text("a\n" * 40)
    model = Shouter(hold=lambda model, number: number >= 3)
    options = ("--batch-size", "2", "--concurrency", "2")
    with protocol(model) as server:
        command = [*CLIENT, *server, source, "-o", target, *options]
        # Children of tests that a shell runs in the background would ignore Ctrl-C. preexec_fn
        # would fork beside a running gRPC server, whose fork handlers give up when it is busy.
        handler = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        finally:
            signal.signal(signal.SIGINT, handler)
        try:
            with model.changed:
                assert model.wait_for(lambda: model.answered == 3 and model.in_flight == 2)
            start = time.monotonic()
            process.send_signal(signal.SIGINT)
            _, told = process.communicate(timeout=PATIENCE_SECONDS)
        finally:
            process.kill()
    assert process.returncode == 130
    done = int(re.search(r"^Stopped: ([0246]) of 40 lines are written.\n", told, re.M)[1])
    assert (
        time.monotonic() - start < PATIENCE_SECONDS
    )  # the server would not have answered for minutes
    assert target.read_text() == "of yesterday"
    partial = tmp_path / "target.partial"
    assert (partial.read_text() if done else "") == "A\n" * done
    kept = f"{done} finished lines are kept in {partial}. The same command goes on from there."
    assert (kept in told) == bool(done)


def test_what_was_finished_before_a_failure_is_not_sent_again(run, protocol, tmp_path):
    text = "".join(f"line {k}\n" for k in range(40))
    model = Shouter([*[None] * 7, "INTERNAL"])
    with protocol(model) as server:
        options = *server, "--batch-size", 4, "--concurrency", 1
        with pytest.raises(UserError, match="refuses.*: in my words"):
            run(text, *options)
        assert (tmp_path / "target.partial").read_text() == "".join(
            f"LINE {k}\n" for k in range(28)
        )
        assert not (tmp_path / "target").exists()
        answered = len(model.requests)
        assert run(text, *options)[0] == text.upper()
    assert [lines[0] for lines in model.requests[answered:]] == ["line 28", "line 32", "line 36"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source", "target"]


def test_an_output_that_is_a_device_stays_one(run, protocol, tmp_path):
    (tmp_path / "target").symlink_to("/dev/null")
    with protocol(Shouter()) as server:
        assert run("a\n", *server)[0] == ""
    assert (tmp_path / "target").is_symlink()
