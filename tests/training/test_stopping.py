"""A training goes on to its checkpoint though the terminal that showed it is closed."""

import math
import os
import pty
import signal
import sys

import pytest
from tqdm import tqdm

from dtmt_tf.training.stopping import OUT_OF_TIME, Stop


def test_what_is_told_to_a_closed_terminal_is_discarded(monkeypatch):
    screen, end = pty.openpty()
    with os.fdopen(end, "w") as shown:
        for stream in ("__stdout__", "__stderr__"):
            monkeypatch.setattr(sys, stream, shown)
        with Stop(math.inf) as stop:
            os.close(screen)
            os.kill(os.getpid(), signal.SIGHUP)
            shown.write("Saved.\n")
            shown.flush()
    assert stop.exit_code == 128 + signal.SIGHUP == 129


def test_what_goes_to_a_file_is_kept_when_a_terminal_is_closed(monkeypatch, tmp_path):
    with (tmp_path / "log").open("w") as log:
        monkeypatch.setattr(sys, "__stdout__", log)
        monkeypatch.setattr(sys, "__stderr__", None)  # as of a process without one
        with Stop(math.inf):
            os.kill(os.getpid(), signal.SIGHUP)
            log.write("Saved.\n")
    assert (tmp_path / "log").read_text() == "Saved.\n"


def test_a_log_whose_reader_left_ends_nothing(monkeypatch):
    reader, end = os.pipe()
    os.close(reader)
    with os.fdopen(end, "w") as log:
        monkeypatch.setattr(sys, "stderr", log)
        with Stop(math.inf), tqdm(total=3) as bar:
            for k in range(3):
                bar.write(f"step {k}", file=sys.stderr)
                bar.update()
                bar.refresh()
        assert sys.stderr is log
        print("Stopped.", file=sys.stderr, flush=True)


@pytest.mark.parametrize("asked", ["by another worker", "by the time"])
def test_the_first_signal_after_a_stop_does_not_end_the_save(monkeypatch, asked):
    now = [100.0]
    monkeypatch.setattr("dtmt_tf.training.stopping.time.monotonic", lambda: now[0])
    with Stop(10.0) as stop:
        stop.begin()
        if asked == "by the time":
            now[0] += 10
            code = OUT_OF_TIME
        else:
            stop.told(128 + signal.SIGTERM)
            code = 128 + signal.SIGTERM
        assert stop.requested() == code
        os.kill(os.getpid(), signal.SIGTERM)  # the last checkpoint is being written
        assert stop.requested() == code
        now[0] += 2
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
