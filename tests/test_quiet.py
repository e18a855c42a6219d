"""Silence on file descriptor 2, broken only by an exception."""

import os
import sys
import threading
import warnings

import keras
import pytest

from dtmt_tf.quiet import ignore_softmax_of_one, quiet_stderr


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


def test_a_process_without_standard_error_is_none_the_worse(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    monkeypatch.setattr(os, "dup", None)  # what is 2 now stays as it is
    with quiet_stderr():
        pass


def test_a_softmax_over_one_number_is_not_warned_of():
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        ignore_softmax_of_one()
        keras.ops.softmax(keras.ops.ones((2, 1)))
        warnings.warn("something else", stacklevel=1)
    assert [str(each.message) for each in told] == ["something else"]
