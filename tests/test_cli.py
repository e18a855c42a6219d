"""`dtmt`: names its commands, starts at once, and shows itself as it was called."""

import logging
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from dtmt_tf import caller, cli, startup
from dtmt_tf.commands import process

ROOT = Path(__file__).parents[1]


@pytest.fixture
def dtmt(monkeypatch, capsys, tmp_path):
    """Runs `dtmt` in this process, in an empty folder."""

    def call(*arguments):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["/usr/local/bin/dtmt", *arguments])
        monkeypatch.setattr(startup, "start_tensorflow", lambda *_, **__: None)  # it has started
        with pytest.raises(SystemExit) as end:
            cli.main()
        return end.value.code, *capsys.readouterr()

    return call


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["help"]], ids=str)
def test_help_names_every_command_on_a_line_of_its_own(dtmt, arguments):
    code, text, errors = dtmt(*arguments)
    assert (code, errors) == (0, "")
    assert re.findall(r"^  (\w+)  +\w", text, re.MULTILINE) == list(cli.COMMANDS)
    assert max(map(len, text.splitlines())) <= 80


def test_help_takes_a_command_too(dtmt):
    code, text, _ = dtmt("help", "runs")
    assert code == 0 and text.startswith("usage: dtmt runs")
    code, _, errors = dtmt("help", "trian")
    assert code == 2 and "Did you mean 'train'?" in errors


def test_without_a_command_there_is_help_and_an_error(dtmt):
    code, text, errors = dtmt()
    assert (code, text) == (2, "")
    assert "usage: dtmt" in errors


@pytest.mark.parametrize(
    ("name", "advice"),
    [("trian", "Did you mean 'train'?"), ("Export", "Did you mean 'export'?"), ("x", "prepare")],
)
def test_an_unknown_command_is_told_what_was_meant(dtmt, name, advice):
    code, text, errors = dtmt(name, "--task", "x")
    assert (code, text) == (2, "")
    assert f"Unknown command {name!r}" in errors and advice in errors


def test_what_can_not_be_printed_ends_without_a_traceback():
    command = [sys.executable, "-c", "from dtmt_tf.cli import main; main()", "help"]
    reading, writing = os.pipe()
    os.close(reading)
    options = {"stderr": subprocess.PIPE, "cwd": ROOT, "text": True, "timeout": 1800}
    with open(writing, "w") as left, open("/dev/full", "w") as full:
        for stream, status in ((left, 141), (full, 2)):
            done = subprocess.run(command, stdout=stream, **options)
            assert done.returncode == status
            assert "Traceback" not in done.stderr
        assert "No space left on device" in done.stderr


SCRIPTS = sorted(path.name for path in (ROOT / "pipelines").glob("[a-z]*.py"))


