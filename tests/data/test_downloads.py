import dataclasses
import gzip
import hashlib
import lzma

import pytest

from dtmt_tf.config import RemoteFile
from dtmt_tf.data.downloads import resolve_file
from dtmt_tf.data.lines import byte_lines
from dtmt_tf.data.own_files import find_file
from dtmt_tf.errors import UserError
from dtmt_tf.tasks import TASKS
from tests.disk import file_size_limit

TEXT = "Guten Tag.\nÄpfel und Birnen\n".encode()


def remote(tmp_path, content=TEXT, path="news/train.de", url=None):
    served = tmp_path / "server" / "train.de"
    if url is None:
        served.parent.mkdir(exist_ok=True)
        served.write_bytes(content)
        url = served.as_uri()
    return RemoteFile(path=path, url=url, sha256=hashlib.sha256(content).hexdigest())


def test_the_data_directory_comes_before_the_cache(tmp_path):
    file = remote(tmp_path)
    for directory in ("data", "cache"):
        (tmp_path / directory / "news").mkdir(parents=True)
        (tmp_path / directory / "news/train.de").write_bytes(TEXT)
    found = resolve_file(file, tmp_path / "data", tmp_path / "cache")
    assert found == tmp_path / "data/news/train.de"
    assert resolve_file(file, None, tmp_path / "cache") == tmp_path / "cache/news/train.de"


@pytest.mark.parametrize("suffix, pack", [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_a_packed_file_is_found_by_the_hash_of_its_text(tmp_path, suffix, pack):
    packed = tmp_path / f"data/news/train.de{suffix}"
    packed.parent.mkdir(parents=True)
    packed.write_bytes(pack(TEXT))
    assert resolve_file(remote(tmp_path), tmp_path / "data", tmp_path / "cache") == packed


def test_a_missing_file_is_downloaded_once(tmp_path):
    file = remote(tmp_path)
    found = resolve_file(file, tmp_path / "data", tmp_path / "cache")
    assert found == tmp_path / "cache/news/train.de"
    assert found.read_bytes() == TEXT
    (tmp_path / "server/train.de").unlink()
    assert resolve_file(file, None, tmp_path / "cache") == found
    assert [path.name for path in found.parent.iterdir()] == ["train.de"]


def test_a_packed_download_keeps_its_suffix(tmp_path):
    (tmp_path / "train.de.gz").write_bytes(gzip.compress(TEXT))
    file = remote(tmp_path, url=(tmp_path / "train.de.gz").as_uri())
    found = resolve_file(file, None, tmp_path / "cache")
    assert found == tmp_path / "cache/news/train.de.gz"
    assert list(byte_lines(found)) == TEXT.splitlines()


@pytest.mark.parametrize("named", ["news/train.de", "news/train.de.gz", "news/train.de.xz"])
def test_a_file_of_a_task_is_found_packed_or_not_however_it_is_named(tmp_path, named):
    task = dataclasses.replace(TASKS["multi30k_ende"], files=(remote(tmp_path),))
    places = tmp_path / "data", tmp_path / "cache"
    assert find_file(named, task, *places) == tmp_path / "cache/news/train.de"
    (tmp_path / "data/news").mkdir(parents=True)
    packed = tmp_path / "data/news/train.de.gz"
    packed.write_bytes(gzip.compress(TEXT))
    assert find_file(named, task, *places) == packed


@pytest.mark.parametrize("place", ["data", "cache"])
def test_a_changed_file_is_refused_with_both_hashes(tmp_path, place):
    file = remote(tmp_path)
    changed = tmp_path / place / "news/train.de"
    changed.parent.mkdir(parents=True)
    changed.write_bytes(b"other\n")
    with pytest.raises(UserError) as error:
        resolve_file(file, tmp_path / "data", tmp_path / "cache")
    message = str(error.value)
    assert str(changed) in message
    assert f"expected SHA-256 {file.sha256}" in message
    assert f"found SHA-256    {hashlib.sha256(b'other' + bytes([10])).hexdigest()}" in message
    assert "Replace it by the original file" in message
    assert changed.exists()


def test_a_wrong_download_leaves_nothing_behind(tmp_path):
    file = remote(tmp_path)
    (tmp_path / "server/train.de").write_bytes(TEXT[:-1])
    with pytest.raises(UserError, match="not the file that was expected"):
        resolve_file(file, None, tmp_path / "cache")
    assert list((tmp_path / "cache/news").iterdir()) == []


def test_a_truncated_archive_is_a_wrong_file(tmp_path):
    (tmp_path / "train.de.xz").write_bytes(lzma.compress(TEXT)[:-9])
    file = remote(tmp_path, url=(tmp_path / "train.de.xz").as_uri())
    with pytest.raises(UserError, match="the file is damaged"):
        resolve_file(file, None, tmp_path / "cache")
    assert list((tmp_path / "cache/news").iterdir()) == []


def test_a_full_disk_is_told_as_such(tmp_path):
    file = remote(tmp_path, content=b"x" * 2000)
    with file_size_limit(1000), pytest.raises(UserError, match="train.de.partial .*Make room"):
        resolve_file(file, None, tmp_path / "cache")
    assert list((tmp_path / "cache/news").iterdir()) == []


def test_without_network_the_error_says_where_to_put_the_file(tmp_path):
    url = "http://127.0.0.1:9/train.de"
    file = remote(tmp_path, url=url)
    with pytest.raises(UserError) as error:
        resolve_file(file, tmp_path / "data", tmp_path / "cache")
    message = str(error.value)
    for part in (url, str(tmp_path / "data/news/train.de"), "--data-dir", "DTMT_DATA_DIR"):
        assert part in message
    with pytest.raises(UserError, match="<directory>/news/train.de .*name <directory> by"):
        resolve_file(file, None, tmp_path / "cache")
    assert list((tmp_path / "cache/news").iterdir()) == []
