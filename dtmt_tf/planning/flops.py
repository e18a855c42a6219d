"""The arithmetic of a recurrent model: products with weights, counted from its layers' shapes.

A product of r rows with a matrix `[I, O]` takes 2 r I O operations (a multiplication and an
addition), and its gradient twice as many: one product for the rows, one for the matrix. What the
rows are:

    encoder kernels, recurrent kernels      source words, for each direction
    attention's key kernel                  source words
    initial state                           sentences
    all other kernels, and the softmax      target words

The attention's two sums over source words, scores and contexts, take 2 (H + A) operations for each
pair of a target and a source word of a sentence; H is the width of keys, A of annotations.

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
    source: int  # words
    target: int
    pairs: int  # of a source and a target word of the same sentence


def work(batches: Iterable[tuple[np.ndarray, np.ndarray]]) -> Work:
    """Counts batches of padded ids, `[B, S]` and `[B, T]`."""
    total = np.zeros(4, np.int64)
    for source_ids, target_ids in batches:
        source, target = (np.count_nonzero(ids, axis=1) for ids in (source_ids, target_ids))
        total += [len(source), source.sum(), target.sum(), source @ target]
    return Work(*total.tolist())


def forward(model: TranslationModel, of: Work) -> int | None:
    """Returns the operations of the forward pass, or None where the model counts none."""
    if (each := model.multiplications()) is None:
        return None
    return 2 * (
        of.sentences * each.sentence
        + of.source * each.source
        + of.target * each.target
        + of.pairs * each.pair
    )


def training(model: TranslationModel, of: Work) -> int | None:
    """Returns the operations of forward pass and gradient."""
    operations = forward(model, of)
    return None if operations is None else 3 * operations
