"""COMPARISON.md is true of this version, and says where it has the others from."""

import re
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest

from dtmt_tf.experiment import KINDS
from dtmt_tf.models import MODELS
from dtmt_tf.pretrained import VARIABLE

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "COMPARISON.md").read_text(encoding="utf-8")
TABLES, _, SOURCES = TEXT.partition("## Sources")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in TABLES.splitlines()
    if line.count("|") == 8 and not line.startswith(("| | ", "| ---"))
]
SYSTEMS = "dtmt_tf", "OpenNMT-tf", "JoeyNMT", "Sockeye", "Marian", "transformers"
SETTINGS = {f"{name}.{item.name}" for name, kind in KINDS.items() for item in fields(kind)}
OPTIONS = {
    option
    for path in (ROOT / "dtmt_tf" / "commands").glob("*.py")
    for option in re.findall(r'"(--[a-z-]+)"', path.read_text(encoding="utf-8"))
}
# what a row says this version does not do, by a word that a setting or option for it would have
ABSENT = {"a shortlist of words by source": "shortlist", "weights of 8 bits": "quanti"}


def test_each_table_names_the_same_systems():
    heads = [line for line in TABLES.splitlines() if line.startswith("| | ")]
    assert len(heads) == TABLES.count("\n## ") - 1
    for head in heads:
        assert tuple(cell.strip() for cell in head.strip("|").split("|")[1:]) == SYSTEMS
    assert len(ROWS) > 30 and all(len(row) == 7 and all(row) for row in ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_what_it_says_of_this_version_is_there(row):
    """Commands are parsed, and paths looked for, by `test_documents.py`."""
    for code in re.findall(r"`([^`]+)`", row[1]):
        known = code in SETTINGS or code in MODELS or code == VARIABLE
        assert known or code.startswith(("dtmt ", "pipelines/")), code


@pytest.mark.parametrize("title", ABSENT)
def test_what_it_says_is_absent_is_absent(title):
    (row,) = (row for row in ROWS if row[0] == title)
    found = sorted(name for name in SETTINGS | OPTIONS if ABSENT[title] in name)
    assert (row[1] == "no") == (not found), f"COMPARISON.md, {title}: there is {found}"


def test_the_version_is_this_one():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    version = project["version"]
    assert f"dtmt_tf {version} does" in TEXT and f"| version read | {version} |" in TEXT
    needs = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    for name, number in re.findall(r"(TensorFlow|Keras) ([\d.]+)", ROWS[2][1]):
        assert re.search(rf"^{name.lower()}>={number}", needs, re.MULTILINE)


def test_every_source_is_listed_and_of_the_system_that_it_is_given_for():
    listed = dict(re.findall(r"(?<!\S)(\d+) ([A-Za-z][\w-]+), \S", SOURCES))
    assert list(listed) == [str(number) for number in range(1, len(listed) + 1)]
    cited = set()
    for row in ROWS:
        for system, cell in zip(SYSTEMS, row[1:], strict=True):
            for number in re.findall(r"\[(\d+)\]", cell):
                assert listed[number] == system, (row[0], cell)
                cited.add(number)
    assert cited == set(listed)
