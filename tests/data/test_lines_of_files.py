import bz2
import gzip
import lzma
import tracemalloc

import pytest

from dtmt_tf.data import lines
from dtmt_tf.data.lines import byte_lines, facts_of, is_marked, unmarked_lines
from dtmt_tf.errors import UserError

TEXT = "Guten Tag.\nÄpfel und Birnen\n".encode()


def read_lines(path):
    return [line.decode() for line in unmarked_lines(path)]


@pytest.mark.parametrize(
    "suffix, pack", [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress)]
)
def test_plain_and_packed_files_have_the_same_lines(tmp_path, suffix, pack):
    path = tmp_path / f"a.de{suffix}"
    path.write_bytes(pack(TEXT))
    assert read_lines(path) == ["Guten Tag.", "Äpfel und Birnen"]


@pytest.mark.parametrize(
    "content, lines",
    [
        (b"", []),
        (b"\n", [""]),
        (b"a", ["a"]),
        (b"a\n\nb", ["a", "", "b"]),
        (b"a\r\nb\r\r\n", ["a", "b\r"]),
        (b"a\rb\nc\r", ["a\rb", "c\r"]),
        ("a\u2028b\x0bc\x0cd\x1ce\u0085f\n".encode(), ["a\u2028b\x0bc\x0cd\x1ce\u0085f"]),
        ("e\u0301 \u00e9\n".encode(), ["e\u0301 \u00e9"]),
    ],
)
def test_lines_end_at_newline_bytes_alone(tmp_path, content, lines):
    path = tmp_path / "a.txt"
    path.write_bytes(content)
    assert read_lines(path) == lines


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UserError, match=r"Cannot read .*none\.txt: No such file"):
        read_lines(tmp_path / "none.txt")


@pytest.mark.parametrize("suffix, pack", [(".gz", gzip.compress), (".xz", lzma.compress)])
@pytest.mark.parametrize("damage", [lambda data: data[:-6], lambda _: b"no archive", lambda _: b""])
def test_a_damaged_archive_is_named(tmp_path, suffix, pack, damage):
    path = tmp_path / f"a{suffix}"
    path.write_bytes(damage(pack(TEXT)))
    with pytest.raises(UserError, match=r"a\.[gx]z is damaged"):
        read_lines(path)


@pytest.mark.parametrize("read", [read_lines, facts_of, lines.read_whole])
@pytest.mark.parametrize(
    ("content", "advice"),
    [
        (gzip.compress(TEXT), "its name end in .gz"),
        (bz2.compress(TEXT), "it is packed by bzip2. Unpack it"),
        (lzma.compress(TEXT), "its name end in .xz"),
        (TEXT.decode().encode("utf-16"), "iconv -f UTF-16 -t UTF-8"),
    ],
)
def test_what_is_packed_or_utf_16_under_the_name_of_a_text_is_told(tmp_path, read, content, advice):
    path = tmp_path / "a.de"
    path.write_bytes(content)
    with pytest.raises(UserError, match=rf"a\.de is no plain text: .*{advice}"):
        read(path)


@pytest.mark.parametrize("suffix, pack", [("", bytes), (".gz", gzip.compress)])
def test_byte_order_marks_are_not_read(tmp_path, suffix, pack):
    path = tmp_path / f"a.txt{suffix}"
    path.write_bytes(pack("\ufeffone\ntwo\ufeff\n\ufeff\ufeffthree\n".encode()))
    assert read_lines(path) == ["one", "two\ufeff", "\ufeffthree"]
    assert is_marked(path)
    assert next(byte_lines(path)) == b"\xef\xbb\xbfone"
    path.write_bytes(pack(b"one\n"))
    assert not is_marked(path)
    path.write_bytes(pack(b""))
    assert not is_marked(path)


@pytest.mark.parametrize("read", [read_lines, facts_of])
@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n", b"\nmore\n"])
def test_a_line_without_end_is_named_and_never_held(tmp_path, monkeypatch, read, end):
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 1000)
    monkeypatch.setattr(lines, "_BLOCK_BYTES", 64)
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"one\n\n" + b"x" * 1000 + end))
    read(path)
    path.write_bytes(gzip.compress(b"one\n\n" + b"x" * 1005 + end))
    with pytest.raises(UserError, match=r"a\.gz:3: the line has more than 1,000 bytes"):
        read(path)


def test_a_bomb_is_refused_after_its_first_mebibytes(tmp_path):
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(b"x" * (64 << 20)))
    tracemalloc.start()
    with pytest.raises(UserError, match=r"bomb\.gz:1: the line has more than 1,048,576 bytes"):
        facts_of(path)
    with pytest.raises(UserError, match=r"bomb\.gz:1: the line has more than 1,048,576 bytes"):
        read_lines(path)
    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    tracemalloc.stop()
