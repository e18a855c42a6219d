"""Lines that come one by one through `pipelines/client.py`."""

import subprocess
import sys

from tests.serving.running import ROOT
from tests.serving.shouter import PATIENCE_SECONDS, Shouter

CLIENT = [sys.executable, str(ROOT / "pipelines" / "client.py")]


def test_a_line_that_is_piped_is_answered_before_the_next_one_comes(protocol):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with protocol(Shouter()) as server:
        with subprocess.Popen([*CLIENT, *server], **pipes, text=True, bufsize=1) as process:
            for line in ("one", "two", "three"):
                process.stdin.write(f"{line}\n")
                assert process.stdout.readline() == f"{line.upper()}\n"
            rest, told = process.communicate("four\nfive", timeout=PATIENCE_SECONDS)
    assert (process.returncode, rest) == (0, "FOUR\nFIVE\n")
    assert told.startswith("5 lines in ")
