"""Label-smoothed cross entropy, summed over words."""

from __future__ import annotations

import math

import tensorflow as tf


def smoothing_constant(vocab_size: int, smoothing: float) -> float:
    """The smoothed cross entropy of a perfect model, subtracted so that its loss is 0.

    `-((1 - eps) ln(1 - eps) + (V - 1) q ln(q + 1e-20))` with `q = eps / (V - 1)`.
    """
    if not smoothing:
        return 0.0
    q = smoothing / (vocab_size - 1)
    return -((1 - smoothing) * math.log(1 - smoothing) + (vocab_size - 1) * q * math.log(q + 1e-20))


def smoothed_cross_entropy(
    logits: tf.Tensor, target_ids: tf.Tensor, smoothing: float
) -> tuple[tf.Tensor, tf.Tensor]:
    """Loss of each word: `1 - eps` of the mass on the right word, `eps / (V - 1)` on each other.

    (Meng and Zhang, 2019, *Label Smoothing*; the split by the authors' released code.)

    Args:
        logits: Scores of words that are real, `[N, V]`.
        target_ids: The right words, `[N]`.
        smoothing: eps, in [0, 1).

    Returns:
        The smoothed loss minus `smoothing_constant`, and the plain one, each `[N]`, in nats.
    """
    vocab_size = logits.shape[-1]
    plain = tf.nn.sparse_softmax_cross_entropy_with_logits(target_ids, logits)
    if not smoothing:
        return plain, plain
    q = smoothing / (vocab_size - 1)
    right = tf.gather(logits, target_ids, batch_dims=1)
    # -sum_w log p_w over all words, from  -log p_w = (plain + right) - logit_w
    every = vocab_size * (plain + right) - tf.reduce_sum(logits, axis=-1)
    smoothed = (1 - smoothing - q) * plain + q * every
    return smoothed - smoothing_constant(vocab_size, smoothing), plain
