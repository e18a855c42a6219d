"""The pinned versions of `python*.lock` fit the ranges of `requirements*.txt`, and each other."""

import re
import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PYTHONS = ("3.11", "3.12", "3.13")
KINDS = ("", "-dev")
LOCKS = [ROOT / f"python{python}{kind}.lock" for python in PYTHONS for kind in KINDS]
MAX_BYTES = 400_000
MACHINES = ("x86_64", "aarch64")
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def requirements(path):
    """Returns what a file asks for, those of the files that it names included."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        line = line.partition("#")[0].strip()
        if line.startswith("-r "):
            found += requirements(path.parent / line.removeprefix("-r "))
        elif line:
            found.append(Requirement(line))
    return found


def entries(path):
    """Returns what a lock holds: `(requirement, number of hashes)`, with its lines as they are."""
    text = path.read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [
        line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")
    ]
    for line in lines:
        assert re.fullmatch(rf"[^\s].*?(\s+{HASH.pattern})+\s*", line), line
    return [(Requirement(line.partition(" --hash")[0]), len(HASH.findall(line))) for line in lines]


def environment(path, machine="x86_64"):
    """Returns what markers see on Linux with the Python of a lock."""
    version = re.search(r"python(\d\.\d+)", path.name)[1]
    linux = {"sys_platform": "linux", "platform_system": "Linux", "platform_machine": machine}
    pythons = {"python_version": version, "python_full_version": f"{version}.5"}
    return {**default_environment(), **linux, **pythons, "extra": ""}


def pins(path, machine="x86_64"):
    """Returns the version of each package, as a lock has it there."""
    where = environment(path, machine)
    found = {}
    for pin, _ in entries(path):
        if pin.marker is None or pin.marker.evaluate(where):
            name = canonicalize_name(pin.name)
            assert name not in found, f"{path.name} has {name} twice"
            (only,) = pin.specifier
            assert only.operator == "==", pin
            found[name] = only.version
    return found


def lacking(wanted, pinned, where):
    """Lists the requirements that the pins do not meet."""
    return [
        str(each)
        for each in wanted
        if (each.marker is None or each.marker.evaluate(where))
        and not each.specifier.contains(
            pinned.get(canonicalize_name(each.name), "0!0.dev0"), prereleases=True
        )
    ]


def test_each_python_that_is_supported_has_its_locks():
    supported = re.search(
        r'requires-python = ">=3\.(\d+),<3\.(\d+)"', (ROOT / "pyproject.toml").read_text()
    )
    minors = range(int(supported[1]), int(supported[2]))
    assert PYTHONS == tuple(f"3.{minor}" for minor in minors)
    assert sorted(ROOT.glob("*.lock")) == sorted(LOCKS)


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_a_lock_holds_pins_with_hashes_and_nothing_else(path):
    assert path.stat().st_size < MAX_BYTES
    assert all(count >= 1 for _, count in entries(path))
    assert not any(pin.url or pin.extras for pin, _ in entries(path))
    assert "://" not in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_a_lock_meets_the_requirements(path, machine):
    kind = "-dev" if path.stem.endswith("-dev") else ""
    wanted = requirements(ROOT / f"requirements{kind}.txt")
    assert len(wanted) > 10
    assert lacking(wanted, pins(path, machine), environment(path, machine)) == []


@pytest.mark.parametrize("python", PYTHONS)
def test_users_and_developers_have_the_same_versions(python):
    users, developers = (pins(ROOT / f"python{python}{kind}.lock") for kind in KINDS)
    assert users.items() <= developers.items()


def test_the_pins_meet_what_the_packages_ask_of_each_other():
    # of those that are installed here as they are pinned, which is most
    path = ROOT / f"python{sys.version_info[0]}.{sys.version_info[1]}-dev.lock"
    pinned, where = pins(path), environment(path)
    checked = []
    for package in metadata.distributions():
        name = canonicalize_name(package.metadata["Name"])
        if pinned.get(name) == package.version:
            wanted = [Requirement(line) for line in package.requires or ()]
            assert lacking(wanted, pinned, where) == [], name
            checked.append(name)
    assert len(checked) > 20


def test_what_does_not_fit_is_found(tmp_path):
    lock = tmp_path / "python3.11.lock"
    text = LOCKS[0].read_text(encoding="utf-8")
    lock.write_text(re.sub(r"^keras==\S+", "keras==3.99", text, flags=re.MULTILINE))
    found = lacking(requirements(ROOT / "requirements.txt"), pins(lock), environment(lock))
    assert [each.partition("<")[0] for each in found] == ["keras"]
    lock.write_text(re.sub(r"^keras==.*?(?=^\w)", "", text, flags=re.MULTILINE | re.DOTALL))
    found = lacking(requirements(ROOT / "requirements.txt"), pins(lock), environment(lock))
    assert [each.partition("<")[0] for each in found] == ["keras"]
    lock.write_text("keras==3.15.1\n")
    with pytest.raises(AssertionError, match="keras"):
        entries(lock)
