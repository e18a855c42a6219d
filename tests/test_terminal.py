"""What is printed fits the terminal that shows it."""

import fcntl
import io
import os
import pty
import shlex
import struct
import sys
import termios

import pytest

from dtmt_tf import terminal
from dtmt_tf.commands.parser import Parser


@pytest.fixture
def shown():
    """A terminal: with a number of columns, the stream that it shows."""
    screen, end = pty.openpty()
    stream = os.fdopen(end, "w")

    def show(columns):
        fcntl.ioctl(stream, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        return stream

    yield show
    stream.close()
    os.close(screen)


def test_a_bar_is_as_wide_as_its_terminal(shown, monkeypatch):
    for columns, expected in ((60, 59), (80, 79), (200, 79)):
        monkeypatch.setattr("sys.stderr", shown(columns))
        assert terminal.bar_columns() == expected
        with terminal.line_bar(1000, "translate") as bar:
            bar.update(500)
            assert "500/1000" in str(bar) and len(str(bar)) == expected


def test_without_a_terminal_a_bar_has_79_columns(monkeypatch, tmp_path):
    with (tmp_path / "log").open("w") as log:
        monkeypatch.setattr("sys.stderr", log)
        assert terminal.bar_columns() == 79
    assert terminal.bar_columns() == 79  # closed


def test_a_log_gets_a_line_of_what_takes_long_alone(monkeypatch):
    for seconds, expected in ((0.0, True), (20.0, False)):
        monkeypatch.setattr(terminal, "LOG_INTERVAL_SECONDS", seconds)
        monkeypatch.setattr("sys.stderr", io.StringIO())
        with terminal.line_bar(10, "translate") as bar:
            bar.update(5)
            assert ("translate:  50%" in sys.stderr.getvalue()) == expected


def test_what_is_counted_is_given_in_turn(monkeypatch):
    monkeypatch.setattr(terminal, "LOG_INTERVAL_SECONDS", 0.0)
    monkeypatch.setattr("sys.stderr", io.StringIO())
    pairs = terminal.counted(iter("abc"), 3, "filtering")
    assert next(pairs) == "a" and list(pairs) == ["b", "c"]
    assert "filtering: 100%" in sys.stderr.getvalue() and "3/3" in sys.stderr.getvalue()


def words(line):
    return shlex.split(line.replace("\\\n", ""))  # a shell joins lines so


def test_examples_are_broken_as_a_shell_takes_them(monkeypatch):
    example = "dtmt train --train a.en a.de --set 'x=1 2' \\\n    --name mine < a-file.txt"
    for columns in (24, 40, 80):
        monkeypatch.setenv("COLUMNS", str(columns))
        text = Parser("dtmt train", "Trains.", example).format_help()
        _, _, found = text.partition("example:\n")
        assert max(map(len, found.splitlines())) <= columns
        assert words(found) == words(example)


def test_usage_names_what_has_to_be_given_alone(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    parser = Parser("dtmt x", "Does.", "dtmt x")
    parser.add_argument("--free")
    parser.add_argument("--needed", required=True, metavar="FILE")
    one = parser.add_mutually_exclusive_group(required=True)
    one.add_argument("--here", action="store_true")
    one.add_argument("--there", action="store_true")
    parser.add_argument("place", nargs="*", metavar="PLACE")
    usage = " ".join(parser.format_usage().split())
    assert usage == "usage: dtmt x [options] --needed FILE (--here | --there) [PLACE ...]"
    with pytest.raises(SystemExit):
        parser.parse_args(["--needed", "a", "--here", "--gone"])
    assert "arguments: --gone\ndtmt x --help lists the options." in capsys.readouterr().err


def test_what_is_missing_is_told_with_its_meaning(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "40")
    parser = Parser("dtmt x", "Does.", "dtmt x")
    parser.add_argument("paper", choices=["a", "b"], metavar="PAPER", help="one of a, b (%(dest)s)")
    parser.add_argument("--needed", required=True, help="what " + "must be given " * 3)
    with pytest.raises(SystemExit):
        parser.parse_args(["a"])
    told = capsys.readouterr().err
    assert told.endswith(
        "required: --needed\n--needed: what must be given must be\ngiven must be given\n"
    )
    with pytest.raises(SystemExit):
        parser.parse_args(["--needed", "x"])
    assert capsys.readouterr().err.endswith("PAPER\nPAPER: one of a, b (paper)\n")
