"""The arithmetic that DTMT needs: products with weights, counted from the shapes of its layers.

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

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from dtmt_tf.models import DTMT


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


def forward(model: DTMT, of: Work) -> int:
    """Returns the operations of the forward pass under teacher forcing."""
    cell = model.cell
    everywhere = _elements([model.encoder, model.initial_state, cell, model.readout.hidden])
    encoder = _elements([model.encoder])
    key, initial = math.prod(cell.attention.key_kernel.shape), _elements([model.initial_state])
    softmax = model.readout.hidden.units * model.readout.logits.units  # whether tied or not
    products = (
        of.source * (encoder + key)
        + of.sentences * initial
        + of.target * (everywhere - encoder - key - initial + softmax)
        + of.pairs * (cell.attention.units + model.annotations_dim)
    )
    return 2 * products


def training(model: DTMT, of: Work) -> int:
    """Returns the operations of forward pass and gradient."""
    return 3 * forward(model, of)


def _elements(layers: list[Any]) -> int:
    """Returns the number of elements of all kernels of some layers."""
    weights = {id(w): w for layer in layers for w in layer.trainable_variables}
    return sum(math.prod(w.shape) for w in weights.values() if w.name.endswith("kernel"))
