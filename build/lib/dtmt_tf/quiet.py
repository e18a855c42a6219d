"""Silence for C++ code that writes to standard error whatever its log level is."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator


@contextlib.contextmanager
def quiet_stderr() -> Iterator[None]:
    """Catches what the process writes to standard error; shows it only if an exception is raised.

    TensorFlow announces missing GPU libraries and SentencePiece its empty normalisation this way,
    past every setting they have. Catches file descriptor 2, so nothing else should be writing.
    """
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as caught:
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
