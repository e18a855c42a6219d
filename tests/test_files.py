import errno
import fcntl
import json
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dtmt_tf import files
from dtmt_tf.errors import UserError
from dtmt_tf.files import clear_leftovers, write_atomically, write_json
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
    (tmp_path / "file").mkdir()
    with pytest.raises(OSError, match="directory"):
        write_atomically(tmp_path / "file", b"new")
    assert names(tmp_path) == ["file"]


WRITE = """
import pathlib, sys
from dtmt_tf.files import write_atomically
path, letter = pathlib.Path(sys.argv[1]), sys.argv[2].encode()
for size in range(1, 301):
    write_atomically(path, letter * size * 100)
"""


def test_two_processes_write_the_same_file_300_times_and_a_reader_sees_whole_ones(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"a")
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITE, path, letter], cwd=ROOT, stderr=subprocess.PIPE, text=True
        )
        for letter in "ab"
    ]
    read = 0
    while any(writer.poll() is None for writer in writers):
        content = path.read_bytes()
        assert content == content[:1] * len(content)
        assert len(content) == 1 or len(content) % 100 == 0
        read += 1
    assert [writer.communicate()[1] for writer in writers] == ["", ""]
    assert [writer.returncode for writer in writers] == [0, 0]
    assert read > 100
    assert path.read_bytes() in (b"a" * 30000, b"b" * 30000)
    assert names(tmp_path) == ["file"]


def test_a_replaced_file_keeps_its_mode_and_a_new_one_has_the_usual(tmp_path):
    for mode in (0o600, 0o640, 0o755):
        path = tmp_path / f"{mode:o}"
        path.touch()
        path.chmod(mode)
        write_atomically(path, b"new")
        assert stat.S_IMODE(path.stat().st_mode) == mode
    (tmp_path / "usual").touch()
    write_atomically(tmp_path / "new", b"new")
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_the_temporary_file_is_never_wider_than_the_old_one(tmp_path):
    path = tmp_path / "secret"
    path.touch(0o600)

    def content(file):
        assert [stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir()] == [0o600] * 2
        file.write(b"new")

    write_atomically(path, content)


@pytest.mark.parametrize("there", [True, False], ids=["to a file", "dangling"])
def test_a_link_stays_and_what_it_names_is_replaced(tmp_path, there):
    target, link = tmp_path / "a" / "target", tmp_path / "b" / "link"
    target.parent.mkdir(), link.parent.mkdir()
    if there:
        target.write_bytes(b"old")
    link.symlink_to("../a/target")
    write_atomically(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert names(target.parent) == ["target"]
    assert names(link.parent) == ["link"]


def test_a_planted_temporary_link_is_not_followed(tmp_path, monkeypatch):
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    (tmp_path / "file.partial").symlink_to(victim)  # as of version 0.1
    draws = iter(["0" * 16])
    monkeypatch.setattr(files.secrets, "token_hex", lambda size: next(draws))
    (tmp_path / f"file.{'0' * 16}.partial").symlink_to(victim)  # should it be guessed
    with pytest.raises(FileExistsError):
        write_atomically(tmp_path / "file", b"new")
    assert victim.read_bytes() == b"precious"
    assert not (tmp_path / "file").exists()


def test_a_device_stays_a_device(tmp_path):
    device = tmp_path / "null"
    try:
        os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        device.write_bytes(b"")
    except PermissionError:
        device = Path("/dev/null")
    write_atomically(device, b"new")
    write_atomically(device, lambda file: file.write(b"new"))
    assert stat.S_ISCHR(device.lstat().st_mode)


def test_a_full_device_says_what_to_do():
    with pytest.raises(UserError, match=r"/dev/full could not be written.*No space.*Make room"):
        write_atomically(Path("/dev/full"), b"new")


def test_a_pipe_is_written_to(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    link = tmp_path / "link"
    link.symlink_to(pipe)

    def content(file):  # as archives are written
        file.write(b"..o")
        file.seek(0)
        file.write(b"tw")

    for path, written, read in ((pipe, bytes(200_000), bytes(200_000)), (link, content, b"two")):
        with ThreadPoolExecutor() as pool:
            got = pool.submit(pipe.read_bytes)
            write_atomically(path, written)
            assert got.result(timeout=1800) == read
    assert stat.S_ISFIFO(pipe.lstat().st_mode)
    assert names(tmp_path) == ["link", "pipe"]


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_standard_output_by_its_name_is_not_replaced(tmp_path, name):
    code = f"from dtmt_tf.files import *; write_atomically(Path({name!r}), b'new')"
    whole = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, check=True
    )
    assert whole.stdout == b"new"
    with (tmp_path / "log").open("ab") as log:
        log.write(b"old ")
        log.flush()
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, stdout=log, check=True)
        log.write(b" more")
    assert (tmp_path / "log").read_bytes() == b"old new more"
    with (tmp_path / "log").open("wb") as log:  # which has one place for all that write to it
        code = f"print('old', end=' '); {code}; print(' more', end='')"
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, stdout=log, check=True)
    assert (tmp_path / "log").read_bytes() == b"old new more"


