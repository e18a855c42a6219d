import json
import logging
import os
import stat
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

from dtmt_tf import resumable_lines
from dtmt_tf.errors import UserError
from dtmt_tf.resumable_lines import ResumableLines, _Progress
from tests.disk import file_size_limit

ROOT = Path(__file__).parents[1]
INPUT = [f"line {k}" for k in range(100)]
OUTPUT = "".join(f"LINE {k}\n" for k in range(100))
SETTINGS = {"model": "abc", "scores": False}


class Stop(Exception):
    """What ends a command."""


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def shout(path, lines=INPUT, settings=SETTINGS, stop_after=None, seconds=5.0, at_once=7):
    """Writes lines in capitals; returns those that it had to do."""
    done = []
    with ResumableLines(path, settings, seconds) as output:
        rest = output.remaining(lines)
        while batch := list(islice(rest, at_once)):
            if stop_after is not None and output.done >= stop_after:
                raise Stop
            done += batch
            output.write([line.upper() for line in batch])
    return done


def stop(path, **options):
    with pytest.raises(Stop):
        shout(path, **options)


def test_lines_are_written_and_nothing_else_is_left(tmp_path):
    path = tmp_path / "new" / "out"
    assert shout(path) == INPUT
    assert path.read_text() == OUTPUT
    assert names(path.parent) == ["out"]


def test_an_empty_input_gives_an_empty_file(tmp_path):
    shout(tmp_path / "out", [])
    assert (tmp_path / "out").read_bytes() == b""
    assert names(tmp_path) == ["out"]


def test_a_line_stays_one_line(tmp_path):
    with ResumableLines(tmp_path / "out", {}) as output:
        assert list(output.remaining(["a", "b"])) == ["a", "b"]  # read ahead
        output.write(["one\ntwo", "\N{DOG FACE}"])
    assert (tmp_path / "out").read_bytes() == "one two\n\N{DOG FACE}\n".encode()


@pytest.mark.parametrize("stops", [[1], [50], [98], [7, 14, 60]])
def test_a_command_that_is_stopped_goes_on(tmp_path, stops, caplog):
    path = tmp_path / "out"
    path.write_text("the old output")
    for after in stops:
        stop(path, stop_after=after)
        kept = (tmp_path / "out.partial").read_text()
        assert OUTPUT.startswith(kept) and kept.count("\n") >= after
        assert path.read_text() == "the old output"
        assert f"{kept.count(chr(10))} finished lines are kept in {path}.partial." in caplog.text
    rest = shout(path)
    assert rest == INPUT[kept.count("\n") :]
    assert path.read_text() == OUTPUT
    assert names(tmp_path) == ["out"]


def test_ctrl_c_while_lines_are_written_leaves_no_half_of_them(tmp_path, monkeypatch, caplog):
    after = _Progress.after

    def interrupted(progress, sources, pieces):
        there = (tmp_path / "out.partial").stat().st_size
        result = after(progress, sources, pieces)
        if there:  # the second batch: as if the signal came once its lines are in the file
            output._file.write(b"".join(pieces))
            output._file.flush()
            raise KeyboardInterrupt
        return result

    monkeypatch.setattr(_Progress, "after", interrupted)
    with (
        pytest.raises(KeyboardInterrupt),
        ResumableLines(tmp_path / "out", SETTINGS) as output,
    ):
        rest = output.remaining(INPUT)
        while batch := list(islice(rest, 7)):
            output.write([line.upper() for line in batch])
    assert (tmp_path / "out.partial").read_text() == "".join(OUTPUT.splitlines(True)[:7])
    assert "7 finished lines are kept" in caplog.text


def test_more_lines_at_the_end_of_the_input_go_on_too(tmp_path):
    path = tmp_path / "out"
    stop(path, lines=INPUT[:50], stop_after=40)
    assert shout(path) == INPUT[42:]
    assert path.read_text() == OUTPUT


def change(lines, k):
    return [*lines[:k], "changed", *lines[k + 1 :]]


