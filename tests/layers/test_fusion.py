"""How a decoder's layer reads a second encoder, by itself; models test what they compute."""

import numpy as np
import pytest

from dtmt_tf.layers import FUSIONS, SeedStream
from tests.cells.twin import relative_error


@pytest.mark.parametrize("name", FUSIONS)
def test_dropout_reaches_the_fusion(rng, name):
    options = {"norm": {"pre_norm": False, "dropout_rate": 0.4}, "initializer": "glorot_uniform"}
    fusion = FUSIONS[name](6, 4, 2, **options)
    fusion.build((None, None, 6))
    c, d = (rng.normal(size=(1, 3, 6)).astype("float32") for _ in range(2))
    memory = fusion.precompute(rng.normal(size=(1, 5, 4)).astype("float32"), np.ones((1, 5), bool))
    still = fusion(c, d, memory)
    seeds = (SeedStream(base) for base in ((1, 2), (1, 2), (1, 3)))
    first, same, other = (fusion(c, d, memory, training=True, seeds=each) for each in seeds)
    np.testing.assert_array_equal(first, same)
    assert relative_error(other, first) > 0.01 and relative_error(first, still) > 0.01
