"""Multi-head additive attention."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from dtmt_tf.cells import matmul, product

MASKED_SCORE = -1e9


def query_and_keys(queries: Any, keys: Any) -> Any:
    """Returns the sums of each query and each key of its sentence.

    Args:
        queries: `[B * Q, H]`, Q of each sentence.
        keys: `[B, S, H]`.

    Returns:
        Shape `[B, Q, S, H]`.
    """
    queries = ops.reshape(queries, (ops.shape(keys)[0], -1, 1, keys.shape[-1]))
    return queries + ops.expand_dims(keys, 1)


def attend(attention: Any, query: Any, memory: list[Any]) -> tuple[Any, Any]:
    """Attends with queries of K hypotheses, or steps, of each sentence.

    Args:
        attention: A layer that takes queries and a memory.
        query: `[B * K, H]`.
        memory: The attention's, of B sentences.

    Returns:
        Contexts `[B * K, C]` and weights `[B * K, S]`, the mean over heads.
    """
    context, weights = attention(query, memory)  # [B * K, C], [B, N, K, S]
    weights = ops.mean(weights, axis=1)
    return context, ops.reshape(weights, (-1, ops.shape(weights)[-1]))


class MultiHeadAdditiveAttention(keras.layers.Layer):
    """Additive attention with several heads over unprojected annotations.

    For head k and source position j (Meng and Zhang, 2019, Eq. (5) and *DTMT*; details by the
    authors' released code, see ARCHITECTURE.md):

        e_kj = v . tanh(Q_k + K_jk),   a_k = softmax_j(e_k),   head_k = sum_j a_kj A_jk
        context = [head_1 ; .. ; head_N] W_o + b_o

    `Q = q W_q` and `K = A W_k` are cut into N slices; `v` is shared by the heads. The values are
    the annotations themselves, so with two directions the first half of the heads reads forward
    states and the second half backward states.

    Args:
        num_heads: Number of heads, N. Divides `units` and the annotations' width.
        units: Width of keys and queries, H.
        annotations_dim: Width of the annotations, A.
        output_dim: Width of the context, C.
        initializer: Initialiser of every weight.

    Call arguments:
        query: Query states, `[B * Q, H]`: Q of each sentence.
        memory: What `precompute` returned.

    Returns:
        `(context, weights)`: `[B * Q, C]` and `[B, N, Q, S]`.

    Raises:
        ValueError: If `num_heads` does not divide `units`, or the annotations' width.
    """

    def __init__(
        self,
        num_heads: int,
        units: int,
        annotations_dim: int,
        output_dim: int,
        *,
        initializer: Any,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if units % num_heads:
            raise ValueError(
                f"`units` should be divisible by `num_heads`. Received: {units} and {num_heads}."
            )
        if annotations_dim % num_heads:
            raise ValueError(
                f"Annotations' width should be divisible by `num_heads`. "
                f"Received: {annotations_dim} and {num_heads}."
            )
        self.num_heads = num_heads
        self.units = units
        self.annotations_dim = annotations_dim
        self.output_dim = output_dim
        self.initializer = initializer

    def build(self, query_shape: Any) -> None:
        """Creates key `[A, H]`, query `[H, H]`, score `[H/N]` and output `[A, C]` weights."""

        def weight(name: str, *shape: int) -> Any:
            return self.add_weight(name=name, shape=shape, initializer=self.initializer)

        self.key_kernel = weight("key_kernel", self.annotations_dim, self.units)
        self.query_kernel = weight("query_kernel", query_shape[-1], self.units)
        self.score = weight("score", self.units // self.num_heads)
        self.output_kernel = weight("output_kernel", self.annotations_dim, self.output_dim)
        self.output_bias = weight("output_bias", self.output_dim)
        self.heads = ops.eye(self.num_heads, dtype=self.compute_dtype)[:, None]  # [N, 1, N]

    def precompute(self, annotations: Any, mask: Any) -> list[Any]:
        """Returns the memory of sentences: what of the attention does not depend on the query.

        Args:
            annotations: `[B, S, A]`.
            mask: Bool `[B, S]`.

        Returns:
            Each head's slice of the annotations `[B, N, S, A/N]`, keys `[B, S, H]`, and the bias
            `[B, S]` that takes padding out of the softmax.
        """
        batch, length = ops.shape(annotations)[:2]
        width = annotations.shape[-1] // self.num_heads
        values = ops.reshape(annotations, (batch, length, self.num_heads, width))
        bias = ops.where(mask, 0.0, MASKED_SCORE)
        keys = product(annotations, self.key_kernel)
        return [ops.transpose(values, (0, 2, 1, 3)), keys, bias]

    def call(self, query: Any, memory: list[Any]) -> tuple[Any, Any]:
        """Scores, normalises over the source, averages the annotations of each head."""
        values, keys, bias = memory
        mixed = ops.tanh(query_and_keys(product(query, self.query_kernel), keys))
        # v . (slice of each head), as one product with v on the block diagonal  [H, N]
        blocks = ops.reshape(self.score, (1, -1, 1)) * self.heads
        scores = matmul(mixed, ops.reshape(blocks, (self.units, self.num_heads)))
        scores = ops.transpose(scores, (0, 3, 1, 2)) + ops.expand_dims(bias, (1, 2))
        weights = ops.softmax(scores, axis=-1)
        context = ops.transpose(ops.matmul(weights, values), (0, 2, 1, 3))  # [B, Q, N, A/N]
        context = ops.reshape(context, (-1, self.output_kernel.shape[0]))
        return product(context, self.output_kernel) + self.output_bias, weights
