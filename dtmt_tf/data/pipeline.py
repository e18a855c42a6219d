"""From shards of tokenised pairs to padded batches, with `tf.data`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf

from dtmt_tf.data.batch import Batch, BatchPlan
from dtmt_tf.data.shards import Ids, Shards, as_ids
from dtmt_tf.data.untuned import untuned
from dtmt_tf.errors import UserError
from dtmt_tf.text.subword import Sampler

logger = logging.getLogger(__name__)

Take = Callable[[np.ndarray], np.ndarray]
BATCHES_AHEAD = 4  # made ready while updates go on


class TrainingSet:
    """Tokenised pairs in the order of a `BatchPlan`, read as they are needed.

    Memory holds the lengths and numbers of the pairs, not the pairs.

    Args:
        shards: The pairs.
        max_length: Pairs with a longer side (in sub-words, with <eos>) are dropped and counted.
        samplers: Cut up source and target anew each time a pair is read; lengths, buckets and
            `max_length` then still go by the shards.
        seed: Seed of the samplers; with the step it fixes what they return.

    Attributes:
        fingerprint: Hash of the corpus, which a resumed run must find again.
        num_dropped: Pairs of the corpus that are too long or blank.

    Raises:
        UserError: If no pair is left, or samplers find no text in the shards.
    """

    def __init__(
        self,
        shards: Shards,
        max_length: int,
        samplers: tuple[Sampler, Sampler] | None = None,
        seed: int = 0,
    ) -> None:
        if samplers and not shards.with_text:
            raise UserError(
                f"{shards.folder} holds no text, which training.subword_dropout_rate needs. "
                "dtmt prepare with the same settings makes shards that do."
            )
        self.shards = shards
        self.fingerprint = shards.fingerprint
        self.samplers = samplers
        self.seed = seed
        lengths, rows, first = [], [], 0
        for shard in shards.lengths():
            kept = np.flatnonzero(shard.max(axis=1, initial=0) <= max_length)
            lengths.append(shard[kept].astype(np.min_scalar_type(max_length)))
            rows.append((first + kept).astype(np.int32))
            first += len(shard)
        self._rows = np.concatenate(rows)  # the pairs that are kept
        self._lengths = np.concatenate(lengths)  # [N, 2]
        self.num_dropped = shards.num_pairs - len(self._rows)
        if not len(self._rows):
            raise UserError(
                f"No training pair has 1 to {max_length} sub-words on both sides. "
                "Check data.train_source and data.train_target, or raise data.max_length."
            )
        if self.num_dropped:
            logger.info(
                "Dropped %d of %d training pairs: empty, or over %d sub-words.",
                self.num_dropped,
                shards.num_pairs,
                max_length,
            )

    @property
    def lengths(self) -> np.ndarray:
        """The longer side of each pair, `[N]`."""
        return self._lengths.max(axis=1)

    def batches(
        self, plan: BatchPlan, start: int, stop: int, take: Take = lambda rows: rows
    ) -> tf.data.Dataset:
        """Returns the `Batch`es of steps `start` to `stop` - 1.

        Args:
            plan: Says which pairs a batch holds.
            start: The first step.
            stop: The step after the last.
            take: Picks the rows of a batch that this process is given, padded like the whole. No
                others are read; but of pairs that are cut up anew all must be, to know how long
                the whole is.
        """
        batch = self._sampled if self.samplers else self._stored

        def read() -> Iterator[Batch]:
            for step in range(start, stop):
                yield batch(plan.batch(step), step, take)

        ids = tf.TensorSpec([None, None], tf.int32)
        dataset = tf.data.Dataset.from_generator(read, output_signature=Batch(ids, ids))
        return untuned(dataset.prefetch(BATCHES_AHEAD))

    def _stored(self, rows: np.ndarray, step: int, take: Take) -> Batch:
        """Returns pairs with their stored sub-words."""
        widths = self._lengths[rows].max(axis=0)
        return Batch(*map(_padded, self.shards.ids(self._rows[take(rows)]), widths))

    def _sampled(self, rows: np.ndarray, step: int, take: Take) -> Batch:
        """Returns pairs cut by `samplers`, also a pure function of seed and step."""
        seeds = np.random.SeedSequence([self.seed, step]).generate_state(2)
        sides = []
        for texts, sample, seed in zip(
            self.shards.texts(self._rows[rows]), self.samplers or (), seeds, strict=True
        ):
            ids = as_ids(sample(texts, int(seed)))
            sides.append(take(_padded(ids, ids.lengths.max())))
        return Batch(*sides)


def _padded(ids: Ids, width: int) -> np.ndarray:
    """Returns ids as `[B, width]` int32, padded with 0."""
    result = np.zeros((len(ids.lengths), width), np.int32)
    result[np.arange(width) < ids.lengths[:, None]] = ids.flat
    return result
