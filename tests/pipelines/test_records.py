"""Records say truly what was trained, and the documents how."""

import argparse
import contextlib
import re

import pytest

from dtmt_tf.commands import common, options
from dtmt_tf.errors import UserError
from dtmt_tf.tasks import TASKS
from pipelines.papers import records, report


def test_a_damaged_record_is_named(tmp_path):
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(UserError, match=r"a\.json is damaged"):
        records.read_records(tmp_path)
    (tmp_path / "a.json").write_text('{"benchmark": 1}')
    with pytest.raises(UserError, match=r"a\.json is no record of a run"):
        records.read_records(tmp_path)


class Borrower:
    """A run whose settings are not looked at."""

    def __init__(self, folder):
        self.folder, self.work, self.claimed = folder, folder / "train", self.made

    @contextlib.contextmanager
    def made(self):
        self.folder.mkdir(exist_ok=True)
        yield

    def write_settings(self, trained):
        assert trained


def test_borrowed_weights_are_those_of_the_newest_training(tmp_path):
    lender, borrower = tmp_path / "a", Borrower(tmp_path / "b")
    weights = lender / "train" / "checkpoints" / "step-00000002.npz"
    weights.parent.mkdir(parents=True)
    weights.write_text("first")
    records.copy_run(lender, borrower)
    (borrower.folder / "train" / "test.txt").write_text("translated by them")
    records.copy_run(lender, borrower)
    assert (borrower.folder / "train" / "test.txt").exists()
    weights.write_text("later")  # as long as the first
    records.copy_run(lender, borrower)
    copied = borrower.folder / weights.relative_to(lender)
    assert copied.read_text() == "later" and not (borrower.folder / "train" / "test.txt").exists()


def text_of(value):
    return ",".join(value) if isinstance(value, list) else str(value)


@pytest.mark.parametrize(
    "record", records.read_records(records.RECORDS), ids=lambda record: record["name"]
)
def test_what_a_record_says_it_changed_is_what_it_was_trained_with(record):
    changed = dict(record["changed_settings"])
    if changed.get("data.reverse"):  # it swaps the others of its section itself
        changed = {key: v for key, v in changed.items() if not key.endswith(("source", "target"))}
        changed = {key: v for key, v in changed.items() if not key.endswith("_language")}
    overrides = [f"{key}={text_of(value)}" for key, value in changed.items()]
    options = argparse.Namespace(task=record["task"], model=record["model"], set=overrides)
    assert records.settings_hash(common.experiment(options)[0]) == record["settings_hash"]


def training_commands():
    """The documents' training commands by task and run, but for own text, variables filled in."""
    paths = [report.ROOT / name for name in ("RESULTS.md", "EXPERIMENTS.md")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in paths)
    variables = dict(re.findall(r'^([A-Z]+)="(.*)"$', text, re.MULTILINE))
    for line in re.findall(r"^python pipelines/train\.py (?!--train )(.*)$", text, re.MULTILINE):
        parser = options.run_parser("", "")
        options.add_set(parser)
        options.add_devices(parser)
        words = re.sub(r"\$([A-Z]+)", lambda match: variables[match[1]], line).split()
        args = parser.parse_args(words)
        args.task = args.task or common.DEFAULT_TASK
        model = args.model or TASKS[args.task].model
        yield (args.task, args.name or model), args


COMMANDS = dict(training_commands())
NAMED = [
    run
    for run in records.read_records(records.RECORDS)
    if not run["row"] and not run["members"]  # those have commands of their own
]


@pytest.mark.parametrize("record", NAMED, ids=lambda record: record["name"])
def test_a_printed_command_makes_the_run_of_its_record(record):
    key = record["task"], record["name"]
    assert key in COMMANDS, "RESULTS.md and EXPERIMENTS.md print no command that makes this run"
    options = COMMANDS[key]
    experiment = common.experiment(options)[0]
    assert experiment.training.seed == record["seed"]
    assert records.settings_hash(experiment) == record["settings_hash"]
    assert max(1, len(options.devices)) == record["batches_an_update"]


def test_records_lie_in_the_repository():
    assert records.RECORDS.is_relative_to(report.ROOT) and records.RECORDS.is_dir()
