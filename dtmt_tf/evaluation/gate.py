"""The representations of several encoders joined by a learned gate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

EPOCHS, PATIENCE, BATCH = 40, 3, 64
LEARNING_RATE = 5e-3


class Gate(keras.Model):
    """A gated sum, and a linear classifier above it that teaches the gate.

        g = softmax(W [r_1 ; ..; r_N]) over the encoders, for each unit,   r = sum_i g_i * P_i r_i

    P_i is a matrix where r_i is wider than the narrowest, which gives the width; else nothing is
    there. With two encoders g is a sigmoid and its complement, as in `layers.GatedSumFusion`. Gate
    and classifier start at zero, so r starts as the mean of what is joined, and stays it where
    nothing helps on validation sentences; random first weights would remember training sentences.
    Hao et al. (2019), Section 5.4, join the representations of two encoders "via a gate", and do
    not say how it is learnt or how widths are made equal.

    Args:
        widths: Width of each representation.
        labels: Number of labels.
        seed: Fixes the first weights of P.
    """

    def __init__(self, widths: Sequence[int], labels: int, seed: int) -> None:
        super().__init__(name="gate")
        self.units = min(widths)

        def zero(units: int) -> keras.layers.Dense:
            return keras.layers.Dense(units, kernel_initializer="zeros")

        def matrix(number: int) -> keras.layers.Dense:
            start = keras.initializers.GlorotUniform(seed=seed + number)
            return keras.layers.Dense(self.units, use_bias=False, kernel_initializer=start)

        self.scores = zero(len(widths) * self.units)
        self.maps = [matrix(k) if width > self.units else None for k, width in enumerate(widths)]
        self.classifier = zero(labels)

    def join(self, representations: Sequence[Any]) -> Any:
        """Returns r, `[B, H]`, of representations `[B, H_i]`."""
        scores = self.scores(ops.concatenate(representations, axis=-1))
        gates = ops.softmax(ops.reshape(scores, (-1, len(self.maps), self.units)), axis=1)
        mapped = [
            each if matrix is None else matrix(each)
            for each, matrix in zip(representations, self.maps, strict=True)
        ]
        return ops.sum(gates * ops.stack(mapped, axis=1), axis=1)

    def call(self, representations: Sequence[Any]) -> Any:
        """Returns the logits of the labels."""
        return self.classifier(self.join(representations))


def learn_gate(
    train: Sequence[np.ndarray],
    labels: np.ndarray,
    validation: Sequence[np.ndarray],
    validation_labels: np.ndarray,
    number: int,
    seed: int,
) -> Gate:
    """Returns a gate that has learnt to tell labels.

    It learns as long as the validation sentences' cross entropy falls.

    Args:
        train: Representations by each encoder, float32 `[N, H_i]`.
        labels: Their labels, integers from 0, `[N]`.
        validation: Those of other sentences.
        validation_labels: Their labels.
        number: How many labels there are.
        seed: Fixes first weights and order.
    """
    gate = Gate([each.shape[1] for each in train], number, seed)
    optimizer = keras.optimizers.Adam(LEARNING_RATE)

    def entropy(inputs: Sequence[Any], truth: Any) -> Any:
        losses = keras.losses.sparse_categorical_crossentropy(truth, gate(inputs), from_logits=True)
        return ops.mean(losses)

    @tf.function(reduce_retracing=True)
    def update(inputs: Sequence[Any], truth: Any) -> None:
        with tf.GradientTape() as tape:
            loss = entropy(inputs, truth)
        weights = gate.trainable_variables
        optimizer.apply(tape.gradient(loss, weights), weights)

    best = entropy(validation, validation_labels)  # makes the weights, too
    optimizer.build(gate.trainable_variables)
    random, weights, waited = np.random.default_rng(seed), gate.get_weights(), 0
    for _ in range(EPOCHS):
        order = random.permutation(len(labels))
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            update([tf.constant(each[rows]) for each in train], tf.constant(labels[rows]))
        found = entropy(validation, validation_labels)
        if found < best:
            best, weights, waited = found, gate.get_weights(), 0
        elif (waited := waited + 1) > PATIENCE:
            break
    gate.set_weights(weights)
    return gate
