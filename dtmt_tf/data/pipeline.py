"""From tokenised pairs to padded batches, with `tf.data`."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from dtmt_tf.data.batch import Batch, BatchPlan
from dtmt_tf.errors import UserError

logger = logging.getLogger(__name__)

Encode = Callable[[tf.Tensor], tf.RaggedTensor]
Sample = Callable[[Sequence[str], int], list[list[int]]]  # texts, seed -> ids
LINES_AT_ONCE = 10_000


def encode_lines(lines: list[str], encode: Encode) -> tf.RaggedTensor:
    """Tokenises text in the graph; returns int32 ids, `[N, (T)]`."""
    dataset = tf.data.Dataset.from_tensor_slices(lines).batch(LINES_AT_ONCE)
    parts = list(dataset.map(encode, num_parallel_calls=tf.data.AUTOTUNE))
    return tf.concat(parts, axis=0)


class TrainingSet:
    """Tokenised pairs in memory, in the order of a `BatchPlan`.

    Args:
        source: Source lines.
        target: Target lines, as many.
        encode_source: Sub-words of the source.
        encode_target: Sub-words of the target.
        max_length: Pairs with a longer side (in sub-words, with <eos>) are dropped and counted.
        samplers: Cut up source and target anew each time a pair is read; lengths, buckets and
            `max_length` then still go by `encode_source` and `encode_target`.
        seed: Seed of the samplers; with the step it fixes what they return.

    Attributes:
        fingerprint: Hash of the corpus, which a resumed run must find again.

    Raises:
        UserError: If no pair is left.
    """

    def __init__(
        self,
        source: list[str],
        target: list[str],
        encode_source: Encode,
        encode_target: Encode,
        max_length: int,
        samplers: tuple[Sample, Sample] | None = None,
        seed: int = 0,
    ) -> None:
        if not source:
            raise UserError("There is no training pair: the files are empty.")
        sides = encode_lines(source, encode_source), encode_lines(target, encode_target)
        lengths = np.maximum(*(side.row_lengths().numpy() for side in sides))
        filled = np.array(
            [bool(s.strip() and t.strip()) for s, t in zip(source, target, strict=True)]
        )
        kept = (lengths <= max_length) & filled
        self.num_dropped = int(len(kept) - kept.sum())
        if not kept.any():
            raise UserError(
                f"No training pair has 1 to {max_length} sub-words on both sides. "
                "Check data.train_source and data.train_target, or raise data.max_length."
            )
        if self.num_dropped:
            logger.info(
                "Dropped %d of %d training pairs: empty, or over %d sub-words.",
                self.num_dropped,
                len(kept),
                max_length,
            )
        self.fingerprint = fingerprint(source, target)
        self.source, self.target = (tf.ragged.boolean_mask(side, kept) for side in sides)
        self.lengths = lengths[kept]
        self.samplers = samplers
        self.seed = seed
        self.lines = tuple(
            [line for line, keep in zip(lines, kept, strict=True) if keep and samplers]
            for lines in (source, target)
        )

    def batches(self, plan: BatchPlan, start: int, stop: int) -> tf.data.Dataset:
        """Returns the `Batch`es of steps `start` to `stop` - 1."""
        if self.samplers:
            return self._sampled(plan, start, stop)

        def indices() -> Iterator[np.ndarray]:
            for step in range(start, stop):
                yield plan.batch(step)

        def pad(rows: tf.Tensor) -> Batch:
            return Batch(
                tf.gather(self.source, rows).to_tensor(), tf.gather(self.target, rows).to_tensor()
            )

        dataset = tf.data.Dataset.from_generator(
            indices, output_signature=tf.TensorSpec([None], tf.int64)
        )
        return dataset.map(pad, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)

    def _sampled(self, plan: BatchPlan, start: int, stop: int) -> tf.data.Dataset:
        """The same pairs, cut up by `samplers`: again a pure function of seed and step."""

        def draw() -> Iterator[Batch]:
            for step in range(start, stop):
                rows = plan.batch(step)
                seeds = np.random.SeedSequence([self.seed, step]).generate_state(2)
                sides = []
                for lines, sample, seed in zip(self.lines, self.samplers or (), seeds, strict=True):
                    ids = sample([lines[row] for row in rows], int(seed))
                    sides.append(tf.ragged.constant(ids, tf.int32).to_tensor().numpy())
                yield Batch(*sides)

        ids = tf.TensorSpec([None, None], tf.int32)
        return tf.data.Dataset.from_generator(draw, output_signature=Batch(ids, ids)).prefetch(
            tf.data.AUTOTUNE
        )


def fingerprint(source: list[str], target: list[str]) -> str:
    """Returns a short hash of a corpus."""
    digest = hashlib.sha256()
    for side in (source, target):
        digest.update("\n".join(side).encode())
        digest.update(b"\0")
    return digest.hexdigest()[:16]
