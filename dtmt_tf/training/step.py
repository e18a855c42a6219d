"""One optimiser update on any number of replicas."""

from __future__ import annotations

import contextlib
import fnmatch
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from dtmt_tf.cells import products_in
from dtmt_tf.config import PAD_ID, TrainingConfig
from dtmt_tf.errors import UserError, hint, listed
from dtmt_tf.layers import SeedStream
from dtmt_tf.models import TranslationModel
from dtmt_tf.training.loss import r_drop_loss, smoothed_cross_entropy
from dtmt_tf.training.optimizer import make_optimizer
from dtmt_tf.training.strategy import worker_number

logger = logging.getLogger(__name__)


class Update(NamedTuple):
    """What an update reports."""

    loss: tf.Tensor  # per token: smoothed cross entropy minus its constant, and R-Drop's part
    cross_entropy: tf.Tensor  # plain, per token, in nats; its exp is the perplexity
    tokens: tf.Tensor  # of the target, <eos> included
    learning_rate: tf.Tensor
    gradient_norms: tf.Tensor  # [number of weights], before clipping
    finite: tf.Tensor  # whether loss and gradients were; if not, no weight has changed
    stops: tf.Tensor  # sum over replicas of the exit codes in `stop`; 0: go on


class TrainingStep:
    """Gradient of a whole batch, however it is divided, then one clipped update.

    The batch is cut into `replicas * accumulation_steps` slices, slice k taking every n-th row from
    row k; each replica works through its slices one after the other. Losses, token counts and
    gradients are summed over slices and replicas, then divided by the number of target tokens, or
    of sentences (`training.loss_unit`), then clipped: the update does not depend on how the batch
    was divided, even where slices are ragged.
    (The authors average per-replica means instead; see ARCHITECTURE.md.) Dropout masks depend on
    the seed, and on the number of the slice since the training's first, alone.

    Among several workers each is given the rows of its own slices alone, which `take` picks, padded
    as long as the whole batch is.

    An update whose loss or gradient is not finite changes no weight, moment or average, but it
    counts: the position in the data, the schedule, the masks and Adam's corrections go by the
    number of updates.

    Args:
        model: The model, built under `strategy`.
        training: Loss, clipping, seed.
        strategy: Distribution strategy.

    Attributes:
        clip_norm: How long a gradient may be; may change between updates.
    """

    def __init__(
        self, model: TranslationModel, training: TrainingConfig, strategy: tf.distribute.Strategy
    ) -> None:
        self.model = model
        self.training = training
        self.strategy = strategy
        self.slices = strategy.num_replicas_in_sync * training.accumulation_steps
        self.own_slices = len(strategy.extended.worker_devices) * training.accumulation_steps
        self.first_slice = worker_number(strategy) * self.own_slices
        with strategy.scope():
            self.optimizer = make_optimizer(training)
            self.optimizer.build(model.trainable_variables)
        self.weights = [variable.value for variable in model.trainable_variables]
        self.frozen = frozen_weights(model, training.frozen)
        # rounded once a slice, where they are used; GRUs that reset before the product use halves
        self.kernels = [v for v in model.trainable_variables if len(v.shape) == 2]
        self.clip_norm = training.clip_norm
        ids, scalar = tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([], tf.float32)
        self._function = tf.function(
            self._update, input_signature=[ids, ids, *3 * [scalar]], autograph=False
        )
        # One graph that all replicas call, each with its own weights. Inlined, there would be one
        # for each of them to optimise.
        self._replica_sums = tf.function(
            self._all_slice_sums,
            input_signature=[
                *(ids, ids, tf.TensorSpec([], tf.int32), tf.TensorSpec([], tf.int64)),
                [tf.TensorSpec(weight.shape, weight.dtype) for weight in self.weights],
            ],
            autograph=False,
            experimental_attributes={"_noinline": True},
        )

    def __call__(
        self, source_ids: Any, target_ids: Any, rate_factor: float = 1.0, stop: int = 0
    ) -> Update:
        """Makes one update.

        Args:
            source_ids: `[B, S]` int32, padded with 0.
            target_ids: `[B, T]` likewise.
            rate_factor: Factor of the schedule's rate; 0 leaves all weights alone.
            stop: Exit code of a worker that has been told to stop; `Update.stops` is the sum.
        """
        return self._function(source_ids, target_ids, rate_factor, self.clip_norm, float(stop))

    def rehearse(self, source_ids: Any, target_ids: Any) -> None:
        """Does the work of an update without changing anything."""
        self(source_ids, target_ids, rate_factor=0.0)
        self.optimizer.iterations.assign_add(-1)

    @property
    def alone(self) -> bool:
        """Whether there is no other worker."""
        return self.own_slices == self.slices

    @property
    def translating_weights(self) -> dict[str, np.ndarray]:
        """The weights that translate, by path: their moving averages, if there are any."""
        variables = self.model.trainable_variables
        values = self.optimizer.averages or variables
        return {v.path: value.numpy() for v, value in zip(variables, values, strict=True)}

    @property
    def state(self) -> list[np.ndarray]:
        """Everything besides `translating_weights` that resuming needs."""
        raw = self.model.trainable_variables if self.optimizer.averages else []
        return [value.numpy() for value in (*self.optimizer.variables, *raw)]

    def restore(self, weights: Mapping[str, np.ndarray], state: Sequence[np.ndarray]) -> None:
        """Restores `translating_weights` and `state`.

        If only the checkpoint or only this training keeps moving averages, training resumes from
        the raw weights, and new averages start from them. A frozen weight is its own average.

        Raises:
            UserError: If they are of another model.
        """
        load_weights(self.model, weights)
        variables = self.model.trainable_variables
        for average, variable in zip(self.optimizer.averages, variables, strict=False):
            average.assign(variable.value)
        moments = self.optimizer.variables
        raw = variables if len(state) > len(moments) else []
        if len(state) != len(moments) + len(raw):
            raise UserError(
                f"The optimiser's state is of another model: {len(state)} values, "
                f"{len(moments)} or {len(moments) + len(variables)} expected."
            )
        for variable, value in zip((*moments, *raw), state, strict=True):
            variable.assign(value)
        of_frozen = zip(self.optimizer.averages, variables, self.frozen, strict=False)
        for average, variable, frozen in of_frozen:
            if frozen:  # perhaps since this restart: its average would never reach it
                average.assign(variable.value)

    @contextlib.contextmanager
    def averaged(self) -> Iterator[None]:
        """Within this block the model has the weights that translate."""
        if not self.optimizer.averages:
            yield
            return
        variables = self.model.trainable_variables
        raw = [variable.numpy() for variable in variables]
        load_weights(self.model, self.translating_weights)
        try:
            yield
        finally:
            for variable, value in zip(variables, raw, strict=True):
                variable.assign(value)

    def take(self, rows: np.ndarray) -> np.ndarray:
        """Returns the rows of a batch `[B, ...]` that this worker reads."""
        own = np.arange(len(rows)) % self.slices - self.first_slice
        return rows[(own >= 0) & (own < self.own_slices)]

    def _update(self, *arguments: tf.Tensor) -> Update:
        sums = self._replica_sums.get_concrete_function()
        updates = self.strategy.run(self._replica_update, args=(sums, *arguments))
        return tf.nest.map_structure(
            lambda value: self.strategy.experimental_local_results(value)[0], updates
        )

    def _replica_update(
        self,
        replica_sums: Any,
        source_ids: tf.Tensor,
        target_ids: tf.Tensor,
        factor: tf.Tensor,
        clip_norm: tf.Tensor,
        stop: tf.Tensor,
    ) -> Update:
        context = tf.distribute.get_replica_context()
        step = tf.cast(self.optimizer.iterations, tf.int64)
        first = context.replica_id_in_sync_group * self.training.accumulation_steps
        weights = [tf.convert_to_tensor(weight) for weight in self.weights]
        sums = replica_sums(source_ids, target_ids, tf.convert_to_tensor(first), step, weights)
        totals = context.all_reduce(tf.distribute.ReduceOp.SUM, (sums, tf.identity(stop)))
        (loss, cross_entropy, tokens, sentences, gradients), stops = totals
        units = {"tokens": tokens, "sentences": sentences}[self.training.loss_unit]
        norms = tf.stack([tf.norm(gradient) for gradient in gradients]) / units
        norm = tf.norm(norms)
        finite = tf.math.is_finite(loss) & tf.math.is_finite(norm)
        scale = clip_norm / tf.maximum(norm, clip_norm) / units
        scale = tf.where(finite, scale, 0.0)
        rate = tf.identity(self.optimizer.learning_rate) * factor
        variables = self.model.trainable_variables
        moving = [k for k, frozen in enumerate(self.frozen) if not frozen]
        self.optimizer.update(
            [tf.math.multiply_no_nan(gradients[k], scale) for k in moving],
            [variables[k] for k in moving],
            tf.where(finite, rate, 0.0),
        )
        return Update(loss / tokens, cross_entropy / tokens, tokens, rate, norms, finite, stops)

    def _all_slice_sums(
        self, source_ids: tf.Tensor, target_ids: tf.Tensor, first: Any, step: Any, weights: Any
    ) -> Any:
        """Returns the sums of all slices of a replica, whose first is given."""
        sums = self.slice_sums(source_ids, target_ids, first, step, weights)
        if self.training.accumulation_steps > 1:

            def add(k: tf.Tensor, sums: Any) -> tuple[tf.Tensor, Any]:
                new = self.slice_sums(source_ids, target_ids, first + k, step, weights)
                return k + 1, tf.nest.map_structure(tf.add, sums, new)

            _, sums = tf.while_loop(
                lambda k, _: k < self.training.accumulation_steps,
                add,
                (tf.constant(1), sums),
                parallel_iterations=1,
            )
        return sums

    def slice_sums(
        self, source_ids: Any, target_ids: Any, k: Any, step: Any, weights: Sequence[Any]
    ) -> Any:
        """Returns loss, cross entropy, tokens, sentences and gradients of slice k, all sums.

        Args:
            source_ids: This worker's share of the batch, `[B, S]`.
            target_ids: `[B, T]` likewise.
            k: Number of the slice among those of all workers.
            step: Updates made before, int64.
            weights: The model's, which the gradients are by.
        """
        own = slice(k - self.first_slice, None, self.own_slices)
        source_ids, target_ids = source_ids[own], target_ids[own]
        alpha, passes = self.training.r_drop_alpha, self.training.passes
        source_ids, target_ids = (tf.tile(ids, [passes, 1]) for ids in (source_ids, target_ids))
        seeds = SeedStream((self.training.seed, step * self.slices + tf.cast(k, tf.int64)))
        prepared = products_in(self.training.precision, self.kernels, gradients=True)
        weights = [tf.convert_to_tensor(weight) for weight in weights]
        given = keras.StatelessScope(
            list(zip(self.model.trainable_variables, weights, strict=True))
        )
        with tf.GradientTape() as tape, given, prepared:
            tape.watch(weights)
            features = self.model.features(source_ids, target_ids, training=True, seeds=seeds)
            real = tf.not_equal(target_ids, PAD_ID)
            logits = self.model.readout(tf.boolean_mask(features, real), training=True, seeds=seeds)
            losses, plain = smoothed_cross_entropy(
                logits, tf.boolean_mask(target_ids, real), self.training.label_smoothing
            )
            loss = tf.reduce_sum(losses) / passes
            if alpha:
                loss += alpha / 2 * tf.reduce_sum(r_drop_loss(*tf.split(logits, 2)))
        gradients = [
            tf.zeros_like(weight) if frozen else tf.convert_to_tensor(gradient)
            for weight, gradient, frozen in zip(
                weights, tape.gradient(loss, weights), self.frozen, strict=True
            )
        ]
        return (
            loss,
            tf.reduce_sum(plain) / passes,
            tf.cast(tf.size(losses) / passes, tf.float32),
            tf.cast(tf.shape(target_ids)[0] / passes, tf.float32),
            gradients,
        )


