"""Folders that one process has at a time, and that carry this program's mark."""

import errno
import fcntl
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from dtmt_tf import folders
from dtmt_tf.errors import UserError
from dtmt_tf.folders import claimed, clean, is_ours, locked, mark

ROOT = Path(__file__).parents[1]


def names(folder):
    return sorted(path.name for path in folder.iterdir())


CLAIM = """
import pathlib, sys, time
from dtmt_tf.folders import claimed
with claimed(pathlib.Path(sys.argv[1])):
    print("claimed", flush=True)
    time.sleep(60)
"""


def test_a_folder_is_claimed_by_one_process_until_it_dies(tmp_path):
    folder = tmp_path / "new" / "run"
    holder = subprocess.Popen(
        [sys.executable, "-c", CLAIM, folder], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout.readline() == "claimed\n"
        for _ in range(2):
            with pytest.raises(UserError) as error, claimed(folder):
                pass
            assert f"{folder} is in use by process {holder.pid} on " in str(error.value)
            assert "(-c " in str(error.value)  # its command
            assert str(error.value).endswith("work). A new run may have another --name.")
    finally:
        holder.kill()  # SIGKILL: it can clear nothing away
        holder.communicate()
    with claimed(folder):
        assert f"process {os.getpid()} " in (folder / ".lock").read_text()
        with claimed(tmp_path):  # a lock is of one folder
            pass
        with claimed(folder.parent / ".." / "new" / "run"):  # this process has it
            pass
        other = subprocess.run([sys.executable, "-c", CLAIM, folder], cwd=ROOT, capture_output=True)
        assert f"in use by process {os.getpid()} ".encode() in other.stderr
    with claimed(folder):
        pass


def test_who_asks_for_the_owner_keeps_nobody_from_claiming(tmp_path):
    with claimed(tmp_path):
        pass
    with open(tmp_path / ".lock", "rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH)  # as `holder` does, for a moment
        later = threading.Timer(0.1, fcntl.flock, (file, fcntl.LOCK_UN))
        later.start()
        with claimed(tmp_path):
            later.join()


def test_a_lock_that_is_a_link_is_not_followed(tmp_path):
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    (tmp_path / ".lock").symlink_to(victim)
    for lock in (lambda: locked(tmp_path / ".lock"), lambda: claimed(tmp_path)):
        with pytest.raises(UserError, match="should be a file"), lock():
            pass
    assert victim.read_bytes() == b"precious"


HOLD = """
import pathlib, sys
from dtmt_tf.folders import locked
with locked(pathlib.Path(sys.argv[1])):
    print("locked", flush=True)
    sys.stdin.read()
"""


def told_by(emit, event):
    def emit_and_set(record):
        emit(record)
        event.set()

    return emit_and_set


def test_who_waits_long_for_a_lock_is_told_whom_for(tmp_path, monkeypatch, caplog):
    path = tmp_path / "cache" / ".lock"
    holder = subprocess.Popen(
        *([sys.executable, "-c", HOLD, path],),
        **{"cwd": ROOT, "stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True},
    )
    caplog.set_level("INFO")
    monkeypatch.setattr(folders, "QUIET_WAIT_SECONDS", 0.1)
    told = threading.Event()
    monkeypatch.setattr(caplog.handler, "emit", told_by(caplog.handler.emit, told))
    try:
        assert holder.stdout.readline() == "locked\n"
        later = threading.Thread(target=lambda: (told.wait(), holder.communicate()))
        later.start()
        with locked(path):
            assert path.read_text().startswith(f"process {os.getpid()} ")
        later.join()
        assert holder.returncode == 0  # it had let go
    finally:
        holder.kill()
        holder.communicate()
    (said,) = caplog.messages
    assert said.startswith(f"Waiting for process {holder.pid} on ")
    assert said.endswith(f"{path}), which has {path}.")
    caplog.clear()
    with locked(path):  # free at once: no word
        pass
    assert not caplog.messages


def test_a_file_system_without_locks_is_told_and_used(tmp_path, monkeypatch, caplog):
    def fail(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(folders.fcntl, "flock", fail)
    with locked(tmp_path / "cache.lock"), claimed(tmp_path / "run"):
        mark(tmp_path / "run")
    assert [said.partition(" can not be locked: ")[0] for said in caplog.messages] == [
        str(tmp_path / "cache.lock"),
        str(tmp_path / "run" / ".lock"),
    ]
    assert f"no other process works in {tmp_path / 'run'}." in caplog.messages[1]


@pytest.mark.parametrize(
    ("refused", "advice"),
    [("mkdir", "Choose another --output-dir"), ("open", "Copy it to where you may write")],
)
def test_a_folder_that_can_not_be_written_to_is_told_with_what_to_do(
    tmp_path, monkeypatch, refused, advice
):
    def fail(*_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(*((Path, "mkdir") if refused == "mkdir" else (os, "open")), fail)
    with (
        pytest.raises(UserError, match=f"/run: Read-only file system. {advice}"),
        claimed(tmp_path / "run"),
    ):
        pass


def test_a_cache_that_can_not_be_written_to_is_told_with_what_to_do(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise OSError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "mkdir", fail)
    told = "/cache: Permission denied. If it is the cache, XDG_CACHE_HOME names"
    with pytest.raises(UserError, match=told), locked(tmp_path / "cache" / "lock"):
        pass


def make(folder, *paths):
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(path)


def paths_below(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())


def test_an_empty_or_a_new_folder_is_marked_and_another_is_not(tmp_path):
    (tmp_path / "empty").mkdir()
    for name in ("new/run", "empty"):
        folder = tmp_path / name
        assert not is_ours(folder)
        with claimed(folder):
            mark(folder)
            mark(folder)
        assert is_ours(folder)
        make(folder, "notes.txt")
        mark(folder)  # it is this program's already
    make(tmp_path, "theirs/train/corpus.en", "a file")
    for name, said in (("theirs", "holds 'train' and no run"), ("a file", "is no folder")):
        with pytest.raises(UserError, match=said):
            mark(tmp_path / name)
        assert not is_ours(tmp_path / name)
    assert paths_below(tmp_path / "theirs") == ["train/corpus.en"]


def test_a_mark_that_a_kill_tore_is_made_again(tmp_path):
    make(tmp_path, f".dtmt_run.{'a' * 16}.partial")
    mark(tmp_path)
    assert is_ours(tmp_path)


@pytest.mark.parametrize("moment", ["before it is listed", "after it is asked for a mark"])
def test_a_folder_that_another_process_marks_meanwhile_is_no_other_s(tmp_path, monkeypatch, moment):
    def marked():
        make(tmp_path, ".dtmt_run", "train/experiment.json")

    def list_late(folder, listed=Path.iterdir):
        marked()
        return listed(folder)

    def ask_early(folder, asked=folders.is_ours):
        known = asked(folder)
        marked()
        return known

    if moment == "before it is listed":
        monkeypatch.setattr(Path, "iterdir", list_late)
    else:
        monkeypatch.setattr(folders, "is_ours", ask_early)
    folders.check_free(tmp_path)


def test_a_mark_is_a_file_and_no_link(tmp_path):
    (tmp_path / ".dtmt_run").symlink_to("/etc/passwd")
    assert not is_ours(tmp_path)


def test_cleaning_removes_what_is_known_alone(tmp_path):
    folder, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    make(elsewhere, "step-2.npz", "test.txt")
    mark(folder)
    mine = ["train/checkpoints/step-1.npz", "train/scores.json", "train/test.txt"]
    theirs = ["train/checkpoints/notes", "train/corpus.en", "train/own/test.txt", "step-3.npz"]
    make(folder, *mine, *theirs, ".lock", "train/board/events.1")
    (folder / "train" / "own" / "empty").mkdir()
    (folder / "train" / "linked").symlink_to(elsewhere)
    (folder / "train" / "valid.txt").symlink_to(elsewhere / "test.txt")
    known = ["train/checkpoints/step-*.npz", "train/*.json", "train/*.txt", "train/board/events.*"]
    known += ["train/linked/*"]
    stay = clean(folder, known)
    assert stay == sorted(folder / path for path in [*theirs, "train/linked"])
    assert paths_below(folder) == sorted([*theirs, ".lock", ".dtmt_run"])
    assert (folder / "train" / "linked").is_symlink()
    assert (folder / "train" / "own" / "empty").is_dir()
    assert not (folder / "train" / "board").exists()  # what is empty then
    assert paths_below(elsewhere) == ["step-2.npz", "test.txt"]


def test_a_folder_without_the_mark_is_not_cleaned(tmp_path):
    make(tmp_path, "train/corpus.en")
    with pytest.raises(UserError, match=r"has no \.dtmt_run\. Nothing was removed"):
        clean(tmp_path, ["train/*"])
    assert paths_below(tmp_path) == ["train/corpus.en"]
