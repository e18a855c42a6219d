"""Checkpoints: complete, checked, rotated, averaged."""

import dataclasses
import errno
import hashlib
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from dtmt_tf.errors import UserError
from dtmt_tf.files import write_atomically
from dtmt_tf.training import Checkpoint, CheckpointFolder
from dtmt_tf.training import checkpoint as checkpoint_module
from dtmt_tf.training.checkpoint import WAITS
from tests.disk import file_size_limit


def checkpoint(step, bleus=(), value=0.0):
    history = [{"step": 10 * (k + 1), "bleu": bleu} for k, bleu in enumerate(bleus)]
    weights = {"a/kernel": np.full((2, 3), value, "float32"), "b": np.arange(3, dtype="float32")}
    optimizer = [np.array(step), np.full((2, 3), 0.5, "float32")]
    return Checkpoint(step, weights, optimizer, history, {"model": {"units": 8}}, 2.5, 70)


def test_more_than_ten_thousand_arrays_of_the_optimiser_keep_their_order(tmp_path):
    folder = CheckpointFolder(tmp_path, 3, 3)
    many = [np.array(k, "int32") for k in range(10_003)]
    folder.save(dataclasses.replace(checkpoint(10), optimizer=many))
    assert [int(array) for array in folder.load(10).optimizer] == list(range(10_003))


def test_what_is_saved_is_loaded(tmp_path):
    folder = CheckpointFolder(tmp_path, 3, 3)
    saved = checkpoint(10, [1.5], 0.25)
    folder.save(saved)
    loaded = folder.load(10)
    assert (loaded.step, loaded.history, loaded.settings) == (10, saved.history, saved.settings)
    assert (loaded.seconds, loaded.tokens) == (2.5, 70)
    assert set(loaded.weights) == {"a/kernel", "b"}
    for name, value in saved.weights.items():
        np.testing.assert_array_equal(loaded.weights[name], value)
    for before, after in zip(saved.optimizer, loaded.optimizer, strict=True):
        np.testing.assert_array_equal(before, after)


def test_a_bleu_of_0_alone_was_no_score(tmp_path):
    """An earlier version noted it where there was nothing to score."""
    folder = CheckpointFolder(tmp_path, 3, 3)
    noted = [
        {"step": 10, "loss": 2.0, "bleu": 0.0},
        {"step": 20, "loss": 2.0, "bleu": 0.0, "chrf": 1.0},
        {"step": 30, "loss": 2.0},
    ]
    folder.save(dataclasses.replace(checkpoint(30), history=noted))
    assert folder.load(30).history == [{"step": 10, "loss": 2.0}, *noted[1:]]
    assert folder.glance().history == folder.load(30).history


def test_the_newest_and_the_best_are_kept(tmp_path):
    folder = CheckpointFolder(tmp_path, keep_last=2, keep_best=1)
    bleus = [3.0, 9.0, 4.0, 5.0, 6.0]
    for k in range(5):
        folder.save(checkpoint(10 * (k + 1), bleus[: k + 1]))
    history = checkpoint(50, bleus).history
    assert folder.steps() == [20, 40, 50]
    assert folder.last(2, history) == [40, 50]
    assert folder.best(2, history) == [20, 50]
    equal = checkpoint(50, [3.0, 9.0, 4.0, 6.0, 6.0]).history
    assert folder.best(2, equal) == [20, 50]  # the newer of two equal ones


def test_a_checkpoint_made_by_a_signal_is_for_resuming_alone(tmp_path):
    folder = CheckpointFolder(tmp_path, keep_last=2, keep_best=1)
    folder.save(checkpoint(10, [9.0]))
    folder.save(checkpoint(20, [9.0, 3.0]))
    folder.save(checkpoint(27, [9.0, 3.0]))
    assert folder.steps() == [10, 20, 27]
    assert folder.last(2, checkpoint(27, [9.0, 3.0]).history) == [10, 20]
    folder.save(checkpoint(30, [9.0, 3.0, 4.0]))
    assert folder.steps() == [10, 20, 30]


def test_average_is_the_mean_of_the_weights(tmp_path):
    folder = CheckpointFolder(tmp_path, 3, 3)
    for step, value in ((10, 1.0), (20, 4.0)):
        folder.save(checkpoint(step, [1.0, 1.0], value))
    average = folder.average([10, 20])
    np.testing.assert_array_equal(average["a/kernel"], np.full((2, 3), 2.5, "float32"))
    np.testing.assert_array_equal(average["b"], [0, 1, 2])


