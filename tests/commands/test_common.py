"""How commands end."""

import argparse
import io
import json
from pathlib import Path

import pytest
import tensorflow as tf

from dtmt_tf import startup
from dtmt_tf.commands import common
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
        common.main(lambda: write(str(tmp_path / "name")))
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
        common.main(fail)
    said = capsys.readouterr().err
    assert end.value.code == 2
    assert said.startswith("error: ") and len(said.splitlines()) == 1
    assert "name; " in said and "Input/output error" in said
    assert "{{" not in said and "[Op" not in said


@pytest.mark.parametrize("error", [MemoryError(), tf.errors.ResourceExhaustedError(None, None, "")])
def test_a_lack_of_memory_names_the_settings_to_lower(error, capsys):
    with pytest.raises(SystemExit) as end:
        common.main(lambda: (_ for _ in ()).throw(error))
    assert end.value.code == 2
    assert "Lower data.max_tokens_per_batch" in capsys.readouterr().err


@pytest.mark.parametrize(("terminal", "encoding"), [(False, "utf-8"), (True, "latin-1")])
def test_files_get_utf_8_and_terminals_what_they_show(terminal, encoding, monkeypatch):
    written = io.BytesIO()
    stream = io.TextIOWrapper(written, "latin-1")
    monkeypatch.setattr(stream, "isatty", lambda: terminal, raising=False)
    monkeypatch.setattr("sys.stdout", stream)
    with pytest.raises(SystemExit):
        common.main(lambda: print("größe \udcff"))
    assert written.getvalue() == "größe \\udcff\n".encode(encoding)


def test_another_error_is_the_programs_and_keeps_its_traceback():
    with pytest.raises(RuntimeError, match="a bug"):
        common.main(lambda: (_ for _ in ()).throw(RuntimeError("a bug")))


def test_mistakes_and_what_the_system_refuses_end_with_code_2(tmp_path, capsys):
    def mistake():
        raise UserError("not so")

    for command in (mistake, (tmp_path / "absent").read_text):
        with pytest.raises(SystemExit) as end:
            common.main(command)
        assert end.value.code == 2
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "error: not so"
    assert "No such file" in said[1] and "absent" in said[1]


@pytest.mark.parametrize(
    "cluster, task, several",
    [
        ({"worker": ["a:1", "b:1"]}, {"type": "worker", "index": 1}, True),
        ({"chief": ["a:1"], "worker": ["b:1"]}, {"type": "worker", "index": 0}, True),
        ({"chief": ["a:1"], "worker": ["b:1"]}, {"type": "worker", "index": 1}, None),
        ({"worker": ["a:1"]}, {"type": "worker", "index": 0}, False),
        ({"worker": ["a:1"]}, {"type": "worker", "index": 1}, None),
        ({"worker": ["a:1"]}, {"type": "chief", "index": 0}, None),
        (["a:1", "b:1"], {"type": "worker", "index": 0}, None),
    ],
)
def test_a_cluster_is_read_or_refused_with_an_example(monkeypatch, cluster, task, several):
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": task}))
    if several is None:
        with pytest.raises(UserError, match=r"(?s)TF_CONFIG should name the workers.*Received"):
            startup.is_multiworker("auto")
    else:
        assert startup.is_multiworker("auto") == several


def test_what_is_not_utf_8_is_named_by_the_argument_that_brought_it(monkeypatch, capsys):
    def fail():
        ("\0".join(["en", "a\udcff", "de"])).encode()

    for words, told in (["--x", "a\udcff"], r"b'a\xff'"), (["--x"], r"'en\x00a\udcff\x00de'"):
        monkeypatch.setattr("sys.argv", ["dtmt", *words])
        with pytest.raises(SystemExit):
            common.main(fail)
        assert capsys.readouterr().err == f"error: {told} is not UTF-8. Rename it.\n"


def test_devices_that_can_not_be_had_are_refused_before_anything_starts():
    with pytest.raises(UserError, match="names CPU:1 twice"):
        startup.start_tensorflow(["CPU:0", "CPU:1", "cpu:1"])
    with pytest.raises(UserError, match="for one machine"):
        startup.start_tensorflow(["CPU:0"], multiworker=True)


def test_a_fault_of_ours_keeps_its_traceback():
    with pytest.raises(ZeroDivisionError):
        common.main(lambda: 1 // 0)


@pytest.mark.parametrize("named", ["dem", "cldr_ende/dem", "runs/cldr_ende/dem"])
def test_a_model_that_is_misspelt_is_looked_for_beside_those_that_are_there(
    named, tmp_path, monkeypatch
):
    (tmp_path / "runs" / "cldr_ende" / "demo").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    arguments = ["--output-dir", "runs", "--model", named]
    options = common.run_parser("", "", model="").parse_args(arguments)
    assert common.model_place(options) == Path("runs/cldr_ende/dem")
    options.model += "o"
    assert common.model_place(options) == Path("runs/cldr_ende/demo")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("# mine\ntask: nowhere\n", "run.yaml:2: unknown task 'nowhere'. Choose one of"),
        ("task: cldr_ende\nmodel_name: dtmt5\n", "run.yaml:2: unknown model 'dtmt5'. Did you"),
    ],
)
def test_a_name_that_a_file_has_wrong_is_told_with_file_and_line(text, told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("run.yaml").write_text(text)
    parser = common.run_parser("", "")
    common.add_config(parser)
    common.add_set(parser)
    given = ["--config", "run.yaml"]
    with pytest.raises(UserError) as error:
        common.experiment(parser.parse_args(given))
    assert str(error.value).startswith(told)
    named = parser.parse_args([*given, "--task", "nowhere", "--model", "dtmt5"])
    with pytest.raises(UserError, match="^Unknown task 'nowhere'"):
        common.experiment(named)


@pytest.mark.parametrize(("value", "found"), [("", None), ("/data", Path("/data"))])
def test_an_empty_variable_names_no_data(monkeypatch, value, found):
    monkeypatch.setenv(common.DATA_DIR_VARIABLE, value)
    parser = argparse.ArgumentParser()
    common.add_folders(parser)
    assert parser.parse_args([]).data_dir == found


def test_a_run_beside_another_may_be_the_present_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    beside = Path("models/custom/a")
    (beside.parent / "b").mkdir(parents=True)
    assert common.other_run(".", beside) == tmp_path.resolve()
    assert common.other_run("..", beside) == tmp_path.resolve().parent
    assert common.other_run("b", beside) == beside.parent / "b"
