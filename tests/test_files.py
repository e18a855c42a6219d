import os
import subprocess
import sys
from pathlib import Path

import pytest

from dtmt_tf import files
from dtmt_tf.errors import UserError
from dtmt_tf.files import claimed, write_atomically
from tests.disk import file_size_limit

ROOT = Path(__file__).parents[1]


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_bytes_are_written_and_folders_made(tmp_path):
    path = tmp_path / "a" / "b" / "file.bin"
    write_atomically(path, b"\x00\xff")
    assert path.read_bytes() == b"\x00\xff"
    assert names(path.parent) == ["file.bin"]


def test_a_function_writes_the_content(tmp_path):
    def content(file):
        file.write(b"one ")
        file.write(b"two")

    write_atomically(tmp_path / "file", content)
    assert (tmp_path / "file").read_bytes() == b"one two"


def test_a_file_is_replaced_whole(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"a long old text")
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    write_atomically(path, b"")
    assert path.read_bytes() == b""
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize("error", [RuntimeError, OSError, KeyboardInterrupt])
def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, error):
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def content(file):
        file.write(b"half of the n")
        raise error("stop")

    with pytest.raises(error, match="stop"):
        write_atomically(path, content)
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


def test_a_failure_leaves_no_file_where_none_was(tmp_path):
    def content(file):
        raise ValueError

    with pytest.raises(ValueError):
        write_atomically(tmp_path / "file", content)
    assert names(tmp_path) == []


def test_the_old_file_stands_until_the_new_one_is_complete_and_on_disk(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    synced = []

    def fsync(descriptor):
        synced.append(path.read_bytes())

    monkeypatch.setattr(files.os, "fsync", fsync)

    def content(file):
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"

    write_atomically(path, content)
    assert synced == [b"old", b"new"]  # the content before the renaming, the folder after it


def test_a_full_disk_leaves_the_old_file_and_says_what_to_do(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with file_size_limit(1000), pytest.raises(UserError) as error:
        write_atomically(path, bytes(1001))
    assert str(error.value).startswith(f"{path} could not be written: [Errno 27] File too large")
    assert "Make room" in str(error.value)
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


def test_other_errors_of_the_system_stay_what_they_are(tmp_path):
    (tmp_path / "file.partial").mkdir()
    with pytest.raises(OSError, match="directory"):
        write_atomically(tmp_path / "file", b"new")


def test_the_rest_of_an_earlier_crash_is_overwritten(tmp_path):
    (tmp_path / "file.partial").write_bytes(b"the rest of an earlier crash")
    write_atomically(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"new"
    assert names(tmp_path) == ["file"]


CLAIM = """
import pathlib, sys, time
from dtmt_tf.files import claimed
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
            assert "--name" in str(error.value)
    finally:
        holder.kill()  # SIGKILL: it can clear nothing away
        holder.communicate()
    with claimed(folder):
        assert f"process {os.getpid()} " in (folder / ".lock").read_text()
        with claimed(tmp_path):  # a lock is of one folder
            pass
    with claimed(folder):
        pass
