"""Label-smoothed cross entropy, summed over tokens."""

from __future__ import annotations

import math
from typing import Any

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
    """Loss of each token: `1 - eps` of the mass on the right token, `eps / (V - 1)` on each other.

    (Meng and Zhang, 2019, *Label Smoothing*; the split by the authors' released code.)

    Args:
        logits: Scores of tokens that are real, `[N, V]`.
        target_ids: The right tokens, `[N]`.
        smoothing: eps, in [0, 1).

    Returns:
        The smoothed loss minus `smoothing_constant`, and the plain one, each `[N]`, in nats.
    """
    vocab_size = logits.shape[-1]
    q = smoothing / (vocab_size - 1)
    rest = 1 - smoothing - q  # what the right token has beyond its even share

    @tf.custom_gradient  # one pass over [N, V] each way, nothing kept but log probabilities
    def losses(logits: tf.Tensor) -> Any:
        log_probs = tf.nn.log_softmax(logits)
        plain = -tf.gather(log_probs, target_ids, batch_dims=1)
        smoothed = rest * plain - q * tf.reduce_sum(log_probs, axis=-1)

        def gradient(smoothed_gradient: tf.Tensor, plain_gradient: tf.Tensor) -> tf.Tensor:
            # of the plain loss: p - onehot; of the smoothed one: p - q - rest * onehot
            both = (smoothed_gradient + plain_gradient)[:, None]
            tokens = tf.stack([tf.range(tf.size(target_ids)), target_ids], axis=1)
            dense = tf.exp(log_probs) * both - q * smoothed_gradient[:, None]
            return tf.tensor_scatter_nd_sub(
                dense, tokens, rest * smoothed_gradient + plain_gradient
            )

        return (smoothed, plain), gradient

    smoothed, plain = losses(tf.cast(logits, tf.float32))
    return smoothed - smoothing_constant(vocab_size, smoothing), plain


def r_drop_loss(logits: tf.Tensor, others: tf.Tensor) -> tf.Tensor:
    """R-Drop's loss of two passes over the same tokens with different dropout masks.

    The mean of both Kullback-Leibler divergences (Liang et al., 2021, Eq. (2)).

    Args:
        logits: Scores of one pass, `[N, V]`.
        others: Scores of the other pass.

    Returns:
        `[N]`, in nats.
    """
    p, q = (tf.nn.log_softmax(tf.cast(each, tf.float32)) for each in (logits, others))
    return tf.reduce_sum((tf.exp(p) - tf.exp(q)) * (p - q), axis=-1) / 2
