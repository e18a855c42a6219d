"""Data sets of `tf.data` without its tuner."""

import tensorflow as tf


def untuned(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Returns the same data set, run without the thread that tunes its buffers.

    That thread sleeps twice as long each time, 60 s in the end, and now and then the end of an
    iterator is not enough to wake it: whoever lets go of the iterator waits as long (seen with
    TensorFlow 2.21). Buffers and parallel calls must be given as numbers.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)