def test_every_flipped_bit_and_every_lost_byte_is_noticed(tmp_path):
    folder = CheckpointFolder(tmp_path, 3, 3)
    path = folder.save(checkpoint(10, [1.5]))
    content = path.read_bytes()
    damaged = [content + b"\0"]
    for place in range(len(content)):
        flipped = bytearray(content)
        flipped[place] ^= 1 << place % 8
        damaged += [bytes(flipped)] + ([content[:place]] if place % 8 == 0 else [])
    for other in damaged:
        path.write_bytes(other)
        with pytest.raises(UserError, match="step-00000010.npz is damaged"):
            folder.load(10)


def test_a_checkpoint_is_an_archive_that_other_programs_read(tmp_path):
    path = CheckpointFolder(tmp_path, 3, 3).save(checkpoint(10, value=0.25))
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        content = path.read_bytes()
        assert archive.comment == hashlib.sha256(content[:-32]).digest() == content[-32:]


def test_a_checkpoint_of_an_earlier_version_has_the_checksums_of_its_parts(tmp_path):
    folder = CheckpointFolder(tmp_path, 3, 3)
    path = folder.save(checkpoint(10, [1.5], 0.25))
    content = path.read_bytes()[:-32]
    content = content[:-2] + b"\0\0"  # an archive without a comment
    path.write_bytes(content)
    np.testing.assert_array_equal(folder.load(10).weights["a/kernel"], np.full((2, 3), 0.25))
    flipped = bytearray(content)
    flipped[content.index(np.float32(0.5).tobytes()) + 1] ^= 1
    for damaged in (flipped, content[: len(content) // 2]):
        path.write_bytes(damaged)
        with pytest.raises(UserError, match="step-00000010.npz is damaged"):
            folder.load(10)


@pytest.fixture
def three(tmp_path):
    """A folder with three checkpoints, 10, 20 and 30."""
    folder = CheckpointFolder(tmp_path, 3, 3)
    for k in range(3):
        folder.save(checkpoint(10 * (k + 1), [1.0] * (k + 1), float(k)))
    return folder


def spoil(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)
    return bytes(content)


def test_the_newest_sound_checkpoint_is_used_and_damaged_ones_stand_aside(three, caplog):
    assert three.newest().step == 30
    spoiled = {step: spoil(three.path(step)) for step in (20, 30)}
    newest = three.newest()
    assert newest.step == 10
    np.testing.assert_array_equal(newest.weights["a/kernel"], np.zeros((2, 3)))
    assert three.steps() == [10]
    for (step, content), message in zip(
        sorted(spoiled.items())[::-1], caplog.messages, strict=True
    ):
        name = f"step-{step:08d}.npz"
        assert (three.folder / f"{name}.damaged").read_bytes() == content
        assert f"{three.folder / name} is damaged" in message
        assert f"It is kept as {name}.damaged; step-00000010.npz is used" in message
    three.save(checkpoint(20, [1.0] * 2))
    assert three.newest().step == 20  # what stood aside is in nobody's way


def test_a_damaged_checkpoint_that_is_not_the_newest_hinders_nobody(three, caplog):
    spoil(three.path(20))
    assert three.newest().step == 30
    assert three.steps() == [10, 20, 30]
    assert caplog.messages == []


def test_where_all_are_damaged_a_run_does_not_begin_anew(three):
    for step in three.steps():
        spoil(three.path(step))
    for _ in range(2):  # nor does it the second time
        with pytest.raises(UserError, match="damaged: .*30.npz, .*20.npz, .*10.npz. .*--restart"):
            three.newest()
    assert three.steps() == [10, 20, 30]


def test_a_folder_without_checkpoints_has_no_newest(tmp_path):
    assert CheckpointFolder(tmp_path / "none", 3, 3).newest() is None


def test_a_mean_with_a_damaged_part_is_refused_and_the_part_named(three):
    spoil(three.path(20))
    with pytest.raises(UserError, match="step-00000020.npz is damaged"):
        three.average(three.last(3, checkpoint(30, [1.0] * 3).history))


def test_what_a_killed_process_left_is_removed_before_room_is_needed(three, monkeypatch):
    left = three.folder / "step-00000007.npz.0123456789abcdef.partial"
    left.write_bytes(b"half of it")

    def write(path, content):
        assert not left.exists()
        write_atomically(path, content)

    monkeypatch.setattr("dtmt_tf.training.checkpoint.write_atomically", write)
    three.save(checkpoint(40, [1.0] * 4))
    assert [path.suffix for path in three.folder.iterdir()] == [".npz"] * 3


def test_a_full_disk_stops_a_save_and_leaves_the_older_ones(three):
    before = {path: path.stat() for path in three.folder.iterdir()}
    size = 2 * max(stat.st_size for stat in before.values())
    large = dataclasses.replace(checkpoint(40), optimizer=[np.zeros(size, "uint8")])
    with file_size_limit(size), pytest.raises(UserError) as error:
        three.save(large)
    for text in (f"{three.path(40)} could not be written", "File too large", "Make room"):
        assert text in str(error.value)
    assert {path: path.stat() for path in three.folder.iterdir()} == before
    three.save(large)
    assert three.newest().step == 40


@pytest.fixture
def failing(three, monkeypatch):
    """Makes opening the newest checkpoint fail with an error of the system, so often."""
    path_open, monkey = Path.open, {"left": 0, "waits": []}

    def open_(self, *arguments, **options):
        if self == three.path(30) and monkey["left"]:
            monkey["left"] -= 1
            raise OSError(monkey["number"], os.strerror(monkey["number"]), str(self))
        return path_open(self, *arguments, **options)

    monkeypatch.setattr(Path, "open", open_)
    monkeypatch.setattr("dtmt_tf.training.checkpoint.time.sleep", monkey["waits"].append)

    def fail(number, times):
        monkey.update(number=number, left=times)
        return monkey["waits"]

    return fail


@pytest.mark.parametrize("number", [errno.ESTALE, errno.EIO, errno.EAGAIN])
def test_a_passing_error_of_the_system_is_waited_for(three, failing, number):
    waits = failing(number, 3)
    assert three.newest().step == 30
    assert waits == list(WAITS)


@pytest.mark.parametrize(
    ("number", "times"), [(errno.ESTALE, 9), (errno.EACCES, 1), (errno.EMFILE, 1)]
)
def test_what_the_system_can_not_read_is_no_damage(three, failing, number, times):
    failing(number, times)
    with pytest.raises(UserError) as error:
        three.newest()
    for text in (f"{three.path(30)} could not be read", os.strerror(number), "same command"):
        assert text in str(error.value)
    assert "--restart" not in str(error.value) and "damaged" not in str(error.value)
    assert three.steps() == [10, 20, 30]


def test_a_checkpoint_that_goes_while_it_is_wanted_is_looked_for_again(three):
    wanted = [10, 20]

    def read():
        return three.load(wanted.pop(0)).step

    three.path(10).unlink()
    assert checkpoint_module.read_again(read) == 20
    calls = []
    with pytest.raises(UserError, match="could not be read: No such file"):
        checkpoint_module.read_again(lambda: calls.append(three.load(10)))
    assert not calls


def test_checkpoints_of_other_subwords_are_refused_and_stay(three):
    tied = {"conditions": {"vocabulary": "a"}}
    three.save(dataclasses.replace(checkpoint(40, [1.0] * 4), settings=tied))
    three.vocabulary = "a"
    assert three.newest().step == 40
    three.vocabulary = "b"
    for read in (
        three.newest,
        lambda: three.load(40, arrays=False),
        lambda: three.average([30, 40]),
    ):
        with pytest.raises(UserError, match="00040.npz was trained with other sub-words"):
            read()
    assert three.steps() == [20, 30, 40]
    assert three.load(30).step == 30  # of an earlier version, which does not say


def test_fields_of_a_later_version_are_told(three, monkeypatch):
    content, meta = checkpoint_module._content(three.path(30), ("model/", "optimizer/"))
    monkeypatch.setattr(
        checkpoint_module, "_content", lambda *_: (content, meta | {"mood": "fine"})
    )
    with pytest.raises(UserError, match="is of another version of dtmt_tf .*mood"):
        three.newest()
    assert three.steps() == [10, 20, 30]


@pytest.mark.parametrize(
    "name", ["step-00000001 (copy).npz", "step-x.npz", "step-².npz", "step-00000050.npz.bak"]
)
def test_files_of_other_names_are_no_checkpoints(three, name):
    (three.folder / name).write_bytes(b"")
    assert three.steps() == [10, 20, 30]
    three.save(checkpoint(40, [1.0] * 4))
    assert (three.folder / name).exists()
