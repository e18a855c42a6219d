"""A model of a few operations, which shows what a server does with its requests."""

from pathlib import Path

import tensorflow as tf

TEXT = tf.TensorSpec([None], tf.string, "text")


class Toy(tf.Module):
    """Signatures that no translator has."""

    @tf.function(input_signature=[TEXT])
    def copy(self, text):
        """Gives the bytes back, and their number, in the types that a server knows."""
        length = tf.strings.length(text)
        return {
            "text_bytes": text,
            "length": length,
            "half": tf.cast(length, tf.float64) / 2,
            "is_long": length > 3,
        }

    @tf.function(input_signature=[TEXT])
    def batch(self, text):
        """Tells each row the size of its batch and the batch's last row."""
        size = tf.size(text)
        return {"size": tf.fill([size], size), "last": tf.fill([size], text[-1])}

    @tf.function(input_signature=[TEXT])
    def count(self, text):
        """Counts to the largest number among the rows, which can take for ever."""
        end = tf.reduce_max(tf.strings.to_number(text, tf.int64))
        (last,) = tf.while_loop(lambda i: i < end, lambda i: (i + 1,), (tf.constant(0, tf.int64),))
        return {"last": tf.fill([tf.size(text)], last)}

    @tf.function(input_signature=[TEXT])
    def total(self, text):
        """Gives one number for the whole batch, which no server can divide."""
        return {"total": tf.size(text)}

    @tf.function(input_signature=[TEXT])
    def grid(self, text):
        """Gives five columns, of no rows too."""
        return {"grid": tf.tile(text[:, None], [1, 5])}

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, "numbers")])
    def sums(self, numbers):
        """Sums up rows of numbers."""
        return {"sum": tf.reduce_sum(numbers, axis=1)}


def save_toy(folder: Path) -> None:
    """Writes version 1 below a folder."""
    toy = Toy()
    signatures = {
        "serving_default": toy.copy,
        "batch": toy.batch,
        "count": toy.count,
        "total": toy.total,
        "grid": toy.grid,
        "sums": toy.sums,
    }
    tf.saved_model.save(toy, str(folder / "1"), signatures=signatures)
