"""The load test finds what it looks for: errors, wrong answers, memory that grows."""

import contextlib
import json
import signal
import sys

import psutil
import pytest

from tests.serving import load as program
from tests.serving.calls import LINES
from tests.serving.load import load, references
from tests.serving.load_report import Report


@pytest.fixture(scope="module")
def right(server):
    """What the translator says to each line alone."""
    return references(server, "translator", LINES)


@pytest.fixture
def main(monkeypatch, tmp_path, served_models, capsys):
    """Runs the program on the translator; returns its exit code, numbers and output."""

    def call(*arguments):
        lines, numbers = tmp_path / "lines", tmp_path / "numbers.json"
        lines.write_text("".join(f"{line}\n" for line in LINES * 2))
        argv = ["load", "--model-dir", served_models["translator"], "--lines", lines]
        argv += ["--json", numbers, "--requests", 50, "--clients", 4, *arguments]
        monkeypatch.setattr(sys, "argv", list(map(str, argv)))
        code = program.main()
        return code, json.loads(numbers.read_text()), capsys.readouterr()

    return call


def _loaded(server, right, count=24, minutes=1e9, model="translator", seed=1):
    report = Report()
    load(server, model, right, 4, count, minutes, seed, report)
    return report


def test_references_are_what_python_gives(right, in_python):
    expected = in_python("translate", text=LINES)
    for line, text, score in zip(LINES, expected["translation"], expected["score"], strict=True):
        assert right[line] == (text.decode(), pytest.approx(score, abs=1e-5))


def test_a_sound_server_passes(main):
    code, numbers, told = main()
    assert (code, numbers["passed"]) == (0, True), told
    assert numbers["requests"] == 50 and 50 <= numbers["lines"] <= 200
    assert numbers["errors"] == {} and numbers["wrong"] == []
    assert set(numbers["latency_seconds"]) == {"all", "gRPC", "REST"}
    for parts in numbers["latency_seconds"].values():
        assert 0 < parts["p50"] <= parts["p95"] <= parts["p99"] < numbers["seconds"]
    rate = numbers["lines"] / numbers["seconds"]
    assert numbers["sentences_per_second"] == pytest.approx(rate)
    _, last, megabytes = numbers["memory_mb"][-1]
    assert last == 50 and 100 < megabytes < 10000  # TensorFlow alone is hundreds
    assert told.out.startswith("50 requests, ") and "0 errors, 0 wrong answers" in told.out


def test_a_server_that_says_something_else_fails(main, server, tmp_path, monkeypatch):
    served, asked = {}, []

    def lie(running, model, lines):
        """Knows one line as no translator would have it, and the others as nothing."""
        asked.append((running, model))
        return {line: ("a lie" if line == LINES[1] else "", -7.0) for line in lines}

    def running_server(models, *options):
        served.update(models)
        return contextlib.nullcontext(server)

    monkeypatch.setattr(program, "_MODEL", "translator")  # as that server calls it
    monkeypatch.setattr(program, "references", lie)
    monkeypatch.setattr(program, "running_server", running_server)
    (tmp_path / "liar" / "1").mkdir(parents=True)
    code, numbers, told = main("--reference-dir", tmp_path / "liar", "--seed", 2)
    assert served["reference"] == tmp_path / "liar" and set(served) == {"translator", "reference"}
    assert asked == [(server, "reference")]
    assert (code, numbers["passed"]) == (1, False)
    assert numbers["errors"] == {}
    assert {wrong["line"] for wrong in numbers["wrong"]} >= {LINES[0], LINES[1], LINES[3]}
    found = next(wrong for wrong in numbers["wrong"] if wrong["line"] == LINES[1])
    assert (found["right"], found["score_of_right"]) == ("a lie", -7.0)
    assert found["wrong"] != "a lie" and found["score_of_wrong"] != -7.0
    assert f"{len(numbers['wrong'])} wrong answers" in told.out
    assert json.dumps(numbers["wrong"][0], ensure_ascii=False) in told.out


