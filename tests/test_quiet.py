"""Silence on file descriptor 2, broken only by an exception."""

import os
import subprocess
import sys
import threading
import warnings

import keras
import pytest

from dtmt_tf.quiet import ignore_softmax_of_one, let_python_pass, quiet_stderr


def test_what_is_written_meanwhile_is_not_shown(capfd):
    os.write(2, b"before ")
    with quiet_stderr():
        os.write(2, b"noise ")
    os.write(2, b"after")
    assert capfd.readouterr().err == "before after"


def test_an_exception_shows_what_was_caught(capfd):
    with pytest.raises(ValueError, match="broken"), quiet_stderr():
        os.write(2, b"the reason")
        raise ValueError("broken")
    assert capfd.readouterr().err == "the reason"


def test_no_folder_for_temporary_files_is_needed(capfd, monkeypatch):
    monkeypatch.setattr("tempfile.TemporaryFile", pytest.fail)
    with quiet_stderr():
        os.write(2, b"noise")
    assert capfd.readouterr().err == ""


def test_threads_wait_for_each_other_and_standard_error_is_put_back(capfd):
    first, second = threading.Event(), threading.Event()

    def hold():
        with quiet_stderr():
            first.set()
            second.wait(0.2)  # the other would begin meanwhile, and end after this

    def follow():
        first.wait()
        with quiet_stderr():
            second.set()

    threads = [threading.Thread(target=each) for each in (hold, follow)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    os.write(2, b"after")
    assert capfd.readouterr().err == "after"


LOGS = """
import logging, os, sys, threading
from dtmt_tf.quiet import let_python_pass, quiet_stderr
logging.basicConfig(stream=sys.stderr)
let_python_pass()
with quiet_stderr():
    os.write(2, b"noise")
    thread = threading.Thread(target=logging.warning, args=["a request \N{DOG FACE} failed"])
    thread.start()
    thread.join()
os.write(2, b"after")
"""


def test_what_python_logs_meanwhile_may_pass():
    done = subprocess.run([sys.executable, "-c", LOGS], capture_output=True, check=True)
    assert done.stderr.decode() == "WARNING:root:a request \N{DOG FACE} failed\nafter"


def test_a_process_without_standard_error_is_none_the_worse(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    monkeypatch.setattr(os, "dup", None)  # what is 2 now stays as it is
    with quiet_stderr():
        let_python_pass()
        assert sys.stderr is None


def test_a_softmax_over_one_number_is_not_warned_of():
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        ignore_softmax_of_one()
        keras.ops.softmax(keras.ops.ones((2, 1)))
        warnings.warn("something else", stacklevel=1)
    assert [str(each.message) for each in told] == ["something else"]
