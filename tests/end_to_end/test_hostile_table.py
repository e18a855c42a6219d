"""Command lines and inputs that nobody should give: each is refused with its reason, or harmless.

`hostile_table.txt` has a row for each: the command, its exit code, pieces of what it says. They run
in this process, one after the other, over one folder of files that none of them may change. Those
on standard streams and file names, below, have a process of their own.
"""

import contextlib
import hashlib
import io
import json
import lzma
import os
import runpy
import shlex
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import tensorflow as tf

from dtmt_tf import cli, startup
from dtmt_tf.commands import common
from dtmt_tf.errors import UserError
from dtmt_tf.experiment import resolve
from dtmt_tf.folders import LOCK
from dtmt_tf.models import MODELS
from dtmt_tf.runs import Run, session
from dtmt_tf.tasks import TASKS
from tests.end_to_end.conftest import ROOT

WORDS = {"{long}": "x" * 101, "{digits}": "1" * 5000, "{surrogate}": "\udcff", "{bell}": "\a"}
TEXTS = {
    "ok.en": b"one\ntwo\nthree\n",
    "ok.de": b"eins\nzwei\ndrei\n",
    "more.en": b"one\ntwo\nthree\nfour\n",
    "latin1.en": b"one\ncaf\xe9\nthree\n",
    "utf16.en": "one\ntwo\nthree\n".encode("utf-16"),
    "bom.de": b"\xef\xbb\xbfeins\nzwei\ndrei\n",
    "sets.tsv": b"set\tsource\tcorrect\tcontrastive\nk\ta\tb\tc\n",
    "nul.en": b"a\0b\n\0\n\n",
    "empty.en": b"",
    "bad.gz": b"no archive\n",
    "page.html": b"one\ntwo\nthree\n",
    "terms.tsv": b"one\teins\n",
    "deep.yaml": b"a: " + b"[" * 20_000,
    "manifest_deep/manifest.json": b"[" * 100_000,
    "manifest_types/manifest.json": b'{"files": {"a": {"size": "abc", "sha256": "x"}}}',
    "cut.xz": lzma.compress(b"one\ntwo\nthree\n" * 99)[:-20],
    "packed.xz": lzma.compress(b"one\ntwo\nthree\n"),
    "folder/x": b"x",
    "model_damaged/saved_model.pb": b"no model",
    "model_empty/saved_model.pb": b"",
    "runs/custom/plain/notes.txt": b"mine",
    "runs/custom/nested/train/corpus.en": b"mine",
    "runs/custom/file": b"mine",
    "runs/custom/damaged/train/experiment.json": b"{",
    "runs/custom/list/train/experiment.json": b"[]",
    "runs/custom/deep/train/experiment.json": b"[" * 100_000,
    "runs/custom/odd/train/experiment.json": b'{"settings": {"model_name": []}, "origins": {}}',
    "runs/custom/binary/train/experiment.json": b"\xff\xfe\0",
    "runs/custom/versions/\u00b2/x": b"x",
    "runs/custom/versions/1.partial/x": b"x",
    "records/a.json": b"{",
    "records_foreign/a.json": b"{}",
}
ANSWERS = {  # status and body by the first part of a path
    "deep": (200, b'{"outputs": ' + b"[" * 500 + b"]" * 500 + b"}"),
    "deeper": (200, b'{"outputs": ' + b"[" * 100_000),
    "surrogate": (200, b'{"outputs": ["a", "\\ud800", "c"]}'),
    "numbers": (200, b'{"outputs": {"translation": [1, 2, 3]}}'),
    "fewer": (200, b'{"outputs": {"translation": ["a"]}}'),
    "html": (200, b"<html>Welcome</html>"),
    "nothing": (200, b""),
    "null": (200, b"null"),
    "binary": (200, bytes(range(256))),
    "controls": (400, b'{"error": "\\u001b[2J\\u0007 red"}'),
    "teapot": (418, b"[]"),
    "busy": (503, b"\xff\xff"),
    "let_go": (499, b"{}"),
    "absent": (404, b"{}"),
}


def rows():
    """The rows of the table: line number, command, exit code, pieces."""
    path = ROOT / "tests" / "end_to_end" / "hostile_table.txt"
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if line and not line.startswith("#"):
            command, code, *pieces = (cell.strip() for cell in line.split(" | "))
            yield pytest.param(command, int(code), pieces, id=f"{number} {command[:60]}")


TABLE = list(rows())


def model(folder, function, **specs):
    """Writes a SavedModel of one function."""
    module = tf.Module()
    module.f = tf.function(function)
    tf.saved_model.save(module, str(folder), {"serving_default": module.f.get_concrete_function(
        **{name: tf.TensorSpec([None], kind, name) for name, kind in specs.items()})})  # fmt: skip


