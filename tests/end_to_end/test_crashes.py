"""Commands that fail or are killed at some of the calls that touch their files; see `crashes`.

All of them: `python -m tests.end_to_end.crashes`, which takes hours.
"""

import json
import subprocess
import sys

import pytest

from tests import faults
from tests.end_to_end.conftest import LONG, ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not faults.compiler(), reason="there is no C compiler"),
]


@pytest.mark.parametrize(
    ("name", "error", "step"),
    [
        ("train", "KILL", 17),
        ("evaluate", "ENOSPC", 5),
    ],
)
def test_what_fails_loses_nothing_and_the_same_command_ends_well(name, error, step, tmp_path):
    path = tmp_path / "found.json"
    options = ["--commands", name, "--errors", error, "--step", step, "--first", 5, "--most", 2]
    result = subprocess.run(
        [sys.executable, "-m", "tests.end_to_end.crashes", *map(str, options), "--json", path],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=LONG,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    ((tried, wrong),) = json.loads(path.read_text()).values()
    assert tried[error] == 2 and not wrong
