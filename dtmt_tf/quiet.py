"""Silence for what is written to standard error and tells a user nothing."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator
from typing import IO

_one_at_a_time = threading.RLock()


@contextlib.contextmanager
def quiet_stderr() -> Iterator[None]:
    """Catches what the process writes to standard error; shows it only if an exception is raised.

    TensorFlow announces missing GPU libraries and SentencePiece its empty normalisation this way,
    past every setting they have. Catches file descriptor 2, so nothing else should be writing; one
    thread at a time does so.
    """
    if sys.stderr is None:  # the process has none, and 2 may be any other file
        yield
        return
    sys.stderr.flush()
    with _one_at_a_time, _buffer() as caught:
        kept = os.dup(2)
        os.dup2(caught.fileno(), 2)
        try:
            yield
        except BaseException:
            caught.seek(0)
            os.write(kept, caught.read())
            raise
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def let_python_pass() -> None:
    """From now on shows what Python itself writes meanwhile, such as a server's log.

    It keeps what descriptor 2 is now; what libraries write there is still caught.
    """
    if (former := sys.stderr) is not None:
        former.flush()
        sys.stderr = os.fdopen(os.dup(2), "w", 1, former.encoding, "backslashreplace")
        for handler in logging.getLogger().handlers:
            if isinstance(handler, logging.StreamHandler) and handler.stream is former:
                handler.setStream(sys.stderr)


def _buffer() -> IO[bytes]:
    """Returns a file without a name; in memory where the system can, as no folder may be there."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("stderr"), "w+b")
    return tempfile.TemporaryFile()


def ignore_softmax_of_one() -> None:
    """Drops Keras's warning of a softmax over one number, such as one word or one state."""
    warnings.filterwarnings("ignore", "You are using a softmax over axis")
