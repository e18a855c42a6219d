"""The arithmetic of a model: products with weights, counted from its layers' shapes.

A product of r rows with a matrix `[I, O]` takes 2 r I O operations (a multiplication and an
addition), and its gradient twice as many: one product for the rows, one for the matrix. What the
rows are in a recurrent model:

    encoder kernels, recurrent kernels      source tokens, for each direction
    attention's key kernel                  source tokens
    initial state                           sentences
    all other kernels, and the softmax      target tokens

The attention's two sums over source tokens, scores and contexts, take 2 (H + A) operations for each
pair of a target and a source token of a sentence; H is the width of keys, A of annotations. The
Transformer's attentions take 4 d for each pair of tokens, those that a causal mask leaves out
included, and 8 d with relative positions.

Words are real ones with <eos>. Padding, element-wise functions, the optimiser, and whatever is
computed twice do not count: a faster way to the same result has the same number.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from dtmt_tf.models import TranslationModel


class Work(NamedTuple):
    """What batches hold, padding left out."""

    sentences: int
    source: int  # tokens
    target: int
    pairs: int  # of a source and a target token of the same sentence
    source_pairs: int  # of source tokens of the same sentence, each with itself too
    target_pairs: int  # of target tokens, likewise


def work(batches: Iterable[tuple[np.ndarray, np.ndarray]]) -> Work:
    """Counts batches of padded ids, `[B, S]` and `[B, T]`."""
    total = np.zeros(len(Work._fields), np.int64)
    for source_ids, target_ids in batches:
        source, target = (np.count_nonzero(ids, axis=1) for ids in (source_ids, target_ids))
        pairs = source @ target, source @ source, target @ target
        total += [len(source), source.sum(), target.sum(), *pairs]
    return Work(*total.tolist())


def forward(model: TranslationModel, of: Work) -> int:
    """Returns the operations of the forward pass."""
    return 2 * sum(count * cost for count, cost in zip(of, model.multiplications(), strict=True))


def training(model: TranslationModel, of: Work) -> int:
    """Returns the operations of forward pass and gradient."""
    return 3 * forward(model, of)
