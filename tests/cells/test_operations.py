"""Operations that TensorFlow does at once are those of Keras, in fewer nodes."""

import numpy as np
import pytest
import tensorflow as tf

from dtmt_tf.cells import cut, matmul


def graph_of(function, *specs):
    return tf.function(function, autograph=False).get_concrete_function(*specs)


@pytest.mark.parametrize("sizes", [[3, 1, 2], [2, 2, 2], [6]])
def test_parts_are_cut_at_their_sizes_by_one_operation(sizes, rng):
    values = rng.normal(size=(2, 4, 6)).astype(np.float32)
    graph = graph_of(lambda x: cut(x, sizes), tf.TensorSpec([None, 4, 6]))
    parts = graph(tf.constant(values))
    for part, expected in zip(parts, np.split(values, np.cumsum(sizes)[:-1], -1), strict=True):
        assert np.array_equal(part, expected)
    kinds = [each.type for each in graph.graph.get_operations()]
    assert set(kinds) <= {"Placeholder", "Const", "SplitV", "Identity"}
    assert kinds.count("SplitV") == 1


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(
    ("shape", "known"),
    [
        ((5, 3), (None, 3)),
        ((2, 4, 3), (None, 4, 3)),
        ((2, 4, 3), (None, None, 3)),
        ((0, 4, 3), (None, None, 3)),
        ((2, 1, 4, 3), (None, 1, None, 3)),
    ],
)
def test_rows_are_multiplied_without_a_copy_of_the_kernel(shape, known, transposed, rng):
    inputs = rng.normal(size=shape)
    kernel = rng.normal(size=(2, 3) if transposed else (3, 2))
    graph = graph_of(
        lambda x: matmul(x, tf.constant(kernel), transposed), tf.TensorSpec(known, tf.float64)
    )
    assert graph.outputs[0].shape.as_list() == [*known[:-1], 2]
    expected = inputs @ (kernel.T if transposed else kernel)
    np.testing.assert_allclose(graph(tf.constant(inputs)), expected, atol=1e-12)
    kinds = [each.type for each in graph.graph.get_operations()]
    assert kinds.count("MatMul") == 1 and "Transpose" not in kinds


def test_a_kernel_may_be_of_any_width(rng):
    inputs, kernel = rng.normal(size=(2, 4, 3)), rng.normal(size=(3, 5))
    for known in ((None, 4, 3), (2, 4, 3)):
        specs = tf.TensorSpec(known, tf.float64), tf.TensorSpec([3, None], tf.float64)
        graph = graph_of(matmul, *specs)
        found = graph(tf.constant(inputs), tf.constant(kernel))
        np.testing.assert_allclose(found, inputs @ kernel, atol=1e-12)
