"""A training that is ended again and again comes to the weights of one that is left alone."""

import json
import signal
import subprocess
import sys

import pytest

from tests.end_to_end.conftest import LONG, ROOT

pytestmark = pytest.mark.slow

ENDS = ["KILL", "HUP"]  # while a checkpoint is written, and before an update


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """What was seen of a training left alone, and of one that was ended some times."""
    path = tmp_path_factory.mktemp("ends") / "seen.json"
    options = ["--ends", len(ENDS), "--signal", *ENDS, "--model", "transformer_tiny"]
    result = subprocess.run(
        [sys.executable, "-m", "tests.end_to_end.killing", *map(str, options), "--json", path],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=LONG,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return json.loads(path.read_text())


def test_each_training_was_ended_where_it_should_be(seen):
    codes = {"KILL": -signal.SIGKILL, "HUP": 128 + signal.SIGHUP}
    assert [start["code"] for start in seen["ended"]] == [*(codes[name] for name in ENDS), 0]
    places = [start["end"] and start["end"][0] for start in seen["ended"]]
    assert places == ["writing", "training", None]
    assert [start["torn"] for start in seen["ended"]] == [True, False, False]


def test_every_restart_goes_on_from_the_newest_complete_checkpoint(seen):
    assert [start["resumed"] for start in seen["ended"]] == [
        start["found"] for start in seen["ended"]
    ]
    assert [start["found"] for start in seen["ended"][1:]] == [
        start["reached"] for start in seen["ended"][:-1]
    ]
    assert seen["ended"][-1]["resumed"] > 0
    assert all(path.endswith(".npz") for path in seen["left"])  # what a kill left is cleared away
    hung_up = seen["ended"][1]  # the update in flight is not lost
    assert hung_up["reached"] == hung_up["found"] + hung_up["end"][1]


def test_the_last_state_is_that_of_the_training_left_alone(seen):
    assert len(seen["alone"]) == 1 and seen["alone"][0]["resumed"] == 0
    own, other = seen["digests"]
    assert own == other
