"""Processes that measure end with the one that started them."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STARTS_ONE = """
import os, sys, time
sys.path.insert(0, {root!r})
from dtmt_tf import startup
from dtmt_tf.planning.processes import process
startup.start_tensorflow = lambda *_: None  # in both
if __name__ == "__main__":
    print(process().submit(os.getpid).result(), flush=True)
    time.sleep(600)
"""


def test_a_process_ends_with_the_one_that_is_killed(tmp_path):
    script = tmp_path / "start.py"
    script.write_text(STARTS_ONE.format(root=str(ROOT)))
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as parent:
        assert int(parent.stdout.readline()) != parent.pid
        parent.kill()
        parent.communicate(timeout=120)  # ends when nobody can write there any more