def upper(text):
    return {
        "translation": tf.strings.upper(text, encoding="utf-8"),
        "score": tf.zeros(tf.shape(text)),
    }


def refuses(text):
    check = tf.debugging.assert_less(tf.strings.length(text), 4, "too long")
    with tf.control_dependencies([check]):
        return upper(text)


def settings_of(folder, **changes):
    """What `experiment.json` says of a run on texts of a folder."""
    experiment, origins = resolve(
        *(TASKS["custom"], "dtmt_tiny", MODELS["dtmt_tiny"]),
        [f"data.train_source={folder}/ok.en", f"data.train_target={folder}/ok.de"],
    )
    values = Run(experiment, ROOT, None, ROOT, origins).settings()
    values["settings"] |= changes
    return json.dumps(values).encode()


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """The folder W."""
    folder = tmp_path_factory.mktemp("hostile")
    texts = dict(TEXTS)
    for name in ("untrained", "untrained2"):
        texts[f"runs/custom/{name}/train/experiment.json"] = settings_of(folder)
    texts["runs/custom/unknown_model/train/experiment.json"] = settings_of(
        folder, model_name="dtmt_next"
    )
    later = settings_of(folder, training={"tomorrow": 1})
    texts["runs/custom/later/train/experiment.json"] = later
    for name, members in (("snake", ["snake"]), ("number", 7), ("orphan", ["gone", "untrained"])):
        values = json.loads(settings_of(folder)) | {"members": members}
        texts[f"runs/custom/{name}/train/experiment.json"] = json.dumps(values).encode()
    for name, content in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (folder / "bare").mkdir()
    (folder / "link.en").symlink_to("ok.en")
    (folder / "link.tsv").symlink_to("sets.tsv")
    (folder / "hard.en").hardlink_to(folder / "ok.en")
    (folder / "loop").symlink_to("loop")
    (folder / "device").symlink_to("/dev/null")
    text = {"text": tf.string}
    model(folder / "model_upper", upper, **text)
    model(folder / "runs/custom/versions/1", upper, **text)
    model(folder / "model_refuses", refuses, **text)
    model(folder / "model_short", lambda text: upper(text[1:]), **text)
    model(folder / "model_pieces", lambda text: {"translation": text}, **text)
    model(folder / "model_numbers", lambda text: upper(tf.as_string(text)), text=tf.int32)
    model(folder / "model_foreign", lambda x: {"y": x}, x=tf.float32)
    tf.saved_model.save(tf.Module(), str(folder / "model_unsigned"))
    return folder


