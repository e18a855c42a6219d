"""Embedding, positional signal, initial state and multi-head additive attention, in float64.

Row vectors: `y = x @ W`. Shape letters: B batch, S source length, E embedding, d state width,
H heads, C context width.
"""

import math

import numpy as np


def softmax(v):
    """Softmax over the last axis."""
    exponentials = np.exp(v - v.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def positional_signal(length, dim, offset=0):
    """Sines then cosines of the positions `offset ... offset + length - 1`, times dim ** -0.5.

    The frequencies are `exp(-i ln(10000) / (dim // 2 - 1))`; an odd `dim` ends in one zero column.
    For `dim` 2 and 3 that quotient is 0 / 0 and the only frequency is taken as 1 (a choice of this
    file).

    Returns:
        [length, dim].
    """
    half = dim // 2
    signal = np.zeros((length, dim))
    for row in range(length):
        for i in range(half):
            angle = (offset + row) * math.exp(-i * math.log(10000.0) / max(half - 1, 1))
            signal[row, i] = math.sin(angle)
            signal[row, half + i] = math.cos(angle)
    return signal * dim**-0.5


def embed(ids, table, bias, use_position=True, offset=0):
    """Table rows plus the shared bias vector plus the positional signal; no scaling, no dropout.

    Args:
        ids: Integers, [B, L].
        table: [V, E].
        bias: [E], or None for none.
        use_position: Whether the positional signal is added.
        offset: Position of the first column.

    Returns:
        [B, L, E]. Padding ids are embedded like any other.
    """
    ids = np.asarray(ids)
    vectors = np.asarray(table)[ids]
    if bias is not None:
        vectors = vectors + bias
    if use_position:
        vectors = vectors + positional_signal(ids.shape[1], vectors.shape[-1], offset)
    return vectors


def initial_state(annotations, mask, kernel, bias):
    """`tanh(mean @ kernel + bias)`, the mean taken over the real source positions.

    Args:
        annotations: [B, S, 2d].
        mask: Bool, [B, S]; True where the token is real.
        kernel: [2d, d].
        bias: [d].

    Returns:
        [B, d].
    """
    means = [rows[real].mean(axis=0) for rows, real in zip(annotations, mask, strict=True)]
    return np.tanh(np.stack(means) @ kernel + bias)


def attention(query, annotations, mask, w, heads):
    """Additive attention with one score vector for all heads and values that are not projected.

    Args:
        query: [B, d].
        annotations: [B, S, 2d], forward half then backward half.
        mask: Bool, [B, S]; True where the token is real.
        w: Dict of `key_kernel` [2d, d], `query_kernel` [d, d], `score` [d/H],
            `output_kernel` [2d, C] and `output_bias` [C].
        heads: H, a divisor of d.

    Returns:
        `(context [B, C], weights [B, H, S])`.
    """
    batch, length, width = annotations.shape
    keys = annotations @ w["key_kernel"]
    queries = query @ w["query_kernel"]
    key_size = keys.shape[-1] // heads
    value_size = width // heads
    weights = np.zeros((batch, heads, length))
    values = np.zeros((batch, width))
    for b in range(batch):
        for k in range(heads):
            key_slice = slice(k * key_size, (k + 1) * key_size)
            value_slice = slice(k * value_size, (k + 1) * value_size)
            energies = np.tanh(queries[b, key_slice] + keys[b, :, key_slice]) @ w["score"]
            weights[b, k] = softmax(energies + np.where(mask[b], 0.0, -1e9))
            values[b, value_slice] = weights[b, k] @ annotations[b, :, value_slice]
    return values @ w["output_kernel"] + w["output_bias"], weights
