"""A few of the calls that `crash_consistency` lets fail; its command line does them all."""

import subprocess
import sys

import pytest

from tests import faults
from tests.end_to_end.conftest import ROOT

pytestmark = pytest.mark.skipif(not faults.compiler(), reason="there is no C compiler")


@pytest.mark.slow
@pytest.mark.parametrize(
    "commands, errors, most",
    [(["prepare"], list(faults.ERRORS), 2), (["train"], ["KILL"], 2)],
    ids=["prepare", "train"],
)
def test_whatever_fails_the_same_command_then_ends_as_if_nothing_had(commands, errors, most):
    command = [sys.executable, "-m", "tests.end_to_end.crash_consistency"]
    command += ["--commands", *commands, "--errors", *errors, "--most", str(most)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith(tuple(commands))]
    assert [row[1] for row in rows] == errors
    assert all(int(row[3]) >= min(most, int(row[2])) > 0 for row in rows), done.stdout
