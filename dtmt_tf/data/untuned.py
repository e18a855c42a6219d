"""Data sets of `tf.data` without its tuner."""

import tensorflow as tf


def untuned(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Returns the same data set, run without the thread that tunes its buffers.

    The thread doubles its sleep each time, up to 60 s. Sometimes the end of an iterator does not
    wake it, and deleting the iterator waits until it wakes (seen with TensorFlow 2.21). Buffers and
    parallel calls must be given as numbers.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)
