"""What `pip install .` installs: the package and its command, no tests and no records."""

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BUILD = "from setuptools import build_meta; build_meta.build_wheel('dist')"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel of this checkout, open."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("pyproject.toml", "README.md", "LICENSE", "requirements.txt"):
        shutil.copy(ROOT / name, folder)
    for name in ("dtmt_tf", "pipelines", "tests"):
        ignored = shutil.ignore_patterns("__pycache__", "*.xz")
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    done = subprocess.run(
        [sys.executable, "-c", BUILD], cwd=folder, capture_output=True, text=True, timeout=1800
    )
    assert done.returncode == 0, done.stderr
    (path,) = (folder / "dist").glob("*.whl")
    with zipfile.ZipFile(path) as file:
        yield file


def described(wheel, name):
    (path,) = (path for path in wheel.namelist() if path.endswith(f".dist-info/{name}"))
    return wheel.read(path).decode()


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(wheel):
    expected = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "dtmt_tf").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    found = {path for path in wheel.namelist() if not re.match(r"dtmt_tf-[\d.]+\.dist-info/", path)}
    assert "dtmt_tf/cli.py" in found
    assert found == expected


def test_it_brings_the_command_and_what_it_needs(wheel):
    assert "dtmt = dtmt_tf.cli:main" in described(wheel, "entry_points.txt")
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    wanted = [line.partition("#")[0].strip() for line in lines]
    needed = re.findall(r"^Requires-Dist: (.*)$", described(wheel, "METADATA"), re.MULTILINE)
    assert {_plain(line) for line in needed} == {_plain(line) for line in wanted if line}


def _plain(requirement):
    """A requirement with its bounds in one order."""
    name, bounds = re.fullmatch(r"([\w.-]+)(.*)", requirement.replace(" ", "")).groups()
    return name, tuple(sorted(bounds.split(",")))
