"""Pairs of commands at once on one run; see `isolation`, which makes 200 of them."""

import subprocess
import sys

import pytest

from tests import faults
from tests.end_to_end.conftest import LONG, ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not faults.works(), reason="no C compiler, or none of use"),
]


def test_commands_at_once_mix_and_lose_nothing():
    result = subprocess.run(
        [sys.executable, "-m", "tests.end_to_end.isolation", "--pairs", "2", "--seed", "2764"],
        cwd=ROOT,
        env=faults.environment(),
        capture_output=True,
        text=True,
        timeout=LONG,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "2 pairs in" in result.stdout
