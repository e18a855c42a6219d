"""The documents are true: commands parse, settings, files, tests and links exist."""

import argparse
import importlib
import re
import shlex
from pathlib import Path

import pytest

from dtmt_tf.cli import COMMANDS
from dtmt_tf.commands import common
from dtmt_tf.export.signatures import SIGNATURES
from tests.test_architecture import ALLOWED

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted(ROOT.glob("*.md"))
TEXTS = {path.name: path.read_text(encoding="utf-8") for path in DOCUMENTS}
SCRIPTS = {
    "documents": "pipelines.papers.report",
    "reproduce": "pipelines.papers.reproduce",
    "benchmark": "pipelines.benchmark.command",
}
LONGEST = {"README.md": 150, "RESULTS.md": 150, "ARCHITECTURE.md": 300}  # lines that are written
# Where the documents' paths begin. A name in capitals, or <this>, stands for the reader's own.
PLACES = (ROOT, ROOT / "dtmt_tf", ROOT / "tests", ROOT / "pipelines")


class Parsed(Exception):
    """Stops a command when its arguments are parsed."""

    def __init__(self, args):
        super().__init__()
        self.args_of_command = args


def blocks(text):
    """The lines of a document's code blocks; a line that ends with a backslash goes on."""
    for block in re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        yield from re.sub(r" \\\n *", " ", block).splitlines()


def commands(name):
    """The commands of a document as `(script, arguments)`, its shell variables filled in."""
    text = TEXTS[name]
    inline = re.findall(r"`((?:python pipelines/\w+\.py|dtmt \w+)[^`]*)`", text)
    lines = [*blocks(text), *(" ".join(code.split()) for code in inline)]
    variables: dict[str, str] = {}
    for line in lines:
        if match := re.match(r'([A-Z]+)="(.*)"$', line):
            variables[match[1]] = match[2]
        line = re.sub(r"\$([A-Z]+)\b", lambda match: variables.get(match[1], match[0]), line)
        if match := re.search(r"(?:python pipelines/(\w+)\.py|(?:^|\| )dtmt (\w+))( .*|$)", line):
            yield match[1] or match[2], match[3].strip()


ALL = [(name, *command) for name in TEXTS if name != "CHANGELOG.md"
       for command in dict.fromkeys(commands(name))]  # fmt: skip


def parsed(script, arguments, monkeypatch):
    """What a command's parser makes of arguments."""
    parse = argparse.ArgumentParser.parse_args

    def stop(self, args=None, namespace=None):
        raise Parsed(parse(self, args, namespace))

    words = shlex.split(arguments.partition(" < ")[0].partition("#")[0])
    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", stop)
    monkeypatch.setattr("sys.argv", [script, *words])
    module = importlib.import_module(SCRIPTS.get(script, f"dtmt_tf.commands.{script}"))
    with pytest.raises(Parsed) as found:
        module.command(words) if script in COMMANDS else module.command()
    return found.value.args_of_command


def test_each_kind_of_command_is_documented():
    assert {script for _, script, _ in ALL} == {*COMMANDS, *SCRIPTS}
    first = {"train", "translate", "evaluate"}
    assert first <= {script for name, script, _ in ALL if name == "README.md"}
    assert {"make demo", "make test"} <= {
        line.split("#")[0].strip() for line in blocks(TEXTS["README.md"])
    }


@pytest.mark.parametrize(("name", "script", "arguments"), ALL, ids=str)
def test_a_documented_command_parses_and_its_settings_exist(name, script, arguments, monkeypatch):
    if "=..." in arguments:
        arguments = arguments.replace("=...", "=x")
    args = parsed(script, arguments, monkeypatch)
    if script == "train":
        common.experiment(args)


def test_a_wrong_command_is_noticed(monkeypatch):
    with pytest.raises(SystemExit):
        parsed("train", "--tsak custom", monkeypatch)
    with pytest.raises(SystemExit):
        parsed("train", "--plan-for 8", monkeypatch)


@pytest.mark.parametrize("name", TEXTS)
def test_make_targets_exist(name):
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"(?:^|`)make ([a-z-]+)", TEXTS[name], re.MULTILINE)) <= targets


@pytest.mark.parametrize("name", TEXTS)
def test_links_lead_somewhere(name):
    targets = re.findall(r"\]\(([^)\s]+)\)|(?:src|srcset)=\"([^\"]+)\"", TEXTS[name])
    for target in (a or b for a, b in targets):
        path, _, anchor = target.partition("#")
        if "://" in path:
            continue
        assert not path or (ROOT / path).exists(), target
        if anchor:
            heads = re.findall(r"^#+ (.*)$", TEXTS[path or name], re.MULTILINE)
            slugs = {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}
            assert anchor in slugs, target


@pytest.mark.parametrize("name", [name for name in TEXTS if name != "CHANGELOG.md"])
def test_files_and_tests_that_are_named_exist(name):
    for code in re.findall(r"`([^`\n]+)`", TEXTS[name]):
        path, _, test = code.partition("::")
        if not re.fullmatch(r"[\w./-]*/[\w.-]*\.py|[\w-]+\.py|[\w/]+/", path):
            continue
        if "my_" in path or path.startswith(("saved_models", "train/", "checkpoints", "variables")):
            continue  # the reader's own, or made by a command
        found = [place / path for place in PLACES if (place / path).exists()]
        assert found or path in ("assets/", "model/"), f"{name}: {code}"
        if test:
            assert f"def {test}(" in found[0].read_text(encoding="utf-8"), f"{name}: {code}"


def test_every_room_is_described():
    rooms = re.findall(r"^\| (`.*?) \|", TEXTS["ARCHITECTURE.md"].partition("## One step")[0], re.M)
    named = {name.strip("`/").removesuffix(".py") for row in rooms for name in row.split(", ")}
    assert {path.removesuffix("/") for path in named} >= set(ALLOWED) - {"__init__"}


def test_the_table_of_signatures_is_complete():
    table = TEXTS["SERVING.md"].split("| `signature_name` |")[1].split("\n\n")[0]
    rows = [line.split(" | ") for line in table.splitlines()[2:]]
    told = {
        re.findall(r"`(\w+)`", name)[0]: tuple(
            tuple(re.findall(r"`(\w+)`", names)) for names in row
        )
        for name, *row, _ in rows
    }
    assert told == {
        name: (one.inputs, one.outputs)
        for name, one in SIGNATURES.items()
        if name != "serving_default"
    }
    assert SIGNATURES["serving_default"] is SIGNATURES["translate"]  # "the default"


def test_the_first_pages_stay_short():
    for name, most in LONGEST.items():  # tables that results fill grow with them
        written = re.sub(r"<!-- (?!end).*? -->.*?<!-- end -->", "", TEXTS[name], flags=re.S)
        assert len(written.splitlines()) <= most, name
