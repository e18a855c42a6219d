"""Seeds are a function of their base and of the draw's rank, and of nothing else."""

import json
import os
import subprocess
import sys

import keras
import numpy as np
import tensorflow as tf

from dtmt_tf.cells import LGRUCell
from dtmt_tf.layers import ByShape, SeedSeries, SeedStream

OTHER_PROCESS = """
import json
from dtmt_tf import startup
startup.start_tensorflow()
import keras
from dtmt_tf.cells import LGRUCell
from dtmt_tf.layers import ByShape, SeedSeries, SeedStream
stream = SeedStream((3, 5))
seeds = [[int(part) for part in stream.next()] for _ in range(4)]
mask = keras.random.dropout(keras.ops.ones((40,)), 0.5, seed=stream)
print(json.dumps([seeds, [float(entry) for entry in mask]]))
"""


def draws(base, count=4):
    stream = SeedStream(base)
    return [tuple(int(part) for part in stream.next()) for _ in range(count)]


def mask(base, rank=1):
    stream = SeedStream(base)
    for _ in range(rank - 1):
        stream.next()
    return np.asarray(keras.random.dropout(keras.ops.ones((400,)), 0.5, seed=stream))


def test_draws_depend_on_base_and_rank_alone():
    assert draws((3, 5)) == draws((3, 5))
    assert draws((3, 5))[:2] == draws((3, 5), 2)
    step = 0x9E3779B1 % 2**31
    assert draws((3, 5))[0] == (3 + step, 5)
    np.testing.assert_array_equal(mask((3, 5)), mask((3, 5)))


def test_other_bases_and_ranks_give_other_draws():
    bases = [(first, second) for first in range(8) for second in range(3)]
    seen = {draw for base in bases for draw in draws(base, 30)}
    assert len(seen) == len(bases) * 30


def test_masks_of_neighbouring_seeds_are_independent():
    masks = [mask(base, rank) for base in ((3, 5), (4, 5), (3, 6)) for rank in (1, 2)]
    for i, first in enumerate(masks):
        for second in masks[i + 1 :]:  # 400 coins: five times the spread of the mean is 0.125
            assert abs(np.mean(first == second) - 0.5) < 0.125


def test_bases_may_be_tensors_in_a_graph():
    @tf.function
    def traced(first, second):
        stream = SeedStream((first, second))
        return stream.next(), stream.next()

    for base in ((3, 5), (4, 5)):
        actual = [tuple(part.numpy()) for part in traced(*map(tf.constant, base))]
        assert actual == draws(base, 2)


def test_another_process_draws_the_same():
    seeds = draws((3, 5))
    stream = SeedStream((3, 5))
    for _ in seeds:
        stream.next()
    expected = keras.random.dropout(keras.ops.ones((40,)), 0.5, seed=stream)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in (os.getcwd(), *sys.path) if path),
        "PYTHONHASHSEED": "17",
        "KERAS_BACKEND": "tensorflow",
    }
    run = subprocess.run(
        [sys.executable, "-c", OTHER_PROCESS],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=1800,
    )
    other_seeds, other_mask = json.loads(run.stdout.splitlines()[-1])
    assert [tuple(seed) for seed in other_seeds] == seeds
    np.testing.assert_array_equal(other_mask, expected)


def test_initialisers_of_a_series_give_every_tensor_numbers_of_its_own():
    def drawn(base, count=3):
        initializer = keras.initializers.RandomUniform(-1, 1, seed=SeedSeries(base))
        return [np.asarray(initializer((4, 4))) for _ in range(count)]

    first, same, other = drawn(5), drawn(5), drawn(6)
    np.testing.assert_array_equal(first, same)
    assert len({float(each[0, 0]) for each in (*first, *other)}) == 6
    plain = keras.random.uniform((4, 4), -1, 1, seed=5 * 10_007 + 2)
    np.testing.assert_array_equal(first[1], plain)


def test_a_cell_with_a_series_survives_its_config():
    initializer = ByShape(keras.initializers.RandomNormal(seed=SeedSeries(3)), square="orthogonal")
    cell = LGRUCell(4, initializer=initializer)
    copy = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(cell))
    for each in (cell, copy):
        each.build((None, 3))
    np.testing.assert_array_equal(copy.kernel, cell.kernel)
    assert np.any(cell.kernel.numpy()) and not np.any(cell.candidate_bias)
