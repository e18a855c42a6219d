"""What all tests of commands share."""

import pytest

from dtmt_tf import startup


@pytest.fixture(autouse=True)
def started(monkeypatch):
    """TensorFlow has started in this process."""
    monkeypatch.setattr(startup, "start_tensorflow", lambda *_, **__: None)
