"""What makes processes fail does so, and files keep what they promise whatever fails."""

import os
import shutil
import subprocess
import sys
import tempfile
from itertools import islice
from pathlib import Path

import pytest

from dtmt_tf.files import clear_leftovers, write_atomically
from dtmt_tf.folders import claimed, clean, is_ours, mark
from dtmt_tf.resumable_lines import ResumableLines
from tests import faults
from tests.faults import ERRORS, Fault

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.skipif(not faults.works(), reason="no C compiler, or none of use")

WORK = """
import os, sys
folder = sys.argv[1]
for name in ("one", "two"):
    path = os.path.join(folder, name)
    try:
        with open(path + ".new", "w") as file:
            file.write("text")
            file.flush()
            os.fsync(file.fileno())
        os.replace(path + ".new", path)
        open(path).close()
    except OSError as error:
        print(name, error.strerror)
open(folder + "-elsewhere", "w").close()
"""
CALLS = ["open {}/one.new", "write {}/one.new", "fsync {}/one.new", "rename {}/one", "open {}/one"]


def work(tmp_path, fault):
    below, log = tmp_path / "below", tmp_path / "log"
    below.mkdir()
    command = [sys.executable, "-c", WORK, below]
    done = faults.run(command, fault, below, log, capture_output=True, text=True)
    assert done.stderr == ""
    (tmp_path / "log").touch()
    calls = [line.replace(str(below), "{}") for line in (tmp_path / "log").read_text().splitlines()]
    return done.returncode, done.stdout.splitlines(), calls


@pytest.mark.parametrize(
    "error, counted",
    [("EIO", "12345"), ("ESTALE", "12345"), ("EACCES", "145"), ("ENOSPC", "123"), ("KILL", "1234")],
)
def test_the_calls_that_an_error_can_befall_are_counted(tmp_path, error, counted):
    code, said, calls = work(tmp_path, Fault(error))
    one = [CALLS[int(k) - 1] for k in counted]
    both = [*one, *(call.replace("one", "two") for call in one)]
    assert calls == [f"{number} {call}" for number, call in enumerate(both, 1)]
    assert (code, said) == (0, [])


@pytest.mark.parametrize("error, text", [("EIO", "Input/output error"), ("EACCES", "Permission d")])
def test_a_call_fails_and_the_later_ones_do_not(tmp_path, error, text):
    code, said, calls = work(tmp_path, Fault(error, 2))
    assert code == 0
    assert len(said) == 1 and said[0].startswith(f"one {text}")
    assert [line for line in calls if line.endswith(" *")] == [calls[1]]


def test_a_full_disk_stays_full(tmp_path):
    code, said, _ = work(tmp_path, Fault("ENOSPC", 2))
    assert said == ["one No space left on device", "two No space left on device"]


def test_a_kill_comes_in_place_of_the_call(tmp_path):
    code, said, calls = work(tmp_path, Fault("KILL", 4))
    assert code == -9
    assert os.listdir(tmp_path / "below") == ["one.new"]  # written, not renamed
    assert len(calls) == 4


def test_the_command_line_does_the_same(tmp_path):
    (tmp_path / "below").mkdir()
    command = [sys.executable, "-m", "tests.faults", "--below", tmp_path / "below"]
    inner = ["--", sys.executable, "-c", WORK, tmp_path / "below"]
    listed = subprocess.run(
        [*command, "0", "EIO", *inner], cwd=ROOT, capture_output=True, text=True
    )
    assert listed.stderr.splitlines()[-1] == "10 calls, exit code 0"
    assert f"4 rename {tmp_path}/below/one" in listed.stderr.splitlines()
    killed = subprocess.run(
        [*command, "4", "KILL", *inner], cwd=ROOT, capture_output=True, text=True
    )
    assert killed.returncode == 128 + 9
    assert "4 calls, exit code -9" in killed.stderr


# The files of dtmt_tf, with every call failing in every way. Each of these stands for a command: it
# is run on a folder that `begin` made, with an error, then again without.

LINES = [f"line {k}" for k in range(9)]


class Replacing:
    """A file is replaced."""

    def begin(self, folder):
        (folder / "file").write_bytes(b"old")

    def work(self, folder):
        write_atomically(folder / "file", b"new")

    def check(self, folder, ended):
        content = (folder / "file").read_bytes()
        assert content in (b"old", b"new")
        assert ended.code or content == b"new"
        assert ended.code != -9 or len(os.listdir(folder)) <= 2
        assert ended.code == -9 or os.listdir(folder) == ["file"] or "unlink" in ended.said

    def check_again(self, folder):
        assert (folder / "file").read_bytes() == b"new"
        clear_leftovers(folder)
        assert os.listdir(folder) == ["file"]


