"""How fast this machine multiplies matrices."""

from __future__ import annotations

import time
from argparse import Namespace
from typing import Any

from dtmt_tf.commands import common

SQUARE = (2048, 2048, 2048)
LENGTH = 16  # sub-words of a sentence of Multi30k, about
SECONDS = 0.5  # of each shape in a window
AT_ONCE = 16  # products before one is waited for


def own_shape(options: Namespace) -> tuple[int, int, int]:
    """Returns rows, width and columns of a model's typical product; see `Products`."""
    from dtmt_tf.models import TransformerConfig

    experiment, _ = common.experiment(options)
    model: Any = experiment.model
    sentences = experiment.data.batch_size(LENGTH)
    if isinstance(model, TransformerConfig):
        return sentences * LENGTH, model.model_dim, model.filter_dim
    return sentences, model.units, 4 * model.units


class Products:
    """Products in float32, one after the other, with the threads TensorFlow chooses.

    A large square shape, and one typical of each measured model: for a recurrent model the first
    cell's recurrent kernel (sentences of a batch x units x 4 units), for a Transformer the filter
    (tokens of a batch x width x filter width).

    Args:
        options: The command's, and in `measured` those of each configuration.
        began: Not used.
    """

    def __init__(self, options: Namespace, began: float) -> None:
        import tensorflow as tf

        self.factors: dict[str, Any] = {}
        for m, k, n in (SQUARE, *map(own_shape, options.measured)):
            self.factors[f"{m}x{k}x{n}"] = tf.random.uniform([m, k]), tf.random.uniform([k, n])

    def window(self) -> dict[str, float]:
        """Returns GFLOP/s by shape."""
        import tensorflow as tf

        rates = {}
        for name, (a, b) in self.factors.items():
            operations = 2 * a.shape[0] * a.shape[1] * b.shape[1]
            count, start = 0, time.perf_counter()
            while (seconds := time.perf_counter() - start) < SECONDS:
                for _ in range(AT_ONCE):
                    product = tf.matmul(a, b)
                product[0, 0].numpy()  # a GPU works on while we go on
                count += AT_ONCE
            rates[name] = count * operations / seconds / 1e9
        return rates
