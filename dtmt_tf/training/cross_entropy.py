"""Cross entropy of given translations."""

from __future__ import annotations

from collections.abc import Sequence

import keras
import tensorflow as tf

from dtmt_tf.config import PAD_ID
from dtmt_tf.models import TranslationModel
from dtmt_tf.training.loss import smoothed_cross_entropy

Pair = tuple[Sequence[int], Sequence[int]]


class CrossEntropy:
    """Mean cross entropy of a set of pairs under teacher forcing, without dropout or smoothing.

    Args:
        model: The model.
        pairs: Source and target ids of each pair, with <eos>.
        max_tokens: Padded positions of a batch at most, unless one pair is longer.
    """

    def __init__(self, model: TranslationModel, pairs: Sequence[Pair], max_tokens: int) -> None:
        self.batches: list[tuple[tf.Tensor, tf.Tensor]] = []
        group: list[Pair] = []
        for pair in sorted(pairs, key=lambda pair: max(map(len, pair))):
            if (len(group) + 1) * max(map(len, pair)) > max_tokens and group:
                self.batches.append(_padded(group))
                group = []
            group.append(pair)
        self.batches.append(_padded(group))
        ids = tf.TensorSpec([None, None], tf.int32)

        @tf.function(input_signature=[ids, ids])
        def sums(source_ids: tf.Tensor, target_ids: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            real = tf.not_equal(target_ids, PAD_ID)
            features = tf.boolean_mask(model.features(source_ids, target_ids), real)
            _, plain = smoothed_cross_entropy(
                model.readout(features), tf.boolean_mask(target_ids, real), smoothing=0.0
            )
            return tf.reduce_sum(plain), tf.size(plain)

        self._sums = sums

    def __call__(self) -> float:
        """Returns nats per target token with the present weights; the exponential is perplexity."""
        found = [self._sums(*batch) for batch in self.batches]
        return sum(float(total) for total, _ in found) / sum(int(count) for _, count in found)


def _padded(pairs: Sequence[Pair]) -> tuple[tf.Tensor, tf.Tensor]:
    source, target = (
        tf.constant(keras.utils.pad_sequences(side, padding="post", value=PAD_ID))
        for side in zip(*pairs, strict=True)
    )
    return source, target
