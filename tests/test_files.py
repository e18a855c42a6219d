import pytest

from dtmt_tf import files
from dtmt_tf.files import write_atomically


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


def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def fsync(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", fsync)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


def test_the_rest_of_an_earlier_crash_is_overwritten(tmp_path):
    (tmp_path / "file.partial").write_bytes(b"the rest of an earlier crash")
    write_atomically(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"new"
    assert names(tmp_path) == ["file"]
