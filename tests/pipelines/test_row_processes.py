"""Each row has a process of its own, which hears of Ctrl-C and whose code is told."""

import functools
import os
import signal
import threading
import time
import types

import pytest

from dtmt_tf.commands import process
from pipelines.papers import reproduce


@pytest.mark.parametrize(("ended", "told", "code"), [(1, True, 130), (1, False, 1), (0, True, 130)])
def test_a_row_that_is_told_to_stop_as_it_begins_has_not_failed(monkeypatch, ended, told, code):
    class Process:
        pid = None
        exitcode = ended

        def __init__(self, target):
            pass

        def start(self):
            if told:
                signal.raise_signal(signal.SIGINT)

        def join(self):
            pass

    monkeypatch.setattr(reproduce, "spawn", types.SimpleNamespace(Process=Process))
    assert reproduce._in_process(None) == code


def test_a_row_is_told_of_what_came_before_it_had_a_number(monkeypatch):
    class Process:
        pid = None
        exitcode = 0

        def __init__(self, target):
            pass

        def start(self):
            signal.raise_signal(signal.SIGTERM)
            self.pid = 7

        def join(self):
            signal.raise_signal(signal.SIGINT)  # when it has just ended

    def kill(pid, number):
        told.append((pid, number))
        raise ProcessLookupError

    told = []
    monkeypatch.setattr(reproduce, "spawn", types.SimpleNamespace(Process=Process))
    monkeypatch.setattr(os, "kill", kill)
    assert reproduce._in_process(None) == 128 + signal.SIGTERM
    assert told == [(7, signal.SIGTERM), (7, signal.SIGINT)]


def waits(heard):
    """Writes which signals come, for as long as it takes."""

    def writes(number, frame):
        with heard.open("a") as file:
            file.write(f"{number}\n")

    signal.signal(signal.SIGINT, writes)
    heard.write_text(f"{os.getpid()}\n")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and len(heard.read_text().splitlines()) < 2:
        time.sleep(0.01)
    return 7 if time.monotonic() < deadline else 8


def test_ctrl_c_reaches_the_rows_process_through_this_one(tmp_path):
    heard = tmp_path / "heard"

    def presses():
        while not (heard.exists() and heard.read_text()):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    pressing = threading.Thread(target=presses, daemon=True)
    pressing.start()
    before = signal.getsignal(signal.SIGINT)
    code = reproduce._in_process(functools.partial(process.main, functools.partial(waits, heard)))
    child, *numbers = map(int, heard.read_text().split())
    assert child != os.getpid() and numbers == [signal.SIGINT]
    assert code == 128 + signal.SIGINT  # it ended otherwise after it had been told
    assert signal.getsignal(signal.SIGINT) is before
    pressing.join()


def kills(number):
    os.kill(os.getpid(), number)


def ends(code):
    raise SystemExit(code)


@pytest.mark.parametrize(
    ("function", "code"),
    [(functools.partial(kills, signal.SIGKILL), 137), (functools.partial(ends, 2), 2)],
)
def test_a_rows_process_ends_with_its_code(function, code):
    assert reproduce._in_process(function) == code
