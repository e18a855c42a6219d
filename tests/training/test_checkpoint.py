"""Checkpoints: complete, checked, rotated, averaged."""

import numpy as np
import pytest

from dtmt_tf.errors import UserError
from dtmt_tf.training import Checkpoint, CheckpointFolder


def checkpoint(step, bleus=(), value=0.0):
    history = [{"step": 10 * (k + 1), "bleu": bleu} for k, bleu in enumerate(bleus)]
    weights = {"a/kernel": np.full((2, 3), value, "float32"), "b": np.arange(3, dtype="float32")}
    optimizer = [np.array(step), np.full((2, 3), 0.5, "float32")]
    return Checkpoint(step, weights, optimizer, history, {"model": {"units": 8}}, 2.5, 70)


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


def test_the_newest_and_the_best_are_kept(tmp_path):
    folder = CheckpointFolder(tmp_path, keep_last=2, keep_best=1)
    bleus = [3.0, 9.0, 4.0, 5.0, 6.0]
    for k in range(5):
        folder.save(checkpoint(10 * (k + 1), bleus[: k + 1]))
    history = checkpoint(50, bleus).history
    assert folder.steps() == [20, 40, 50]
    assert folder.last(2, history) == [40, 50]
    assert folder.best(2, history) == [20, 50]


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


@pytest.mark.parametrize("damage", ["truncated", "flipped"])
def test_a_damaged_checkpoint_is_named(tmp_path, damage):
    folder = CheckpointFolder(tmp_path, 3, 3)
    path = folder.save(checkpoint(10))
    content = bytearray(path.read_bytes())
    if damage == "truncated":
        content = content[: len(content) // 2]
    else:
        content[content.index(np.float32(0.5).tobytes()) + 1] ^= 1
    path.write_bytes(content)
    with pytest.raises(UserError, match="step-00000010.npz is damaged"):
        folder.load(10)
