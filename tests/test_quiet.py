"""Silence on file descriptor 2, broken only by an exception."""

import os

import pytest

from dtmt_tf.quiet import quiet_stderr


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
