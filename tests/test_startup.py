"""How TensorFlow is started."""

import json
import subprocess
import sys

import pytest

from dtmt_tf import startup
from dtmt_tf.errors import UserError

# in a process of its own: what is frozen there would stay in that of the tests
CODE = """
import gc
from dtmt_tf.startup import kept

def tracked(lists):
    return {id(each) for each in lists} & {id(each) for each in gc.get_objects()}

with kept():
    assert not gc.isenabled()
    inside = [[] for _ in range(3)]
outside = [[] for _ in range(3)]
assert gc.isenabled()
assert not tracked(inside) and len(tracked(outside)) == 3
gc.disable()
with kept():
    pass
assert not gc.isenabled()
"""


def test_what_is_made_while_nothing_is_collected_is_not_looked_at_again():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("cluster", "task", "several"),
    [
        ({"worker": ["a:1", "b:1"]}, {"type": "worker", "index": 1}, True),
        ({"chief": ["a:1"], "worker": ["b:1"]}, {"type": "worker", "index": 0}, True),
        ({"chief": ["a:1"], "worker": ["b:1"]}, {"type": "worker", "index": 1}, None),
        ({"worker": ["a:1"]}, {"type": "worker", "index": 0}, False),
        ({"worker": ["a:1"]}, {"type": "worker", "index": 1}, None),
        ({"worker": ["a:1"]}, {"type": "chief", "index": 0}, None),
        (["a:1", "b:1"], {"type": "worker", "index": 0}, None),
    ],
)
def test_a_cluster_is_read_or_refused_with_an_example(monkeypatch, cluster, task, several):
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": task}))
    if several is None:
        with pytest.raises(UserError, match=r"(?s)TF_CONFIG should name the workers.*Received"):
            startup.is_multiworker("auto")
    else:
        assert startup.is_multiworker("auto") == several


def test_devices_that_can_not_be_had_are_refused_before_anything_starts():
    with pytest.raises(UserError, match="names CPU:1 twice"):
        startup.start_tensorflow(["CPU:0", "CPU:1", "cpu:1"])
    with pytest.raises(UserError, match="for one machine"):
        startup.start_tensorflow(["CPU:0"], multiworker=True)
