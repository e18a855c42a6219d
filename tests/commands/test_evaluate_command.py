"""`dtmt evaluate`: what can not be scored is refused before anything is read."""

import pytest

from dtmt_tf import startup
from dtmt_tf.commands import evaluate
from dtmt_tf.errors import UserError


def test_comet_takes_one_reference(monkeypatch):
    monkeypatch.setattr(startup, "start_tensorflow", lambda *_, **__: None)
    files = ["--hypotheses", "new.de", "--sources", "text.en", "--comet", "m"]
    with pytest.raises(UserError, match="one reference. Received: 2. Name one of"):
        evaluate.command(["--references", "a.de", "b.de", *files])