def frozen_weights(model: TranslationModel, patterns: Sequence[str]) -> list[bool]:
    """Returns for each trainable weight whether `training.frozen` names it.

    Names are paths without their first part, which is the kind of model.

    Raises:
        UserError: If a pattern names no weight, or all of them are named.
    """
    paths = [variable.path.partition("/")[2] for variable in model.trainable_variables]
    for pattern in patterns:
        if not fnmatch.filter(paths, pattern):
            raise UserError(
                f"`training.frozen` names no weight: {pattern!r}. {hint(pattern, paths)}".rstrip()
                + listed(pattern, paths)
            )
    found = [any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns) for path in paths]
    if all(found):
        raise UserError("`training.frozen` leaves no weight to train.")
    if patterns:
        moving = {path for path, frozen in zip(paths, found, strict=True) if not frozen}
        _tell_of_shared(model, patterns, moving)
    return found


def _tell_of_shared(model: TranslationModel, patterns: Sequence[str], moving: set[str]) -> None:
    """Warns of patterns that name a matrix which is another's, and that one moves."""
    for name, layer in (
        ("source_embedding/table", model.source_embedding),
        ("readout/logits/kernel", model.readout.logits),
    ):
        shared = layer.tied_to and layer.tied_to.table.path.partition("/")[2]
        named = any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
        if named and shared in moving:
            logger.warning(
                "training.frozen: %s is %s, which moves unless it is named, too.", name, shared
            )


def load_weights(model: Any, weights: Mapping[str, np.ndarray]) -> None:
    """Gives a model the weights of a checkpoint.

    Raises:
        UserError: If names or shapes differ.
    """
    own = {variable.path: variable for variable in model.trainable_variables}
    if set(own) != set(weights):
        odd = sorted(set(own) ^ set(weights))
        raise UserError(f"The checkpoint is of another model: {odd[0]} is on one side only.")
    for name, variable in own.items():
        if tuple(variable.shape) != weights[name].shape:
            raise UserError(
                f"The checkpoint is of another model: {name} has shape {weights[name].shape}, "
                f"the model {tuple(variable.shape)}."
            )
        variable.assign(weights[name])
