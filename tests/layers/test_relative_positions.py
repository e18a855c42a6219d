"""What relative positions cost; that they are right is told by the Transformer's twin."""

import math

import tensorflow as tf

from dtmt_tf.layers import MultiHeadDotAttention


def test_no_gradient_of_them_is_made_for_each_sentence():
    sentences, words, units = 5, 7, 8
    layer = MultiHeadDotAttention(2, units, initializer="glorot_uniform", relative_distance=3)
    layer.build((None, None, units))

    @tf.function
    def gradients(inputs):
        with tf.GradientTape() as tape:
            context, _ = layer(inputs, layer.precompute(inputs))
            loss = tf.reduce_sum(context**2)
        return tape.gradient(loss, layer.trainable_variables)

    traced = gradients.get_concrete_function(tf.TensorSpec([sentences, words, units]))
    shapes = [
        each.shape for operation in traced.graph.get_operations() for each in operation.outputs
    ]
    sizes = [math.prod(shape) for shape in shapes if shape.is_fully_defined()]
    assert 2 * words**2 * units // 2 in sizes  # the vectors, of all sentences
    assert max(sizes) < sentences * words**2 * units
