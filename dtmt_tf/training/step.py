"""One optimiser update on any number of replicas."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import tensorflow as tf

from dtmt_tf.cells import products_in
from dtmt_tf.config import PAD_ID, TrainingConfig
from dtmt_tf.layers import SeedStream
from dtmt_tf.models import TranslationModel
from dtmt_tf.training.loss import disagreement, smoothed_cross_entropy
from dtmt_tf.training.optimizer import ReducedAdam


class Update(NamedTuple):
    """What an update reports."""

    loss: tf.Tensor  # smoothed cross entropy per word, minus its constant
    cross_entropy: tf.Tensor  # plain, per word, in nats; its exp is the perplexity
    tokens: tf.Tensor  # target words, <eos> included
    learning_rate: tf.Tensor
    gradient_norms: tf.Tensor  # [number of weights], before clipping


class TrainingStep:
    """Gradient of a whole batch, however it is divided, then one clipped Adam update.

    The batch is cut into `replicas * accumulation_steps` slices, slice k taking every n-th row from
    row k; each replica works through its slices one after the other. Losses, word counts and
    gradients are summed over slices and replicas, then divided by the number of words, then
    clipped: the update does not depend on how the batch was divided, even where slices are ragged.
    (The authors average per-replica means instead; see ARCHITECTURE.md.) Dropout masks depend on
    the seed, the step and the slice alone.

    Args:
        model: The model, built under `strategy`.
        training: Loss, clipping, seed.
        strategy: Distribution strategy.
    """

    def __init__(
        self, model: TranslationModel, training: TrainingConfig, strategy: tf.distribute.Strategy
    ) -> None:
        self.model = model
        self.training = training
        self.strategy = strategy
        self.slices = strategy.num_replicas_in_sync * training.accumulation_steps
        with strategy.scope():
            self.optimizer = ReducedAdam(training)
            self.optimizer.build(model.trainable_variables)
        self.weights = [variable.value for variable in model.trainable_variables]
        ids = tf.TensorSpec([None, None], tf.int32)
        self._function = tf.function(self._update, input_signature=[ids, ids])

    def __call__(self, source_ids: Any, target_ids: Any) -> Update:
        """Makes one update.

        Args:
            source_ids: `[B, S]` int32, padded with 0.
            target_ids: `[B, T]` likewise.
        """
        return self._function(source_ids, target_ids)

    def _update(self, source_ids: tf.Tensor, target_ids: tf.Tensor) -> Update:
        updates = self.strategy.run(self._replica_update, args=(source_ids, target_ids))
        return tf.nest.map_structure(
            lambda value: self.strategy.experimental_local_results(value)[0], updates
        )

    def _replica_update(self, source_ids: tf.Tensor, target_ids: tf.Tensor) -> Update:
        context = tf.distribute.get_replica_context()
        first = context.replica_id_in_sync_group * self.training.accumulation_steps
        sums = self._slice_sums(source_ids, target_ids, first)
        if self.training.accumulation_steps > 1:

            def add(k: tf.Tensor, sums: Any) -> tuple[tf.Tensor, Any]:
                new = self._slice_sums(source_ids, target_ids, first + k)
                return k + 1, tf.nest.map_structure(tf.add, sums, new)

            _, sums = tf.while_loop(
                lambda k, _: k < self.training.accumulation_steps,
                add,
                (tf.constant(1), sums),
                parallel_iterations=1,
            )
        totals = context.all_reduce(tf.distribute.ReduceOp.SUM, sums)
        loss, cross_entropy, tokens, gradients = totals
        norms = tf.stack([tf.norm(gradient) for gradient in gradients]) / tokens
        norm = tf.norm(norms)
        scale = self.training.clip_norm / tf.maximum(norm, self.training.clip_norm) / tokens
        learning_rate = tf.identity(self.optimizer.learning_rate)
        self.optimizer.apply(
            [gradient * scale for gradient in gradients], self.model.trainable_variables
        )
        return Update(loss / tokens, cross_entropy / tokens, tokens, learning_rate, norms)

    def _slice_sums(self, source_ids: tf.Tensor, target_ids: tf.Tensor, k: Any) -> Any:
        """Returns loss, cross entropy, words and gradients of slice k, all summed over words."""
        source_ids, target_ids = source_ids[k :: self.slices], target_ids[k :: self.slices]
        alpha = self.training.r_drop_alpha
        copies = 2 if alpha else 1
        source_ids, target_ids = (tf.tile(ids, [copies, 1]) for ids in (source_ids, target_ids))
        step = tf.cast(self.optimizer.iterations, tf.int64)
        seeds = SeedStream((self.training.seed, step * self.slices + tf.cast(k, tf.int64)))
        with tf.GradientTape() as tape, products_in(self.training.precision):
            features = self.model.features(source_ids, target_ids, training=True, seeds=seeds)
            real = tf.not_equal(target_ids, PAD_ID)
            logits = self.model.readout(tf.boolean_mask(features, real), training=True, seeds=seeds)
            losses, plain = smoothed_cross_entropy(
                logits, tf.boolean_mask(target_ids, real), self.training.label_smoothing
            )
            loss = tf.reduce_sum(losses) / copies
            if alpha:
                loss += alpha / 2 * tf.reduce_sum(disagreement(*tf.split(logits, 2)))
        gradients = tape.gradient(loss, self.weights)
        return (
            loss,
            tf.reduce_sum(plain) / copies,
            tf.cast(tf.size(losses) / copies, tf.float32),
            [tf.convert_to_tensor(gradient) for gradient in gradients],
        )


def multiplies_bfloat16() -> bool:
    """Whether bfloat16 is worth it here, as far as the system tells."""
    features = Path("/proc/cpuinfo")
    known = features.exists() and not tf.config.list_logical_devices("GPU")
    return not known or "bf16" in features.read_text()
