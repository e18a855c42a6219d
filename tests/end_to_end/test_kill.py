"""A training that is ended again and again comes to the weights of one that is left alone."""

import json
import signal
import subprocess
import sys

import pytest

from tests.end_to_end.conftest import LONG, ROOT

pytestmark = pytest.mark.slow

ENDS = {"KILL": 3, "HUP": 2}


@pytest.fixture(scope="module", params=ENDS)
def seen(request, tmp_path_factory):
    """The signal's name, and what was seen of trainings left alone, and ended some times."""
    path = tmp_path_factory.mktemp("ends") / "seen.json"
    ends = ENDS[request.param]
    options = ["--ends", ends, "--signal", request.param, "--model", "transformer_tiny"]
    result = subprocess.run(
        [sys.executable, "-m", "tests.end_to_end.killing", *map(str, options), "--json", path],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=LONG,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return request.param, json.loads(path.read_text())


def test_each_training_was_ended_where_it_should_be(seen):
    name, found = seen
    code = -signal.SIGKILL if name == "KILL" else 128 + signal.SIGHUP
    assert [start["code"] for start in found["ended"]] == [code] * ENDS[name] + [0]
    assert [start["torn"] for start in found["ended"]] == [
        start["end"] is not None and start["end"][0] == "writing" and name == "KILL"
        for start in found["ended"]
    ]
    assert any(start["torn"] for start in found["ended"]) == (name == "KILL")


def test_every_restart_goes_on_from_the_newest_complete_checkpoint(seen):
    name, found = seen
    assert [start["resumed"] for start in found["ended"]] == [
        start["found"] for start in found["ended"]
    ]
    assert [start["found"] for start in found["ended"][1:]] == [
        start["reached"] for start in found["ended"][:-1]
    ]
    assert found["ended"][-1]["resumed"] > 0
    assert all(path.endswith(".npz") for path in found["left"])  # what a kill left is cleared away
    if name == "HUP":  # the update in flight is not lost
        (start,) = (each for each in found["ended"] if each["end"] and each["end"][0] == "training")
        assert start["reached"] == start["found"] + start["end"][1]


def test_the_last_state_is_that_of_the_training_left_alone(seen):
    _, found = seen
    assert len(found["alone"]) == 1 and found["alone"][0]["resumed"] == 0
    own, other = found["digests"]
    assert own == other
