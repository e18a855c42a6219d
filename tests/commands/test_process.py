"""How commands end."""

import io
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
import tensorflow as tf

from dtmt_tf.commands import process
from dtmt_tf.errors import UserError
from dtmt_tf.files import write_atomically
from tests.disk import file_size_limit

LARGE = bytes(2000)


def summary(path):
    with tf.summary.create_file_writer(path).as_default():
        tf.summary.text("a", LARGE, step=0)


def saved_model(path):
    module = tf.Module()
    module.weight = tf.Variable(tf.zeros(len(LARGE)))
    tf.saved_model.save(module, path)


@pytest.mark.parametrize(
    "write",
    [
        lambda path: write_atomically(Path(path), LARGE),
        summary,
        saved_model,
    ],
    ids=["atomic", "TensorBoard", "SavedModel"],
)
def test_a_full_disk_ends_a_command_with_its_reason(write, tmp_path, capsys):
    with file_size_limit(1000), pytest.raises(SystemExit) as end:
        process.main(lambda: write(str(tmp_path / "name")))
    assert end.value.code == 2
    said = capsys.readouterr().err
    for text in ("error: ", "name", "File too large", "Make room"):
        assert text in said
    assert len(said.splitlines()) <= 2


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("open() failed: Input/output error; opening name; Failed to create the file"),
        tf.errors.UnknownError(
            None,
            None,
            "{{function_node __wrapped__IteratorGetNext_device_/job:0}} name; Input/output error "
            "[Op:IteratorGetNext] name: ",
        ),
    ],
    ids=["ArrayRecord", "TensorFlow"],
)
def test_what_the_system_refuses_to_a_library_is_told_without_a_traceback(error, capsys):
    def fail():
        raise error

    with pytest.raises(SystemExit) as end:
        process.main(fail)
    said = capsys.readouterr().err
    assert end.value.code == 2
    assert said.startswith("error: ") and len(said.splitlines()) == 1
    assert "name; " in said and "Input/output error" in said
    assert "{{" not in said and "[Op" not in said


@pytest.mark.parametrize("error", [MemoryError(), tf.errors.ResourceExhaustedError(None, None, "")])
def test_a_lack_of_memory_names_the_settings_to_lower(error, capsys):
    with pytest.raises(SystemExit) as end:
        process.main(lambda: (_ for _ in ()).throw(error))
    assert end.value.code == 2
    assert "Lower data.max_tokens_per_batch" in capsys.readouterr().err


@pytest.mark.parametrize(("terminal", "encoding"), [(False, "utf-8"), (True, "latin-1")])
def test_files_get_utf_8_and_terminals_what_they_show(terminal, encoding, monkeypatch):
    written = io.BytesIO()
    stream = io.TextIOWrapper(written, "latin-1")
    monkeypatch.setattr(stream, "isatty", lambda: terminal, raising=False)
    monkeypatch.setattr("sys.stdout", stream)
    with pytest.raises(SystemExit):
        process.main(lambda: print("größe \udcff"))
    assert written.getvalue() == "größe \\udcff\n".encode(encoding)


def test_another_error_is_the_programs_and_keeps_its_traceback():
    with pytest.raises(RuntimeError, match="a bug"):
        process.main(lambda: (_ for _ in ()).throw(RuntimeError("a bug")))


def test_mistakes_and_what_the_system_refuses_end_with_code_2(tmp_path, capsys):
    def mistake():
        raise UserError("not so")

    for command in (mistake, (tmp_path / "absent").read_text):
        with pytest.raises(SystemExit) as end:
            process.main(command)
        assert end.value.code == 2
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "error: not so"
    assert "No such file" in said[1] and "absent" in said[1]


def test_libraries_do_not_chat_and_do_warn(caplog):
    caplog.set_level("INFO")

    def talk():
        for name in ("sacrebleu", "matplotlib", "tensorboard"):
            logging.getLogger(name).info("chat of %s", name)
            logging.getLogger(name).warning("warning of %s", name)

    with pytest.raises(SystemExit):
        process.main(talk)
    assert "chat" not in caplog.text and caplog.text.count("warning of") == 3


def test_what_is_not_utf_8_is_named_by_the_argument_that_brought_it(monkeypatch, capsys):
    def fail():
        ("\0".join(["en", "a\udcff", "de"])).encode()

    for words, told in (["--x", "a\udcff"], r"b'a\xff'"), (["--x"], r"'en\x00a\udcff\x00de'"):
        monkeypatch.setattr("sys.argv", ["dtmt", *words])
        with pytest.raises(SystemExit):
            process.main(fail)
        assert capsys.readouterr().err == f"error: {told} is not UTF-8. Rename it.\n"


@pytest.mark.parametrize(
    ("program", "code"),
    [
        ("raise SystemExit(0)", 2),  # as argparse ends after help
        ("raise KeyboardInterrupt", 130),
        ("from dtmt_tf.errors import UserError; raise UserError('no')", 2),
    ],
)
def test_what_was_printed_before_the_end_and_finds_no_room_changes_no_code(program, code):
    program = (
        "from dtmt_tf.commands import process\n"
        f"def command():\n print('pending')\n {program}\n"
        "process.main(command)\n"
    )
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", program],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=1800,
            cwd=Path(__file__).parents[2],
            env={name: v for name, v in os.environ.items() if name != "PYTHONUNBUFFERED"},
        )
    assert done.returncode == code, done.stderr
    assert "Exception ignored" not in done.stderr and "Traceback" not in done.stderr
