"""Text that commands read: its lines, a byte order mark, bytes that are no text."""

import argparse
import contextlib
import gzip
import io
import os
import sys
import threading
from pathlib import Path

import pytest

from dtmt_tf.commands import lines
from dtmt_tf.data.lines import MAX_LINE_BYTES
from dtmt_tf.errors import UserError


@pytest.fixture(params=["file", "packed", "standard input"])
def read(request, tmp_path, monkeypatch):
    """Reads bytes from a file or from standard input; returns lines."""

    def call(content, **options):
        if request.param == "standard input":
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content), "ascii"))
            return list(lines.Lines(None, **options))
        path = tmp_path / ("text.gz" if request.param == "packed" else "text")
        path.write_bytes(gzip.compress(content) if request.param == "packed" else content)
        return list(lines.Lines(path, **options))

    return call


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a\nb", ["a", "b"]),
        (b"a\r\n\r\nb\n", ["a", "", "b"]),
        ("ä\u2028b\x0c\nc\n".encode(), ["ä\u2028b\x0c", "c"]),
    ],
)
def test_lines_end_at_newlines_alone(read, content, expected):
    assert read(content) == expected


def test_a_byte_order_mark_is_left_out_and_told(read, caplog):
    assert read(b"\xef\xbb\xbfMarch 5\nx\n") == ["March 5", "x"]
    assert "begins with a byte order mark" in caplog.text
    assert read(b"\xef\xbb\xbf\n") == [""]


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (b"a\nb\xff\n", r":2: byte 0xff at position 2"),
        (b"\xfea\n", r":1: byte 0xfe at position 1"),
        (b"ok\n\n\xc3", r":3: byte 0xc3 at position 1"),
        (b"\xed\xa0\x80\n", r":1: byte 0xed at position 1"),
    ],
)
def test_bytes_that_are_no_text_are_refused_with_their_line_or_replaced(read, content, place):
    with pytest.raises(UserError, match=f"{place}.*--replace-invalid"):
        read(content, replace=False)
    with pytest.raises(UserError, match="iconv.*UTF-8`[.]$"):
        read(content)
    assert any("\ufffd" in line for line in read(content, replace=True))


@pytest.mark.parametrize("end", [b"", b"\nmore\n"])
def test_a_line_of_more_than_a_mebibyte_is_refused(read, end):
    longest = b"one\n\n" + b"x" * (1 << 20)
    assert len(read(longest + end)[2]) == 1 << 20
    with pytest.raises(UserError, match=":3: the line has more than 1,048,576 bytes"):
        read(longest + b"x" + end)


def test_standard_input_that_is_closed_is_told(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(UserError, match="Standard input is closed"):
        list(lines.Lines(None))


def test_a_pipe_that_never_blocks_is_read_to_its_end(monkeypatch):
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    with open(reading, "rb") as stream, open(writing, "wb", 0) as pipe:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(stream))
        later = threading.Timer(0.2, lambda: (pipe.write(b"a\nb"), pipe.close()))
        later.start()
        assert list(lines.Lines(None)) == ["a", "b"]
        later.join()


def test_lines_of_a_named_pipe_are_had_as_they_come(tmp_path):
    os.mkfifo(tmp_path / "in")
    given = lines.Lines(tmp_path / "in")
    writer = threading.Thread(target=lambda: opened.append((tmp_path / "in").open("wb", 0)))
    opened = []
    writer.start()
    coming = iter(given)
    first = threading.Timer(0.2, lambda: (writer.join(), opened[0].write(b"a\n")))
    first.start()
    assert next(coming) == "a" and not given.ready()
    opened[0].write(b"b\n")
    assert given.ready() and next(coming) == "b"
    opened[0].close()
    assert list(coming) == []


@pytest.mark.parametrize("end", [".txt", ".gz"])
def test_of_a_named_pipe_messages_have_the_name_and_what_is_packed_is_unpacked(tmp_path, end):
    path = tmp_path / f"in{end}"
    os.mkfifo(path)
    content = b"a\n" if end == ".txt" else gzip.compress(b"a\n")
    content += b"b" * (MAX_LINE_BYTES + 1) if end == ".txt" else b""

    def write():
        with contextlib.suppress(BrokenPipeError), path.open("wb") as pipe:
            pipe.write(content)

    writer = threading.Thread(target=write)
    writer.start()
    if end == ".gz":
        assert lines.read_text(path) == ["a"]
    else:
        with pytest.raises(UserError, match=f"^{path}:2: the line has more"):
            lines.read_text(path)
    writer.join()


