"""Search that scores few target tokens: likely translations of those of a sentence.

A lexical shortlist (Jean et al., 2015, arXiv:1412.2007, Section 4.2; Junczys-Dowmunt et al., 2018,
"Marian: Cost-effective High-Quality Neural Machine Translation in C++", Section 2.3). The output
layer then multiplies by the rows of these tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from dtmt_tf.config import EOS_ID, PAD_ID
from dtmt_tf.decoding.beam_search import CHUNK_SIZE, MINUS_INFINITY, Step


class Few(NamedTuple):
    """The tokens that a batch of sentences is translated by."""

    tokens: tf.Tensor  # [W] ids, PAD_ID and EOS_ID the first two; PAD_ID again at the end
    forbidden: tf.Tensor  # [B, W] float32: 0, or MINUS_INFINITY for what is not of a sentence
    places: tf.Tensor  # [V] where in `tokens` each token is; 0 for all others

    def first(self, state: tuple[Any, Any]) -> tuple[Any, Any]:
        """Returns the first state of `step`, for that of `decode_step`."""
        hidden, memory = state
        return hidden, (memory, self.forbidden)

    def step(self, decode_step: Callable[[Any, Any], tuple[Any, Any]]) -> Step:
        """Returns a step of `beam_search` over places in `tokens`.

        Args:
            decode_step: `decode_step(ids, state) -> (logits, state)`, logits of `tokens` alone.
        """

        def step(places: tf.Tensor, state: Any) -> tuple[tf.Tensor, Any]:
            hidden, (memory, forbidden) = state
            ids = tf.gather(self.tokens, places)
            logits, (hidden, memory) = decode_step(ids, (hidden, memory))
            log_probs = tf.nn.log_softmax(tf.cast(logits, tf.float32) + forbidden[:, None])
            return log_probs, (hidden, (memory, forbidden))

        return step


class Shortlist:
    """Chooses the target tokens of sentences.

    Args:
        table: Translations of each source token, `[V_s, C]`, ids of target tokens.
        always: Target tokens of every sentence.
        size: Number of target tokens, V.
    """

    def __init__(self, table: np.ndarray, always: np.ndarray, size: int) -> None:
        self.table = table.astype(np.int32)
        self.size = size
        self.always = np.zeros(size, bool)
        self.always[[*always.tolist(), EOS_ID]] = True

    def __call__(
        self, source_ids: tf.Tensor, chunks: int, prefixes: tf.Tensor | None = None
    ) -> Few:
        """Returns the tokens of a batch, and which of them are each sentence's.

        Args:
            source_ids: `[B, S]`, padded with 0.
            chunks: How many of `CHUNK_SIZE` tokens there are at least, see `best_continuations`.
            prefixes: What translations begin with, `[B, P]`, padded with 0, if anything.
        """
        batch = tf.shape(source_ids)[0]
        found = tf.reshape(tf.gather(self.table, source_ids), [batch, -1])
        found = tf.where(tf.repeat(source_ids > PAD_ID, self.table.shape[1], axis=1), found, EOS_ID)
        if prefixes is not None:
            found = tf.concat([found, prefixes], axis=1)
        rows = tf.broadcast_to(tf.range(batch)[:, None], tf.shape(found))
        count = tf.scatter_nd(
            tf.stack([rows, found], axis=2), tf.ones_like(found), [batch, self.size]
        )
        allowed = (count > 0) | self.always
        allowed &= tf.range(self.size) != PAD_ID
        there = tf.where(tf.reduce_any(allowed, axis=0) | (tf.range(self.size) < EOS_ID))
        tokens = tf.cast(there[:, 0], tf.int32)
        places = tf.scatter_nd(there, tf.range(tf.size(tokens)), [self.size])
        size = tf.maximum(-(-tf.size(tokens) // CHUNK_SIZE), chunks) * CHUNK_SIZE
        tokens = tf.pad(tokens, [[0, size - tf.size(tokens)]], constant_values=PAD_ID)
        forbidden = tf.where(tf.gather(allowed, tokens, axis=1), 0.0, MINUS_INFINITY)
        return Few(tokens, forbidden, places)
