import gzip
import hashlib
import json
import lzma
import os

import pytest

from dtmt_tf.data import known_texts
from dtmt_tf.data.known_texts import KnownTexts
from dtmt_tf.data.lines import FileFacts, facts_of
from dtmt_tf.errors import UserError

TEXT = "Guten Tag.\nÄpfel\u2028und Birnen\n".encode()


@pytest.fixture
def known(tmp_path, monkeypatch):
    """Known texts; `known.read` lists the files that were read for them."""
    texts = KnownTexts(tmp_path / "cache" / "known.json")
    texts.read = []

    def read(path):
        texts.read.append(path.name)
        return facts_of(path)

    monkeypatch.setattr(known_texts, "facts_of", read)
    return texts


@pytest.mark.parametrize(
    "content, lines", [(b"", 0), (b"\n", 1), (b"a", 1), (b"a\n\nb", 3), (TEXT, 2)]
)
@pytest.mark.parametrize(
    "suffix, pack", [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress)]
)
def test_a_text_is_known_by_what_is_in_it_unpacked(tmp_path, content, lines, suffix, pack):
    path = tmp_path / f"a{suffix}"
    path.write_bytes(pack(content))
    assert facts_of(path) == FileFacts(hashlib.sha256(content).hexdigest(), lines)


def test_a_links_own_name_says_how_its_text_is_packed(tmp_path, known):
    (tmp_path / "5e3d").write_bytes(gzip.compress(TEXT))
    link, plain = tmp_path / "a.gz", tmp_path / "a"
    link.symlink_to("5e3d")
    plain.symlink_to("5e3d")
    assert known(link) == known(link) == facts_of(link)
    assert known.read == ["a.gz"]
    with pytest.raises(UserError, match="packed by gzip"):
        known(plain)
    (tmp_path / "5e3d").write_bytes(gzip.compress(b"other\nlines\n"))
    assert known(link) == facts_of(link) and known.read == ["a.gz", "a", "a.gz"]


def test_a_file_is_read_again_only_when_it_has_changed(tmp_path, known):
    first, second = tmp_path / "a.de", tmp_path / "b.de.gz"
    first.write_bytes(TEXT)
    second.write_bytes(gzip.compress(TEXT))
    assert known(first) == known(second) == known(first) == facts_of(first)
    assert KnownTexts(known.memory)(second) == facts_of(first)  # another process
    assert known.read == ["a.de", "b.de.gz"]
    changed = TEXT.replace(b"Tag", b"Tor")  # as long, and with the same time
    before = first.stat()
    while first.stat().st_ctime_ns == before.st_ctime_ns:  # a fast machine, and a slow clock
        first.write_bytes(changed)
        os.utime(first, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert known(first).sha256 == hashlib.sha256(changed).hexdigest()
    assert known(second) == facts_of(second)
    assert known.read == ["a.de", "b.de.gz", "a.de"]
    assert len(json.loads(known.memory.read_text())) == 2


def test_a_damaged_file_is_named_and_not_remembered(tmp_path, known):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(TEXT)[:-5])
    for _ in range(2):
        with pytest.raises(UserError, match=r"a\.gz is damaged"):
            known(path)
    assert not known.memory.exists()


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "null", '{"PATH": 5}', '{"PATH": {"state": STATE}}',
                '{"PATH": {"state": STATE, "text": {"sha": 1}}}']
)  # fmt: skip
def test_a_damaged_memory_is_made_anew(tmp_path, known, content):
    path = tmp_path / "a.de"
    path.write_bytes(TEXT)
    expected = known(path)
    state = json.loads(known.memory.read_text())[str(path)]["state"]
    known.memory.write_text(content.replace("PATH", str(path)).replace("STATE", str(state)))
    assert known(path) == expected
    assert known(path) == expected
    assert known.read == ["a.de", "a.de"]