def test_a_name_as_long_as_the_system_allows_is_written(tmp_path):
    for letter in ("a", "\N{DOG FACE}"):
        path = tmp_path / (letter * (255 // len(letter.encode())))
        write_atomically(path, b"new")
        assert path.read_bytes() == b"new"


HANG = """
import pathlib, sys, time
from dtmt_tf.files import write_atomically
def content(file):
    file.write(b"half")
    file.flush()
    print("writing", flush=True)
    time.sleep(60)
write_atomically(pathlib.Path(sys.argv[1]), content)
"""


def test_what_a_killed_process_left_is_cleared_and_what_a_living_one_writes_is_not(tmp_path):
    (tmp_path / "file.partial").write_bytes(b"lines that a command goes on from")
    (tmp_path / "other").write_bytes(b"old")
    writer = subprocess.Popen(
        [sys.executable, "-c", HANG, tmp_path / "other"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert writer.stdout.readline() == "writing\n"
        (half,) = set(names(tmp_path)) - {"file.partial", "other"}
        assert clear_leftovers(tmp_path) == []
        assert half in names(tmp_path)
    finally:
        writer.kill()
        writer.communicate()
    assert (tmp_path / half).read_bytes() == b"half"
    assert clear_leftovers(tmp_path) == [tmp_path / half]
    assert names(tmp_path) == ["file.partial", "other"]
    assert clear_leftovers(tmp_path / "absent") == []


def test_a_temporary_file_that_was_cleared_before_its_lock_is_made_anew(tmp_path, monkeypatch):
    flock, cleared = fcntl.flock, []

    def late(file, operation):
        if not cleared:
            cleared.extend(tmp_path.glob("*.partial"))
            cleared[0].unlink()
        flock(file, operation)

    monkeypatch.setattr(files.fcntl, "flock", late)
    write_atomically(tmp_path / "file", b"new")
    assert len(cleared) == 1
    assert (tmp_path / "file").read_bytes() == b"new"
    assert names(tmp_path) == ["file"]


def test_on_a_file_system_without_locks_files_are_written_and_no_leftover_is_removed(
    tmp_path, monkeypatch
):
    def fail(*_):
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))

    monkeypatch.setattr(files.fcntl, "flock", fail)
    write_atomically(tmp_path / "file", b"new")
    half = tmp_path / f"file.{'a' * 16}.partial"
    half.write_bytes(b"of another process, perhaps")
    assert clear_leftovers(tmp_path) == []
    assert names(tmp_path) == ["file", half.name]


def test_json_has_the_users_ordinary_permissions(tmp_path):
    (tmp_path / "plain").write_text("")
    write_json(tmp_path / "scores.json", {"bleu": 1.0})
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("plain", "scores.json")]
    assert modes[0] == modes[1]


@pytest.mark.parametrize("function", ["fsync", "replace"])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, function):
    path = tmp_path / "scores.json"
    write_json(path, {"bleu": 1.0})

    def fail(*unused_args):
        raise OSError("disk full")

    monkeypatch.setattr(os, function, fail)
    with pytest.raises(OSError, match="disk full"):
        write_json(path, {"bleu": 2.0})
    assert json.loads(path.read_text()) == {"bleu": 1.0}
    assert [entry.name for entry in tmp_path.iterdir()] == ["scores.json"]


def test_not_a_number_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(ValueError, match="Out of range"):
        write_json(tmp_path / "scores.json", {"bleu": float("nan")})
    assert list(tmp_path.iterdir()) == []
