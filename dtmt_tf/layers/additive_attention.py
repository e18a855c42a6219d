"""Additive attention with one head and layer norms."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from dtmt_tf.cells import matmul, product
from dtmt_tf.cells.nematus_gru import NEMATUS_EPSILON
from dtmt_tf.layers.attention import MASKED_SCORE, query_and_keys


class AdditiveAttention(keras.layers.Layer):
    """Attention of Bahdanau et al. (2015) as Nematus normalises it; the context is not projected.

        e_j = v . tanh(LN(q W_q) + LN(a_j W_k + b)) + c,   w = softmax(e),   context = sum_j w_j a_j

    (Miceli Barone et al., 2017.) Queries and keys are as wide as the annotations. `c` moves all
    scores alike and has no effect; it is there because the authors count it. Without norms and
    biases it is that of Wang et al. (2017), Eqs. (10) and (11), and Hao et al. (2019), Eq. (13).

    Args:
        units: Width of the annotations, and of queries and keys, A.
        use_layer_norm: Whether there are norms.
        use_bias: Whether there are `b` and `c`.
        initializer: Initialiser of the matrices; biases start at 0.

    Call arguments:
        query: Query states, `[B * Q, H]`: Q of each sentence.
        memory: What `precompute` returned.

    Returns:
        `(context, weights)`: `[B * Q, A]` and `[B, 1, Q, S]`.
    """

    def __init__(
        self,
        units: int,
        *,
        use_layer_norm: bool,
        use_bias: bool = True,
        initializer: Any,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.units = units
        self.use_bias = use_bias
        self.initializer = initializer
        self.key_norm, self.query_norm = (
            keras.layers.LayerNormalization(epsilon=NEMATUS_EPSILON, name=f"{side}_norm")
            if use_layer_norm
            else None
            for side in ("key", "query")
        )

    def build(self, query_shape: Any) -> None:
        """Creates key `[A, A]`, query `[H, A]`, score `[A, 1]` weights, and biases and norms."""

        def weight(name: str, *shape: int, initializer: Any = None) -> Any:
            return self.add_weight(
                name=name, shape=shape, initializer=initializer or self.initializer
            )

        self.key_kernel = weight("key_kernel", self.units, self.units)
        self.query_kernel = weight("query_kernel", query_shape[-1], self.units)
        self.score = weight("score", self.units, 1)
        self.key_bias, self.score_bias = 0.0, 0.0
        if self.use_bias:
            self.key_bias = weight("key_bias", self.units, initializer="zeros")
            self.score_bias = weight("score_bias", 1, initializer="zeros")
        for norm in (self.key_norm, self.query_norm):
            if norm is not None:
                norm.build((None, self.units))

    def precompute(self, annotations: Any, mask: Any) -> list[Any]:
        """Returns the memory of sentences: what of the attention does not depend on the query.

        Args:
            annotations: `[B, S, A]`.
            mask: Bool `[B, S]`.

        Returns:
            The annotations, keys `[B, S, A]`, and the bias `[B, S]` that takes padding out of the
            softmax.
        """
        keys = product(annotations, self.key_kernel) + self.key_bias
        if self.key_norm is not None:
            keys = self.key_norm(keys)
        return [annotations, keys, ops.where(mask, 0.0, MASKED_SCORE)]

    def call(self, query: Any, memory: list[Any]) -> tuple[Any, Any]:
        """Scores, normalises over the source, averages the annotations."""
        annotations, keys, bias = memory
        queries = product(query, self.query_kernel)
        if self.query_norm is not None:
            queries = self.query_norm(queries)
        mixed = ops.tanh(query_and_keys(queries, keys))
        scores = ops.squeeze(matmul(mixed, self.score), -1)  # [B, Q, S]
        weights = ops.softmax(scores + self.score_bias + ops.expand_dims(bias, 1), axis=-1)
        context = ops.reshape(ops.matmul(weights, annotations), (-1, self.units))
        return context, ops.expand_dims(weights, 1)
