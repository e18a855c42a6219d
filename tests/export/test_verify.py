"""dtmt verify says of each version whether it is whole."""

import pytest

from dtmt_tf import startup
from dtmt_tf.commands.verify import command
from dtmt_tf.errors import UserError
from dtmt_tf.export.manifest import write_manifest


@pytest.fixture(autouse=True)
def started(monkeypatch):
    """Grows each time TensorFlow is started."""
    times = []
    monkeypatch.setattr(startup, "start_tensorflow", lambda: times.append(1))
    return times


@pytest.fixture
def run(tmp_path):
    for number in (1, 2):
        version = tmp_path / str(number)
        version.mkdir()
        (version / "saved_model.pb").write_bytes(b"graph")
        write_manifest(version, {})
    (tmp_path / "train").mkdir()
    return tmp_path


def test_whole_versions_are_told(run, capsys, started):
    assert command([str(run)]) == 0
    assert started
    assert capsys.readouterr().out == "".join(
        f"{run / number}: 1 files, all as in manifest.json\n" for number in "12"
    )
    assert command([str(run / "2")]) == 0
    assert capsys.readouterr().out == f"{run / '2'}: 1 files, all as in manifest.json\n"


def test_a_damaged_version_ends_with_1(run, capsys):
    (run / "1" / "saved_model.pb").write_bytes(b"grap")
    assert command([str(run)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"{run / '1'}: saved_model.pb has 4 bytes, not 5",
        f"{run / '2'}: 1 files, all as in manifest.json",
    ]


def test_a_version_without_a_sound_manifest_does_not_hide_the_others(run, capsys):
    (run / "1" / "manifest.json").write_text("{")
    assert command([str(run)]) == 1
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{run / '1' / 'manifest.json'} is damaged (JSONDecodeError")
    assert second == f"{run / '2'}: 1 files, all as in manifest.json"


def test_a_folder_without_versions_is_told(tmp_path):
    for folder, told in ((tmp_path, "holds no exported model"), (tmp_path / "absent", "no folder")):
        with pytest.raises(UserError, match=told):
            command([str(folder)])
    (tmp_path / "refused-1").mkdir()
    with pytest.raises(UserError, match="refused-1 there was refused; dtmt export .* --force publ"):
        command([str(tmp_path)])
    (tmp_path / "saved_model.pb").touch()
    with pytest.raises(UserError, match="has no manifest.json"):
        command([str(tmp_path)])