@pytest.mark.parametrize("script", SCRIPTS)
def test_without_its_packages_it_says_how_to_install_them(script):
    bare = [sys.executable, "-I", "-S", ROOT / "pipelines" / script]  # no site-packages
    run = subprocess.run(bare, capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (2, "")
    assert re.fullmatch(r"error: .+ has no package \w+\. .*make setup, then.*\n", run.stderr)


@pytest.mark.parametrize("name", ["dtmt_tf.gone", "pipelines.gone"])
def test_a_module_of_ours_that_is_missing_is_no_mistake_of_the_user(name):
    with pytest.raises(ModuleNotFoundError):
        cli.missing(ModuleNotFoundError(name=name))


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_each_command_has_a_door_and_examples_as_it_was_called(dtmt, monkeypatch, name):
    monkeypatch.setenv("COLUMNS", "200")
    code, text, errors = dtmt(name, "--help")
    assert (code, errors) == (0, "")
    assert text.startswith(f"usage: dtmt {name} [options]")
    _, examples = re.split("^examples?:$", text, flags=re.MULTILINE)
    assert f"dtmt {name}" in examples
    assert "pipelines/" not in text and ".py" not in text
    assert max(map(len, text.splitlines())) <= 80
    assert (ROOT / "pipelines" / f"{name}.py").exists()


def test_messages_show_commands_as_they_were_called(dtmt, tmp_path):
    code, _, errors = dtmt("translate", "--name", "none")
    assert code == 2
    assert "run dtmt export with the folder" in errors
    assert "saved_models/cldr_ende/none" in errors
    assert list(tmp_path.iterdir()) == []


def test_runs_lie_in_the_present_folder_or_in_the_checkout_of_the_script(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/usr/bin/dtmt", "train"])
    assert caller.runs_folder() == Path("saved_models")
    assert caller.as_called("run dtmt train again") == "run dtmt train again"
    monkeypatch.setattr(sys, "argv", [str(ROOT / "pipelines" / "train.py")])
    assert caller.runs_folder() == ROOT / "saved_models"
    assert caller.as_called("run dtmt train again") == "run python pipelines/train.py again"
    for text in ("dtmt trains, dtmt table 3", "my dtmt runs/a", "in 'dtmt data'"):
        assert caller.as_called(text) == text
    log = process._AsCalled("%(message)s")
    warning = logging.makeLogRecord({"msg": "%s: see dtmt verify", "args": ("x",)})
    assert log.format(warning) == "x: see python pipelines/verify.py"
    monkeypatch.chdir(ROOT.parent)
    place = shlex.quote(f"{ROOT.name}/pipelines/train.py")
    assert caller.as_called("run dtmt train again") == f"run python {place} again"


@pytest.mark.parametrize(
    ("line", "expected", "others"),
    [
        ("dtmt tra", {"train", "translate"}, {"export"}),
        ("dtmt translate --nb", {"--nbest"}, {"--align"}),
        ("dtmt train --task tatoeba_en", {"tatoeba_ende", "tatoeba_enzh"}, {"wmt14_ende"}),
        ("dtmt train --set training.max_st", {"training.max_steps="}, {"data.max_length="}),
        ("dtmt evaluate --output-dir runs --task custom --name m", {"mine"}, {"other"}),
    ],
)
def test_a_shell_is_told_how_a_line_goes_on(tmp_path, line, expected, others):
    for run in ("custom/mine", "custom/other", "cldr_ende/more"):
        (tmp_path / "runs" / run / "train").mkdir(parents=True)
        (tmp_path / "runs" / run / "train" / "experiment.json").touch()
    asked = {
        **{"_ARGCOMPLETE": "1", "COMP_LINE": line, "COMP_POINT": str(len(line)), "COMP_TYPE": "9"},
        **{"_ARGCOMPLETE_STDOUT_FILENAME": "answer", "_ARGCOMPLETE_IFS": "\n"},
        "PYTHONPATH": str(ROOT),
    }
    code = "from dtmt_tf.cli import main; main()"
    subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env={**os.environ, **asked}, check=True
    )
    answer = (tmp_path / "answer").read_text().split("\n")
    found = {word.strip().replace("\\", "") for word in answer}
    assert expected <= found and not others & found


def test_ctrl_c_while_a_command_is_imported_is_no_traceback(dtmt, monkeypatch):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli.importlib, "import_module", interrupted)
    assert dtmt("train", "--help") == (130, "", "Stopped.\n")


def test_help_imports_neither_tensorflow_nor_what_it_needs():
    code = "import sys; sys.argv = ['dtmt', *sys.argv[1:]]\nfrom dtmt_tf.cli import main\n"
    code += "try: main()\nfinally: print(*sorted(sys.modules), file=sys.stderr)"
    for arguments in (
        ["--help"],
        ["train", "--help"],
        ["contrast", "--help"],
        ["probe", "--help"],
        ["client", "--help"],
    ):
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments], cwd=ROOT, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        heavy = {"tensorflow", "keras", "numpy", "requests", "grpc", "sklearn"} & set(
            done.stderr.split()
        )
        assert not heavy, arguments
    code = (
        "import sys, pipelines.papers.reproduce; print(*{'tensorflow', 'keras'} & {*sys.modules})"
    )
    assert subprocess.check_output([sys.executable, "-c", code], cwd=ROOT).strip() == b""


def test_the_package_runs_as_the_command():
    words = [sys.executable, "-m", "dtmt_tf", "help"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout == cli.overview() + "\n"
