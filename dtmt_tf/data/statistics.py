"""Figures about a tokenised corpus."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from dtmt_tf.config import UNK_ID


def describe(name: str, side: str, ids: tf.RaggedTensor, vocab_size: int) -> str:
    """Returns one line of figures on one side of a split.

    Args:
        name: The split.
        side: The language.
        ids: Sub-words with <eos>, `[N, (T)]`.
        vocab_size: Size of the vocabulary.
    """
    lengths = ids.row_lengths().numpy()
    flat = ids.flat_values.numpy()
    used = len(np.unique(flat))
    mean, median, largest = lengths.mean(), np.percentile(lengths, 50), lengths.max()
    unknown = 100.0 * float((flat == UNK_ID).mean())
    return (
        f"{name:<12} {side:<4} {len(lengths):>10,} {flat.size:>13,} {mean:>6.1f} {median:>6.0f} "
        f"{largest:>6} {unknown:>7.3f}% {used:>7,}/{vocab_size:,}"
    )


HEADER = (
    f"{'part':<12} {'side':<4} {'pairs':>10} {'sub-words':>13} {'mean':>6} {'median':>6} "
    f"{'max':>6} {'unknown':>8} {'used':>8}"
)
