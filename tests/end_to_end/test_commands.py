"""Commands that need no training: help, settings, mistakes."""

import os
import re
import signal

import pytest

from dtmt_tf import caller
from dtmt_tf.folders import claimed
from tests.end_to_end.conftest import ROOT, run

SCRIPTS = sorted(
    path.stem for path in (ROOT / "pipelines").glob("*.py") if "__main__" in path.read_text()
)


def refused(result, *texts):
    assert result.returncode == 2, result.stderr
    assert "Traceback" not in result.stderr
    for text in texts:
        assert text in result.stderr


def test_show_config_resolves_the_papers_task(here):
    result = here("train", "--task", "wmt14_ende", "--show-config")
    assert result.returncode == 0, result.stderr
    for line in (
        "model_name: dtmt4",
        "  units: 1024  # default",
        "  source_vocab_size: 32000  # task wmt14_ende",
        "  max_tokens_per_batch: 4096  # default",
        "  adam_epsilon: 1.0e-06  # default",
        "  schedule_decay_end: 1200000  # default",
        "  length_penalty: 0.6  # default",
    ):
        assert line in result.stdout.splitlines()


def test_dry_run_prints_parameters_memory_and_steps(here):
    result = here("train", "--task", "wmt14_ende", "--dry-run")
    assert result.returncode == 0, result.stderr
    # the formula of tests/models/test_parameter_counts.py with both vocabularies of 32,000
    assert re.search(r"encoder +44,095,488", result.stdout)
    assert re.search(r"total +205,407,552", result.stdout)
    for what, size in (("weights", 0.77), ("Adam moments", 1.53), ("gradients", 0.77)):
        assert re.search(rf"  {what} +{size} GiB", result.stdout), what
    # weights and moments; the paper's task averages nothing while it trains
    assert re.search(r"checkpoints +29.84 GiB, at most 13 of 2.30 GiB", result.stdout)
    assert all(len(line) <= 80 for line in result.stdout.splitlines())
    assert "an update is meant to read 8, devices x A" in result.stdout
    assert "8.0e-04 at 400, 8.0e-04 at 25,000, 5.0e-05 at 150,000" in result.stdout


def test_a_rate_that_the_schedule_does_not_read_is_told(here, caplog):
    settings = ["training.learning_rate=1e-4", "training.validation_steps=10"]
    here("train", "--task", "wmt14_ende_base", "--set", *settings, "--dry-run")
    told = [text for text in caplog.messages if "changes nothing" in text]
    assert told == [
        "training.learning_rate changes nothing: schedule inverse_sqrt and optimizer adam do not "
        "read it."
    ]


def test_absent_corpus_says_what_to_put_where(here, tmp_path):
    result = here("train", "--task", "nist_zhen", "--data-dir", tmp_path, "--output-dir", tmp_path)
    refused(result, "nist/train.zh was not found", str(tmp_path), "one sentence a line")


@pytest.mark.parametrize(
    ("arguments", "texts"),
    [
        (["--task", "wmt15"], ["Unknown task 'wmt15'", "wmt14_ende"]),
        (["--model", "dtmt9"], ["Unknown model 'dtmt9'", "dtmt4"]),
        (["--set", "model.unit=8"], ["Unknown setting 'model.unit'", "'model.units'"]),
        (["--set", "model.units=x"], ["`model.units` should be of type int", "'x'"]),
        (["--set", "model.units=100", "model.num_heads=3"], ["divisible", "100 and 3"]),
        (["--data-dir", "/nowhere"], ["/nowhere is not a directory"]),
        (["--task", "custom"], ["data.train_source", "--set"]),
        (["--plan-for", "8", "5000"], ["--plan-for goes with --plan"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_mistakes_end_with_code_2_and_advice(here, arguments, texts, tmp_path):
    refused(here("train", *arguments, "--output-dir", tmp_path), *texts)


def test_a_device_that_is_not_there_is_refused_and_those_there_are_named(tmp_path):
    result = run("train", "--devices", "GPU:7", "--output-dir", tmp_path)
    refused(result, "There is no device GPU:7", "CPU:0")


def test_faulty_files_are_named_with_their_lines(here, tmp_path):
    (tmp_path / "a.en").write_bytes(b"one\ntw\xffo\nthree\n")
    (tmp_path / "a.de").write_bytes(b"eins\nzwei\n")
    result = here("train", "--task", "custom", "--output-dir", tmp_path, "--set",
                  f"data.train_source={tmp_path}/a.en",
                  f"data.train_target={tmp_path}/a.de")  # fmt: skip
    refused(result, "a.en:2", "UTF-8", "a.de")
    assert not list(tmp_path.rglob("*.spm"))


def test_damaged_files_of_a_run_are_named(here, tmp_path):
    record = tmp_path / "cldr_ende" / "mine" / "train" / "experiment.json"
    record.parent.mkdir(parents=True)
    for content in ("{", "[]", "{}"):
        record.write_text(content)
        result = here("evaluate", "--output-dir", tmp_path, "--name", "mine")
        refused(result, f"{record} is damaged", "The command that made the run")
    (tmp_path / "saved_model.pb").write_bytes(b"no model")
    result = here("translate", "--model", tmp_path)
    refused(result, f"{tmp_path} holds no SavedModel that could be loaded", "export.py")


def test_a_file_is_not_compared_with_itself(here, tmp_path):
    files = [tmp_path / name for name in ("references", "hypotheses")]
    for path in files:
        path.write_text("one\n")
    result = here("evaluate", "--references", files[0], "--hypotheses", files[1], files[1])
    refused(result, "is named twice")


def test_settings_of_runs_are_refused_for_files(here, tmp_path):
    result = here("evaluate", "--references", tmp_path / "a", "--hypotheses", tmp_path / "b",
                  "--set", "evaluation.lowercase=true")  # fmt: skip
    refused(result, "--set is for runs", "--tokenize")


def test_settings_of_files_are_refused_for_runs(here):
    refused(here("evaluate", "--tokenize", "intl"), "--set evaluation.tokenize=NAME")


@pytest.mark.parametrize("columns", [60, 80, 200])
@pytest.mark.parametrize("script", SCRIPTS)
def test_help_explains_and_gives_an_example_in_80_columns(here, monkeypatch, script, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    result = here(script, "--help")
    assert result.returncode == 0
    _, examples = re.split("^examples?:$", result.stdout, flags=re.MULTILINE)
    assert f"python pipelines/{script}.py" in examples
    assert result.stdout.startswith(f"usage: python pipelines/{script}.py [options]")
    assert not caller.NAMED.search(result.stdout)
    assert max(map(len, result.stdout.splitlines())) <= min(80, columns)


def test_a_run_that_another_process_trains_is_refused(here, tmp_path):
    folder = tmp_path / "cldr_ende" / "mine"
    child = os.fork()
    if not child:
        with claimed(folder):
            os.kill(os.getpid(), signal.SIGSTOP)  # until it is killed
        os._exit(0)
    try:
        os.waitpid(child, os.WUNTRACED)
        result = here("train", "--output-dir", tmp_path, "--name", "mine", "--restart")
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    refused(result, f"{folder} is in use by process {child}", "another --name")
    assert [path.name for path in folder.iterdir()] == [".lock"]
