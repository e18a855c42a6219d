"""Buckets, and the order of batches as a pure function of seed, epoch and step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dtmt_tf.config import DataConfig


class Batch(NamedTuple):
    """What one update reads: ids with <eos>, padded with 0 at the end, int32."""

    source_ids: np.ndarray  # [B, S]
    target_ids: np.ndarray  # [B, T]


def bucket_bounds(max_length: int) -> list[int]:
    """Upper bounds of the length buckets: 8 10 12 14 16 20 24 28 32 40 .. max_length.

    Bounds grow by `2^max(0, floor(log2 x) - 2)` as in the authors' released code; the last bucket
    reaches up to `max_length`.
    """
    bounds, bound = [], 8
    while bound < max_length:
        bounds.append(bound)
        bound += 2 ** max(0, bound.bit_length() - 3)
    return [*bounds, max_length]


class BatchPlan:
    """Assigns pairs to batches.

    A batch takes its pairs from one bucket: as many as `DataConfig.batch_size` says of its bound,
    for each of an update's micro-batches. Every epoch draws a new permutation of the whole corpus.
    Each bucket cuts its pairs, in that order, into batches, the last of which may be smaller; the
    batches are then shuffled. The number of batches is the same in every epoch, so
    that a step alone says which epoch and which batch it is.

    Args:
        data: Longest pair, and how much one micro-batch holds.
        lengths: Longer side of each pair, with <eos>, `[N]`. None may exceed `data.max_length`.
        micro_batches: Replicas times accumulation steps.
        seed: Seed of the order.
    """

    def __init__(
        self, data: DataConfig, lengths: np.ndarray, micro_batches: int, seed: int
    ) -> None:
        self.bounds = bucket_bounds(data.max_length)
        self.buckets = np.searchsorted(self.bounds, lengths).astype(np.int8)
        self.sizes = [data.batch_size(bound) * micro_batches for bound in self.bounds]
        self._counts = np.bincount(self.buckets, minlength=len(self.bounds)).tolist()
        self.batches_per_epoch = sum(
            -(-count // size) for count, size in zip(self._counts, self.sizes, strict=True)
        )
        self.seed = seed
        self._epoch: tuple[int, list[np.ndarray]] = (-1, [])

    def largest(self) -> list[tuple[int, int]]:
        """Returns pairs and bound of the batches that take most memory, one or two.

        They have the most positions, whose logits are kept, and the most pairs of positions, on
        which attention works.
        """
        batches = list(zip(map(min, self._counts, self.sizes), self.bounds, strict=True))
        of_logits = max(batches, key=lambda batch: (batch[0] * batch[1], batch[1]))
        of_attention = max(batches, key=lambda batch: batch[0] * batch[1] ** 2)
        return list(dict.fromkeys([of_logits, of_attention]))

    def epoch(self, epoch: int) -> list[np.ndarray]:
        """Returns the batches of one epoch, arrays of pair numbers."""
        random = np.random.default_rng([self.seed, epoch])
        order = np.arange(len(self.buckets), dtype=np.int32)  # half of what `permutation` takes
        random.shuffle(order)
        buckets = self.buckets[order]
        batches = []
        for bucket, size in enumerate(self.sizes):
            members = order[buckets == bucket]
            batches += [members[k : k + size] for k in range(0, len(members), size)]
        random.shuffle(batches)  # type: ignore[arg-type]
        return batches

    def batch(self, step: int) -> np.ndarray:
        """Returns the pair numbers of the batch at a step, counted from 0 over all epochs."""
        epoch, position = divmod(step, self.batches_per_epoch)
        kept = self._epoch  # a cache, not state: the same step always gives the same batch
        if kept[0] != epoch:
            self._epoch = kept = epoch, self.epoch(epoch)
        return kept[1][position]
