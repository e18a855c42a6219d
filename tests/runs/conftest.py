"""What tests of runs share."""

import pytest

LINES = {"train": "one\ntwo\n", "dev": "three\n", "final": "four\n", "news": "five\n"}


@pytest.fixture
def corpus(tmp_path):
    """A folder with a few short texts in both languages."""
    for name, text in LINES.items():
        (tmp_path / f"{name}.en").write_text(text)
        (tmp_path / f"{name}.de").write_text(text.upper())
    return tmp_path