@pytest.mark.parametrize(
    "lines, settings",
    [
        (change(INPUT, 0), SETTINGS),
        (change(INPUT, 41), SETTINGS),
        (INPUT[:30], SETTINGS),
        ([], SETTINGS),
        (INPUT, {**SETTINGS, "scores": True}),
        (INPUT, {**SETTINGS, "model": "other"}),
    ],
    ids=["first line", "last line", "shorter", "empty", "setting", "model"],
)
def test_lines_of_another_input_are_put_aside(tmp_path, caplog, lines, settings):
    path = tmp_path / "out"
    stop(path, stop_after=40)
    kept = (tmp_path / "out.partial").read_bytes()
    assert shout(path, lines, settings) == lines
    assert path.read_text() == "".join(f"{line.upper()}\n" for line in lines)
    assert (tmp_path / "out.partial.old").read_bytes() == kept
    assert names(tmp_path) == ["out", "out.partial.old"]
    assert "out.partial held lines of another input" in caplog.text


def test_what_was_put_aside_stays(tmp_path, caplog):
    path, kept = tmp_path / "out", []
    for number in range(3):
        stop(path, settings={"number": number}, stop_after=20 * number + 1)
        kept.append((tmp_path / "out.partial").read_text())
    shout(path)
    assert [(tmp_path / f"out.partial.old{k}").read_text() for k in ("", 2, 3)] == kept
    assert "they are in out.partial.old3 now." in caplog.text


def test_a_change_after_the_lines_that_are_done_does_not_matter(tmp_path):
    path = tmp_path / "out"
    stop(path, stop_after=40)
    assert shout(path, change(INPUT, 42)) == change(INPUT, 42)[42:]


def test_lines_that_somebody_edited_are_not_gone_on_from(tmp_path):
    path = tmp_path / "out"
    stop(path, stop_after=40)
    partial = tmp_path / "out.partial"
    partial.write_text(partial.read_text().replace("LINE 1\n", "Line 1\n"))
    assert shout(path) == INPUT
    assert path.read_text() == OUTPUT


def test_stopping_before_the_first_line_leaves_nothing(tmp_path, caplog):
    stop(tmp_path / "out", stop_after=0)
    with pytest.raises(Stop), ResumableLines(tmp_path / "out", {}):
        raise Stop
    assert names(tmp_path) == []
    assert caplog.text == ""


def test_stopping_before_the_input_is_read_keeps_what_there_was(tmp_path):
    path = tmp_path / "out"
    stop(path, stop_after=40)
    with pytest.raises(Stop), ResumableLines(path, SETTINGS):
        raise Stop
    assert shout(path) == INPUT[42:]


def test_lines_without_output_are_a_mistake_of_the_caller(tmp_path):
    def too_few(output):
        list(output.remaining(INPUT))
        output.write(["one"])

    def unread(output):
        next(output.remaining(INPUT))
        output.write(["one"])

    for use in (too_few, unread, lambda output: None):
        with pytest.raises(ValueError, match="not read"), ResumableLines(tmp_path / "a", {}) as out:
            use(out)
    with pytest.raises(ValueError, match="more output"), ResumableLines(tmp_path / "b", {}) as out:
        next(out.remaining(INPUT))
        out.write(["one", "two"])
    assert not {"a", "b"} & set(names(tmp_path))


def test_what_goes_wrong_when_lines_are_put_aside_is_what_is_told(tmp_path, monkeypatch):
    path = tmp_path / "out"
    stop(path, stop_after=50)
    calls, real = [], resumable_lines._locked

    def locked(partial):
        calls.append(partial)
        if len(calls) == 2:
            raise UserError("Make room.")
        return real(partial)

    monkeypatch.setattr(resumable_lines, "_locked", locked)
    with pytest.raises(UserError, match="Make room"):
        shout(path, settings={"model": "another"})
    assert (tmp_path / "out.partial.old").read_text() == OUTPUT[: OUTPUT.index("LINE 56")]


KILLED = """
import os, pathlib, signal, sys
from tests.test_resumable_lines import INPUT, SETTINGS, ResumableLines
with ResumableLines(pathlib.Path(sys.argv[1]), SETTINGS, seconds=float(sys.argv[2])) as output:
    for k, line in enumerate(output.remaining(INPUT)):
        if k == 60:
            os.kill(os.getpid(), signal.SIGKILL)
        output.write([line.upper()])
"""


@pytest.mark.parametrize("seconds, kept", [(0.0, 60), (1000.0, 0)])
def test_what_was_flushed_outlives_a_kill(tmp_path, seconds, kept):
    path = tmp_path / "out"
    code = [sys.executable, "-c", KILLED, path, str(seconds)]
    assert subprocess.run(code, cwd=ROOT).returncode == -9
    assert (tmp_path / "out.partial").read_text().count("\n") == 60
    assert json.loads((tmp_path / "out.partial.json").read_text())["lines"] == kept
    assert shout(path) == INPUT[kept:]
    assert path.read_text() == OUTPUT
    assert names(tmp_path) == ["out"]