@pytest.fixture(scope="module")
def server():
    """Answers requests as `ANSWERS` has it; its URL, and that of a server that speaks no HTTP."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            name = self.path.split("/")[1]
            if name == "hangs_up":
                return
            texts = [line.upper() for line in body["inputs"]["text"]]
            good = 200, json.dumps({"outputs": texts}).encode()
            code, answer = good if name in ("upper", "cut_off") else ANSWERS[name]
            self.send_response(code)
            self.send_header("Content-Length", str(len(answer) + 100 * (name == "cut_off")))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *unused):
            pass

    def greet():
        with contextlib.suppress(OSError):  # closed
            while True:
                connection, _ = raw.accept()
                with connection:
                    connection.recv(99_999)
                    connection.sendall(b"\0\0\x18\4\0\0\0\0\0\0\4\0\x3f\0\1\x1b[2J\n")

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with socket.create_server(("127.0.0.1", 0)) as raw:
        threading.Thread(target=greet, daemon=True).start()
        ports = server.server_port, raw.getsockname()[1]
        yield [f"http://127.0.0.1:{port}" for port in ports]
    server.shutdown()
    server.server_close()


def state(folder):
    """Hashes of all files, and where links lead."""
    return {
        path: os.readlink(path)
        if path.is_symlink()
        else hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_symlink() or (path.is_file() and path.name != LOCK)
    }


@pytest.fixture
def words(shop, server):
    """Puts places and words into a command."""

    def fill(word):
        word = word.replace("W/", f"{shop}/").replace("S/no_http", server[1])
        word = word.replace("S/", f"{server[0]}/")
        for name, text in WORDS.items():
            word = word.replace(name, text)
        return word

    return lambda command: [fill(word) for word in shlex.split(command)]


@pytest.fixture(scope="module")
def left(shop):
    """What the last row left: a list of one state."""
    return [state(shop)]


@pytest.mark.parametrize(("command", "code", "pieces"), TABLE)
def test_a_hostile_command_line_does_no_harm(
    shop, left, words, monkeypatch, capsys, caplog, command, code, pieces
):
    command, _, source = command.partition(" < ")
    name, *arguments = words(command)
    content = Path(words(source)[0]).read_bytes() if source else b""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(startup, "start_tensorflow", lambda *_, **__: None)  # it has started
    monkeypatch.setattr(session, "Trainer", None)  # nothing here is to be trained
    monkeypatch.delenv("TF_CONFIG", raising=False)
    monkeypatch.delenv("DTMT_DATA_DIR", raising=False)
    with pytest.raises(SystemExit) as end:
        if name == "dtmt":
            monkeypatch.setattr(sys, "argv", ["/usr/bin/dtmt", *arguments])
            cli.main()
        script = str(ROOT / "pipelines" / f"{name}.py")
        monkeypatch.setattr(sys, "argv", [script, *arguments])
        runpy.run_path(script, run_name="__main__")
    before, left[0] = left[0], state(shop)
    told = "".join(capsys.readouterr()) + caplog.text
    assert end.value.code == code, told
    assert "Traceback" not in told
    for piece in pieces:
        assert piece in told
    assert {path: left[0].get(path) for path in before} == before


def test_the_table_is_long_enough():
    assert len(TABLE) >= 200


@pytest.mark.parametrize(
    ("variables", "place"),
    [
        ({"XDG_CACHE_HOME": "/cache"}, "/cache/dtmt_tf"),
        ({"XDG_CACHE_HOME": "", "HOME": "/home/me"}, "/home/me/.cache/dtmt_tf"),
        ({"XDG_CACHE_HOME": "cache", "HOME": "/home/me"}, "/home/me/.cache/dtmt_tf"),
        ({"HOME": "/home/me"}, "/home/me/.cache/dtmt_tf"),
        ({"XDG_CACHE_HOME": "", "HOME": ""}, None),
        ({"HOME": "relative"}, None),
    ],
    ids=str,
)
def test_the_cache_never_lies_in_the_present_folder(monkeypatch, variables, place):
    for name in ("XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    if place:
        assert str(common.cache_dir()) == place
    else:
        with pytest.raises(UserError, match="HOME or XDG_CACHE_HOME"):
            common.cache_dir()


CLIENT = "python pipelines/client.py --rest S/upper"


@pytest.mark.parametrize(
    ("command", "code", "pieces"),
    [
        ("python pipelines/train.py --list-tasks >&-", 2, ["Standard output is closed"]),
        ("python pipelines/train.py --list-tasks > /dev/full", 2, ["No space left"]),
        ("python pipelines/train.py --list-tasks 2>&-", 0, ["cldr_ende"]),
        ("PYTHONIOENCODING=ascii python pipelines/train.py --task ü", 2, ["Unknown task"]),
        (f"{CLIENT} <&-", 2, ["Standard input is closed"]),
        (f"{CLIENT} W/ok.en <&-", 0, ["THREE"]),
        (f"{CLIENT} W/ok.en >&-", 2, ["Standard output is closed"]),
        (f"{CLIENT} W/ok.en > /dev/full", 2, ["No space left"]),
        (f"{CLIENT} W/ok.en 2>&-", 0, ["THREE"]),
        (f"{CLIENT} W/ok.en -o W/new <&- 2>&-", 0, []),
        (f"cp W/ok.en W/$'\\xff'.en && {CLIENT} W/$'\\xff'.en -o W/$'\\xfe'", 0, ["3 lines"]),
        (f"{CLIENT} W/$'\\xfd'", 2, ["No such file", "udcfd"]),
        (f"PYTHONIOENCODING=ascii LC_ALL=C {CLIENT} <<< 'größe'", 0, ["GRÖSSE"]),
        ("python pipelines/train.py --task custom --name $'\\xff'", 2, ["not UTF-8"]),
        ("env -u HOME python pipelines/train.py --list-tasks", 0, ["cldr_ende"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_standard_streams_and_names_of_files_do_no_harm(shop, server, command, code, pieces):
    command = command.replace("W/", f"{shop}/").replace("S/", f"{server[0]}/")
    before = state(shop)
    done = subprocess.run(
        ["bash", "-c", command.replace("python ", f"{shlex.quote(sys.executable)} ")],
        cwd=ROOT,
        capture_output=True,
        timeout=1800,
    )
    told = (done.stdout + done.stderr).decode("utf-8", "replace")
    assert done.returncode == code, told
    assert "Traceback" not in told and "Exception ignored" not in told
    for piece in pieces:
        assert piece in told
    after = state(shop)
    assert {path: after.get(path) for path in before} == before