class Keeping:
    """Lines are written, a command that was stopped before going on."""

    def begin(self, folder):
        (folder / "out").write_text("old")
        try:
            self.work(folder, stop=4)
        except KeyboardInterrupt:
            pass

    def work(self, folder, stop=None):
        with ResumableLines(folder / "out", {}, seconds=0.0) as output:
            rest = output.remaining(LINES)
            while batch := list(islice(rest, 2)):
                if output.done == stop:
                    raise KeyboardInterrupt
                output.write([line.upper() for line in batch])

    def check(self, folder, ended):
        out = (folder / "out").read_text()
        whole = "".join(f"{line.upper()}\n" for line in LINES)
        assert out in ("old", whole)
        if out == "old":  # nothing that was flushed before is lost
            assert (folder / "out.partial").read_text().startswith(whole[: 4 * 7])
        assert ended.code or out == whole

    def check_again(self, folder):
        assert (folder / "out").read_text() == "".join(f"{line.upper()}\n" for line in LINES)
        clear_leftovers(folder)
        assert not (folder / "out.partial").exists()


class Beginning(Keeping):
    """Lines are written for the first time."""

    def begin(self, folder):
        (folder / "out").write_text("old")

    def check(self, folder, ended):
        assert ended.code or (folder / "out").read_text() != "old"


class Marking:
    """A folder is claimed, marked and filled."""

    def begin(self, folder):
        pass

    def work(self, folder):
        with claimed(folder / "run"):
            mark(folder / "run")
            write_atomically(folder / "run" / "train" / "scores.json", b"{}")

    def check(self, folder, ended):
        assert ended.code or is_ours(folder / "run")

    def check_again(self, folder):
        assert is_ours(folder / "run")
        assert (folder / "run" / "train" / "scores.json").read_bytes() == b"{}"


class Cleaning(Marking):
    """A folder is cleaned."""

    def begin(self, folder):
        super().work(folder)
        (folder / "run" / "train" / "own.txt").write_text("precious")

    def work(self, folder):
        with claimed(folder / "run"):
            clean(folder / "run", ["train/*.json"])

    def check(self, folder, ended):
        assert is_ours(folder / "run")
        assert (folder / "run" / "train" / "own.txt").read_text() == "precious"

    def check_again(self, folder):
        self.check(folder, None)
        assert os.listdir(folder / "run" / "train") == ["own.txt"]


SCENARIOS = {each.__name__: each for each in (Replacing, Keeping, Beginning, Marking, Cleaning)}


def fail_everywhere(name, folder):
    """Runs a scenario with every error at every call; prints how many there were."""
    scenario, below = SCENARIOS[name](), folder / "below"

    def begin():
        shutil.rmtree(below, ignore_errors=True)
        below.mkdir()
        scenario.begin(below)

    for error in ERRORS:
        points = 0
        for number, ended in faults.each(lambda: scenario.work(below), error, below, begin):
            where = f"{name}, {error} at {number}: {ended}"
            expected = (-9,) if error == faults.KILL else (0, 2)
            assert ended.code in expected, where
            try:
                scenario.check(below, ended)
                again = faults.forked(lambda: scenario.work(below), None, below)
                assert again.code == 0, again
                scenario.check_again(below)
            except (AssertionError, OSError) as problem:
                raise AssertionError(f"{where}\n{os.listdir(below)}\n{problem}") from problem
            points += 1
        print(error, points)


@pytest.mark.parametrize("name", SCENARIOS)
def test_whatever_fails_files_are_old_or_new_and_the_same_command_ends_well(name):
    code = f"from tests.test_faults import *; fail_everywhere({name!r}, Path(sys.argv[1]))"
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None  # where flushing takes no time
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        done = subprocess.run(
            [sys.executable, "-c", code, folder],
            cwd=ROOT,
            env=faults.environment(),
            capture_output=True,
            text=True,
        )
    assert done.returncode == 0, done.stderr
    points = dict(line.split() for line in done.stdout.splitlines())
    assert points.keys() == ERRORS.keys()
    assert min(map(int, points.values())) >= 2
