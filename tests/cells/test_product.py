"""Products in bfloat16: rounded factors, gradients added up in float32."""

import numpy as np
import pytest
import tensorflow as tf

from dtmt_tf.cells import LGRUCell, product, products_in


def rounded(array):
    return tf.cast(tf.cast(array, tf.bfloat16), tf.float32).numpy()


def test_bfloat16_rounds_the_factors_inside_the_block_only():
    rng = np.random.default_rng(0)
    x, w = (rng.normal(size=shape).astype("float32") for shape in ((5, 64), (64, 7)))
    exact = np.asarray(product(x, tf.constant(w)))
    np.testing.assert_allclose(exact, x @ w, rtol=1e-5, atol=1e-5)
    with products_in("bfloat16"):
        result = np.asarray(product(x, tf.constant(w)))
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, rounded(rounded(x) @ rounded(w)), rtol=1e-2, atol=1e-2)
    assert np.abs(result - exact).max() > 1e-3
    with products_in("float32"):
        np.testing.assert_array_equal(np.asarray(product(x, tf.constant(w))), exact)
    np.testing.assert_array_equal(np.asarray(product(x, tf.constant(w))), exact)


@pytest.mark.parametrize("rounded_once", [False, True])
def test_gradients_of_many_uses_are_added_in_float32(rounded_once):
    uses = 301  # in bfloat16 the sum of ones would stop at 256
    w = tf.Variable(tf.ones((1, 1)))
    kernels = [w] if rounded_once else []
    with tf.GradientTape() as tape, products_in("bfloat16", kernels, gradients=True):
        loss = tf.add_n([product(tf.ones((1, 1)), w)[0, 0] for _ in range(uses)])
    assert float(tape.gradient(loss, w)[0, 0]) == uses


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("shape", [(5, 3), (2, 5, 3)])
def test_gradients_by_kernels_rounded_once_are_those_of_the_plain_product(shape, transposed):
    rng = np.random.default_rng(3)
    x = tf.Variable(rng.normal(size=shape))
    w = tf.Variable(rng.normal(size=(4, 3) if transposed else (3, 4)))
    wanted = tf.constant(rng.normal(size=(*shape[:-1], 4)))

    @tf.function
    def gradients(kernels):
        with tf.GradientTape() as tape, products_in("bfloat16", kernels, gradients=True):
            first = product(x, w, transposed)
            loss = tf.reduce_sum(tf.tanh(product(x * 2.0, w, transposed) - first) * wanted)
        return loss, *tape.gradient(loss, [x, w])

    for plain, once in zip(gradients([]), gradients([w]), strict=True):
        assert np.abs(plain).max() > 0.1
        np.testing.assert_allclose(once, plain, rtol=0.02, atol=0.02)


def test_a_cell_in_bfloat16_stays_close():
    cell = LGRUCell(16)
    rng = np.random.default_rng(1)
    x, h = rng.normal(size=(4, 8)).astype("float32"), rng.normal(size=(4, 16)).astype("float32")
    exact = np.asarray(cell(x, [h])[0])
    with products_in("bfloat16"):
        close = np.asarray(cell(x, [h])[0])
    assert 0 < np.abs(close - exact).max() < 0.03


@pytest.mark.parametrize("transposed", [False, True])
def test_kernels_that_are_named_are_rounded_once_before_a_loop(transposed):
    rng = np.random.default_rng(2)
    x, w = rng.normal(size=(3, 8)).astype("float32"), rng.normal(size=(8, 8)) / 3
    w = tf.Variable(w.astype("float32"))

    def power(kernels):
        @tf.function
        def run():
            with products_in("bfloat16", kernels):
                start = (tf.constant(0), tf.constant(x))
                return tf.while_loop(
                    lambda k, _: k < 4, lambda k, h: (k + 1, product(h, w, transposed)), start
                )[1]

        functions = run.get_concrete_function().graph.as_graph_def().library.function
        body = next(f for f in functions if "while_body" in f.signature.name)
        return run().numpy(), sum(node.op == "Cast" for node in body.node_def)

    (each, casts), (once, fewer) = power([]), power([w])
    np.testing.assert_array_equal(each, once)
    assert (casts, fewer) == (3, 2)  # the state, the result, and the kernel
    exact = w.numpy().T if transposed else w.numpy()
    np.testing.assert_allclose(once, x @ np.linalg.matrix_power(exact, 4), rtol=0.1, atol=0.01)
