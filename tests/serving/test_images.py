"""The Dockerfile copies and runs what there is; no image is built here."""

import fnmatch
import json
import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
LINES = re.sub(r" \\\n *", " ", (ROOT / "Dockerfile").read_text(encoding="utf-8")).splitlines()
IGNORED = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def stages():
    """Returns each stage's base and instructions: {name: (image, [(instruction, words)])}."""
    found: dict = {}
    for line in LINES:
        if match := re.match(r"FROM (\S+) AS (\S+)$", line):
            found[match[2]] = (match[1], [])
            _, last = found[match[2]]
        elif line and not line.startswith("#"):
            instruction, _, rest = line.partition(" ")
            last.append((instruction, rest))
    return found


STAGES = stages()


def copied(stage):
    """Returns what a stage copies from the checkout, and where to."""
    rows = [rest.split() for instruction, rest in STAGES[stage][1] if instruction == "COPY"]
    return [(source, row[-1]) for row in rows for source in row[:-1]]


def sent(path):
    """Whether `docker build` sends a path of the checkout, as `.dockerignore` has it."""
    verdict = True
    for rule in (line for line in IGNORED if line and not line.startswith("#")):
        pattern = rule.removeprefix("!").removeprefix("**/")
        parts = [path, *(str(parent) for parent in Path(path).parents), *Path(path).parts]
        if any(fnmatch.fnmatchcase(part, pattern) for part in parts):
            verdict = rule.startswith("!")
    return verdict


@pytest.mark.parametrize("stage", STAGES)
def test_what_is_copied_is_there_and_sent(stage):
    assert copied(stage)
    for source, _ in copied(stage):
        assert (ROOT / source).exists(), source
        assert sent(source), source


def test_nothing_but_what_is_copied_is_sent():
    needed = {source for stage in STAGES for source, _ in copied(stage)}
    rules = {line[1:] for line in IGNORED if line.startswith("!")}
    assert rules == needed
    for path in ("saved_models/a/b", "tests", ".git/config", "dtmt_tf/__pycache__", ".venv/bin/x"):
        assert not sent(path), path


def test_training_has_the_pinned_packages_of_its_python_and_the_command():
    image, steps = STAGES["train"]
    python = re.fullmatch(r"python:(3\.\d+)-slim", image)[1]
    files = [source for source, _ in copied("train")]
    assert f"python{python}.lock" in files
    (first, second) = [rest for instruction, rest in steps if instruction == "RUN"]
    assert f"--require-hashes -r python{python}.lock" in first
    assert " --no-deps ." in second  # all that it needs is there by then
    needed = {PROJECT["project"]["readme"], "LICENSE", "pyproject.toml", "dtmt_tf"}
    needed |= set(PROJECT["tool"]["setuptools"]["dynamic"]["dependencies"]["file"])
    assert needed <= set(files)
    settings = dict(steps)
    assert json.loads(settings["ENTRYPOINT"])[0] in PROJECT["project"]["scripts"]
    assert settings["USER"].split(":")[0].isdigit() and settings["USER"] != "0:0"
    folder = re.search(r"XDG_CACHE_HOME=(\S+)", settings["ENV"])[1]
    assert f"install -d -m 1777 {folder} {settings['WORKDIR']}" in second


def test_the_page_is_the_one_that_compose_shows():
    image, _ = STAGES["page"]
    folder = ROOT / "pipelines" / "serving"
    service = yaml.safe_load((folder / "compose.yaml").read_text(encoding="utf-8"))["services"][
        "page"
    ]
    assert service["image"] == image
    (volume,) = service["volumes"]
    outside, inside, _ = volume.split(":")
    assert copied("page") == [((folder / outside).relative_to(ROOT).as_posix(), inside)]


def test_the_commands_that_it_shows_build_its_images_and_open_no_port_to_others():
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    built = re.findall(r"docker build --target (\S+) -t (\S+) \.", text)
    assert {stage for stage, _ in built} == set(STAGES)
    for _, name in built:
        assert re.search(rf"docker run [^#]*(?:\\\n#\s+)?[^#]*{name}\b", text), name
    for mapping in re.findall(r" -p (\S+)", text):
        assert mapping.startswith("127.0.0.1:"), mapping
    (given,) = re.findall(r'--build-arg (\w+)="', text)
    assert f"ARG {given}=tensorflow" in text