def test_a_kill_between_renaming_and_clearing_up_is_mended(tmp_path):
    path = tmp_path / "out"
    stop(path, stop_after=40)
    (tmp_path / "out.partial").rename(path)
    assert shout(path) == INPUT
    assert path.read_text() == OUTPUT
    assert names(tmp_path) == ["out"]


def test_two_processes_do_not_write_the_same_output(tmp_path):
    path = tmp_path / "out"
    with ResumableLines(path, SETTINGS) as output:
        rest = output.remaining(INPUT)
        with pytest.raises(UserError, match=r"Another process writes .*out\.partial"):
            shout(path)
        output.write([line.upper() for line in rest])
    assert path.read_text() == OUTPUT


def test_a_full_disk_keeps_what_is_done_and_says_what_to_do(tmp_path):
    path = tmp_path / "out"
    with file_size_limit(500), pytest.raises(UserError, match="Make room and run the same"):
        shout(path, seconds=0.0)
    rest = shout(path)
    assert 0 < len(rest) < 70
    assert path.read_text() == OUTPUT


@pytest.mark.parametrize("name", ["out.partial", "out.partial.json"])
@pytest.mark.parametrize("kind", ["file", "link", "hard link", "pipe"])
def test_a_file_of_somebody_else_in_the_way_is_left_alone(tmp_path, name, kind):
    victim, planted = tmp_path / "victim", tmp_path / name
    victim.write_text("precious")
    if kind == "file":
        planted.write_text("precious")
    elif kind == "link":
        planted.symlink_to(victim)
    elif kind == "hard link":
        planted.hardlink_to(victim)
    else:
        os.mkfifo(planted)
    with pytest.raises(UserError, match=rf"{name} (is not of this program|should be a file)"):
        shout(tmp_path / "out")
    assert victim.read_text() == "precious"
    if kind != "pipe":
        assert planted.read_text() == "precious"
    assert "out" not in names(tmp_path)


def test_the_target_of_a_link_is_written_and_keeps_its_mode(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    target.chmod(0o600)
    link.symlink_to("target")
    stop(link, stop_after=40)
    assert stat.S_IMODE((tmp_path / "target.partial").stat().st_mode) == 0o600
    shout(link)
    assert link.is_symlink() and target.read_text() == OUTPUT
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert names(tmp_path) == ["link", "target"]


def test_what_is_to_replace_a_read_only_file_can_be_gone_on_with(tmp_path):
    path, partial = tmp_path / "out", tmp_path / "out.partial"
    path.write_text("old")
    path.chmod(0o440)
    for settings in (SETTINGS, {}):  # the second begins anew
        stop(path, settings=settings, stop_after=40)
        assert stat.S_IMODE(partial.stat().st_mode) == 0o640
    assert shout(path, settings={}) == INPUT[42:]
    assert stat.S_IMODE(path.stat().st_mode) == 0o440


def test_a_folder_is_refused_at_once(tmp_path):
    with pytest.raises(OSError, match="Is a directory"):
        shout(tmp_path)


def test_standard_output_gets_each_line_at_once(tmp_path):
    code = (
        "from tests.test_resumable_lines import *\n"
        "with ResumableLines(None, {}) as output:\n"
        "    for line in output.remaining(iter(sys.stdin.readline, '')):\n"
        "        output.write([line.strip().upper()])\n"
        "print('still open', flush=True)\n"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, **pipes) as process:
        for line in ("one", "two"):
            process.stdin.write(f"{line}\n")
            process.stdin.flush()
            assert process.stdout.readline() == f"{line.upper()}\n"
        process.stdin.close()
        assert process.stdout.read() == "still open\n"
    assert process.returncode == 0


def test_a_device_is_written_through(tmp_path):
    shout(Path("/dev/null"))
    with pytest.raises(UserError, match=r"/dev/full could not be written"):
        shout(Path("/dev/full"))
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    assert not Path("/dev/null.partial").exists()


def test_going_on_is_told(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    stop(tmp_path / "out", stop_after=40)
    shout(tmp_path / "out")
    assert "going on after line 42" in caplog.text
