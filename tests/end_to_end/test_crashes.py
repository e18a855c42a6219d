"""Commands that fail or are killed at some of the calls that touch their files; see `crashes`.

All of them: `python -m tests.end_to_end.crashes`, which takes hours.
"""

import json
import subprocess
import sys

import pytest

from tests import faults
from tests.end_to_end.conftest import LONG, ROOT
from tests.end_to_end.crashes import ends_of_rows

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not faults.works(), reason="no C compiler, or none of use"),
]


def test_what_fails_loses_nothing_and_the_same_command_ends_well(tmp_path):
    path = tmp_path / "found.json"
    options = ["--commands", "train", "evaluate", "--errors", "KILL", "ENOSPC"]
    options += ["--first", "20", "--most", "1", "--json", path]
    result = subprocess.run(
        [sys.executable, "-m", "tests.end_to_end.crashes", *options],
        cwd=ROOT,
        env=faults.environment(),
        capture_output=True,
        text=True,
        timeout=LONG,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    found = json.loads(path.read_text())
    assert found == {name: [{"KILL": 1, "ENOSPC": 1}, []] for name in ("train", "evaluate")}


def test_of_calls_in_a_row_the_first_and_the_last_are_told():
    lines = ["1 open a.0123456789abcdef.partial", "2 write a.0123456789abcdef.partial"]
    lines += [f"{k} write a.0123456789abcdef.partial" for k in (3, 4)]
    lines += ["5 open b", "6 open b", "7 rename a"]
    assert ends_of_rows(lines) == [1, 2, 4, 5, 6, 7]
