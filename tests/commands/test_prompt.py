"""What `dtmt translate` answers at a terminal."""

from dtmt_tf.commands import prompt
from dtmt_tf.refusals import LIMIT
from tests.commands.test_translate_command import Upper


def conversation(monkeypatch, capsys, *typed, **options):
    lines = iter([*typed, EOFError])

    def read(mark):
        line = next(lines)
        if not isinstance(line, str):
            raise line
        return line

    prompt.converse(Upper("here"), read=read, **options)
    return capsys.readouterr().out.splitlines()[1:]


def test_a_line_that_is_typed_is_answered(monkeypatch, capsys):
    said = conversation(
        *(monkeypatch, capsys, "one", "", KeyboardInterrupt, "bad", ":nbest 2", "two"),
        *(":nbest 0", ":align", "a b", ":align", "x", ":nbest", ":what"),
    )
    helps = prompt.HELP.splitlines()
    assert said == [
        *("ONE", "", f"error: refused {LIMIT}max_bytes); dtmt export helps"),
        *("  -1.0000  TWO", "  -2.0000  TWO!"),
        *("Alignments are shown.", "A B", "  B   70%  b", "  A   90%  a"),
        *("Alignments are not shown.", "X", *helps, *helps, ""),
    ]
    assert conversation(monkeypatch, capsys, ":-) one", ":p") == [":-) ONE", ":P", ""]
    assert conversation(monkeypatch, capsys, ":quit", "one") == []
    broken = UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")
    said = conversation(monkeypatch, capsys, broken, "one")
    assert said == ["error: That is not UTF-8.", "ONE", ""]
    said = conversation(monkeypatch, capsys, "a\udcff", f":nbest {'9' * 5000}", "one")
    assert said == ["error: That is not UTF-8.", *helps, "ONE", ""]