@pytest.mark.parametrize(
    ("content", "told"),
    [(gzip.compress(b"a"), "packed by gzip"), ("a\n".encode("utf-16"), "UTF-16")],
)
def test_standard_input_that_is_no_plain_text_is_told(monkeypatch, content, told):
    for replace in (None, True):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        with pytest.raises(UserError, match=f"standard input is no plain text: it is {told}. Name"):
            list(lines.Lines(None, replace))


@pytest.mark.parametrize("spelling", ["in", "./in", "folder/../in", "link"])
def test_an_output_that_is_the_input_is_refused(tmp_path, monkeypatch, spelling):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "in").write_text("a")
    (tmp_path / "link").symlink_to("in")
    args = argparse.Namespace(input=Path("in"), output=Path(spelling))
    with pytest.raises(UserError, match="-o would write over in"):
        lines.check_files(args)
    with pytest.raises(UserError, match="-o: folder is a folder. Name a file"):
        lines.check_files(argparse.Namespace(input=Path("in"), output=Path("folder")))
    lines.check_files(argparse.Namespace(input=Path("in"), output=Path("out")))
    lines.check_files(argparse.Namespace(input=None, output=Path("in")))


@pytest.mark.parametrize("kept", ["train/experiment.json", "train/x/step.npz"])
def test_an_output_does_not_replace_what_a_run_or_an_export_keeps(tmp_path, kept):
    path = tmp_path / "task" / "run" / kept
    path.parent.mkdir(parents=True)
    path.write_text("kept")
    (tmp_path / "task" / "run" / "train").mkdir(exist_ok=True)
    (tmp_path / "task" / "run" / "train" / "experiment.json").write_text("{}")
    (tmp_path / "task" / "run" / "1").mkdir(exist_ok=True)
    (tmp_path / "task" / "run" / "1" / "saved_model.pb").touch()
    (tmp_path / "experiment.json").touch()  # of another program
    (tmp_path / "task" / "run" / "mine.json").touch()
    with pytest.raises(UserError, match="a file of a run"):
        lines.check_outputs((), {"--json": path})
    with pytest.raises(UserError, match="a file of a run"):
        lines.check_files(argparse.Namespace(input=None, output=path))
    for other in tmp_path / "task" / "run" / "mine.json", path.with_name("new.json"):
        lines.check_outputs((), {"--json": other})
    assert path.read_text() in ("kept", "{}")
    for name in "saved_model.pb", "new.txt", "assets/new/a":  # what its manifest does not list
        of_version = tmp_path / "task" / "run" / "1" / name
        with pytest.raises(UserError, match=f"--json: {of_version} would lie in .*/1, an exported"):
            lines.check_outputs((), {"--json": of_version})
        with pytest.raises(UserError, match=f"-o: {of_version} would lie in .*/1, an exported"):
            lines.check_files(argparse.Namespace(input=None, output=of_version))


@pytest.mark.parametrize("tag", ["a\tb", "a\nb", "a\x7f"], ids=repr)
def test_a_tag_divides_neither_lines_nor_columns(tag):
    lines.check_tag("<bt> ä")
    with pytest.raises(UserError, match="--tag should hold no tab"):
        lines.check_tag(tag)


def test_a_dash_is_standard_input():
    parser = argparse.ArgumentParser()
    lines.add_files(parser)
    assert parser.parse_args(["-"]).input is parser.parse_args([]).input is None
    assert parser.parse_args(["in"]).input == Path("in")


def test_outputs_lie_where_files_can_be_written(tmp_path, monkeypatch):
    lines.check_outputs((), {"--json": tmp_path / "new" / "a", "--page": Path("/dev/full")})
    monkeypatch.setattr(os, "access", lambda *_: False)  # as of others' folders, unless it is root
    lines.check_outputs((), {"--page": Path("/dev/full")})
    with pytest.raises(UserError, match=f"--json: {tmp_path} can not be written to. Name another"):
        lines.check_outputs((), {"--json": tmp_path / "new" / "a"})