def test_ctrl_c_ends_the_server_and_tells_what_was_done(main, monkeypatch):
    add, before = Report.add, set(psutil.Process().children())

    def add_nine(report, *arguments):
        add(report, *arguments)
        if report.requests == 9:
            (server,) = set(psutil.Process().children()) - before
            server.send_signal(signal.SIGINT)  # a terminal tells it, too
            raise KeyboardInterrupt

    monkeypatch.setattr(Report, "add", add_nine)
    code, numbers, told = main()
    assert code == 130
    assert numbers["requests"] == 9 and "9 requests, " in told.out
    assert told.err.rstrip().endswith("Stopped.")
    assert set(psutil.Process().children()) == before


def test_one_wrong_line_among_right_ones_is_found_over_both_protocols(server, right):
    report = _loaded(server, {**right, LINES[1]: ("something else", -1.5)})
    assert report.requests == 24 and not report.errors
    assert {wrong["line"] for wrong in report.wrong} == {LINES[1]}
    assert {wrong["protocol"] for wrong in report.wrong} == {"gRPC", "REST"}
    for wrong in report.wrong:
        assert (wrong["right"], wrong["score_of_right"]) == ("something else", -1.5)
        text, score = right[LINES[1]]
        assert (wrong["wrong"], wrong["score_of_wrong"]) == (text, pytest.approx(score, abs=1e-5))
        assert LINES[1] in wrong["request"]
    assert not report.passed()


def test_requests_that_fail_are_counted_by_their_words(server, right):
    report = _loaded(server, right, model="absent")
    assert sorted(report.errors.values()) == [12, 12]  # half of the clients speak gRPC
    grpc_words, rest_words = sorted(report.errors, reverse=True)
    assert grpc_words.startswith("gRPC: NOT_FOUND: ")
    assert rest_words.startswith("REST: RuntimeError: 404: ")
    assert report.lines == 0 and not report.passed()


def test_a_seed_decides_what_is_asked_and_a_time_when_it_ends(server, right):
    first, again = _loaded(server, right), _loaded(server, right)
    assert first.requests == again.requests == 24
    assert first.lines == again.lines
    assert 4 <= _loaded(server, right, count=10**6, minutes=0.0).requests < 20


def _report(memory, count=100):
    report = Report(memory=memory)
    for _ in range(count):
        report.add({"a": ("b", 0.0)}, "gRPC", ["a"], [("b", 0.0)], 0.1)
    return report


@pytest.mark.parametrize(
    ("megabytes", "growth"),
    [
        (lambda done: 500, 0),
        (lambda done: 200 if done < 10 else 700, 0),  # the first tenth is for warming up
        (lambda done: 500 + 0.5 * done, 45),
        (lambda done: 500 + 0.6 * done, 54),
        (lambda done: 500 - 0.6 * done, -54),
    ],
)
def test_memory_may_grow_at_first_and_not_after(megabytes, growth):
    report = _report([(0.1 * done, done, megabytes(done)) for done in range(101)])
    assert report.growth() == pytest.approx(growth, abs=1e-6)
    assert report.passed() == (growth <= 50)


def test_one_high_sample_is_no_growth():
    samples = [(0.1 * done, done, 500 + 400 * (done == 99)) for done in range(101)]
    assert _report(samples).passed()


def test_a_short_load_tells_no_growth():
    assert _report([(0.1 * done, done, 500 + done) for done in range(50)]).passed()


def test_an_answer_of_too_few_rows_is_an_error_and_nothing_is_no_success():
    report = _report([], count=1)
    assert report.passed()
    report.add({"a": ("b", 0.0)}, "REST", ["a", "a"], [("b", 0.0)], 0.1)
    assert dict(report.errors) == {"REST: 1 rows for 2 lines": 1}
    assert report.requests == 2 and not report.passed()
    assert not Report().passed()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--model-dir", "nowhere"], "nowhere holds no exported version"),
        (["--lines", "nowhere"], "Cannot read nowhere"),
        (["--clients", "0"], "at least one"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else None,
)
def test_mistakes_are_told(main, arguments, words, capsys):
    with pytest.raises(SystemExit) as end:
        main(*arguments)
    assert end.value.code == 2
    assert words in capsys.readouterr().err
