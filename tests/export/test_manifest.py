"""A manifest tells every change of a version's files."""

import json

import pytest

from dtmt_tf.errors import UserError
from dtmt_tf.export.manifest import MANIFEST, problems, read_manifest, write_manifest


@pytest.fixture
def version(tmp_path):
    (tmp_path / "variables").mkdir()
    (tmp_path / "saved_model.pb").write_bytes(b"graph")
    (tmp_path / "variables" / "data").write_bytes(b"weights")
    (tmp_path / "empty").touch()
    write_manifest(tmp_path, {"weights_sha256": "abc"})
    return tmp_path


def test_it_lists_what_there_is(version):
    manifest = read_manifest(version)
    assert manifest["format"] == 1 and manifest["weights_sha256"] == "abc"
    assert {name: each["size"] for name, each in manifest["files"].items()} == {
        "empty": 0,
        "saved_model.pb": 5,
        "variables/data": 7,
    }
    sha256 = "9a129038d9a00aed0cf6a7ea059ca50a813449061ab87848cf1a13eafdf33b2c"
    assert manifest["files"]["variables/data"]["sha256"] == sha256  # echo -n weights | sha256sum
    assert problems(version) == []


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda path: (path / "variables/data").write_bytes(b"weighty"), "has other contents"),
        (lambda path: (path / "variables/data").write_bytes(b"weight"), "has 6 bytes, not 7"),
        (lambda path: (path / "variables/data").unlink(), "is missing"),
    ],
)
def test_a_changed_file_is_named(version, change, problem):
    change(version)
    assert problems(version) == [f"variables/data {problem}"]


def test_a_file_that_does_not_belong_is_named(version):
    (version / "variables" / "more").touch()
    (version / "link").symlink_to("nowhere")
    assert problems(version) == [
        "link is not in the manifest",
        "variables/more is not in the manifest",
    ]


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"files": {"a": 1}}', '{"files": []}'])
def test_a_damaged_manifest_is_told(version, content):
    (version / MANIFEST).write_text(content)
    with pytest.raises(UserError, match="manifest.json is damaged"):
        problems(version)


def test_a_version_without_one_is_told(tmp_path):
    with pytest.raises(UserError, match="has no manifest.json"):
        problems(tmp_path)


def test_all_is_on_the_disk_before_the_manifest_and_the_folders(tmp_path, monkeypatch):
    """The order in which files are flushed: a manifest never speaks of what may be lost."""
    flushed = []
    monkeypatch.setattr("dtmt_tf.export.manifest.flush", lambda path: flushed.append(path))
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b").touch()
    (tmp_path / "c").touch()
    write_manifest(tmp_path, {})
    names = [path.relative_to(tmp_path).as_posix() for path in flushed]
    assert names == ["a/b", "c", MANIFEST, "a", "."]
    assert json.loads((tmp_path / MANIFEST).read_text())["files"].keys() == {"a/b", "c"}
