"""How fast training goes, and where its time is spent."""

from __future__ import annotations

import statistics
import time
from argparse import Namespace
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dtmt_tf.commands import common
from dtmt_tf.experiment import Experiment
from dtmt_tf.planning import flops, random_ids
from dtmt_tf.planning.processes import peak_memory
from pipelines.benchmark import corpora
from pipelines.benchmark.products import own_shape
from pipelines.benchmark.timing import Laps, seconds_of

if TYPE_CHECKING:
    from dtmt_tf.training import TrainingStep

PROFILED = 3  # updates
BATCHES = 2000  # of a window that only reads
TIMES = 3  # that each part is run


def training_step(
    experiment: Experiment,
    sizes: tuple[int, int],
    form: str = "fast",
    devices: Sequence[str] = (),
) -> TrainingStep:
    """Returns the training step of a model with fresh weights.

    Args:
        experiment: The settings.
        sizes: Of both vocabularies.
        form: "fast", or "plain": see `plain`.
        devices: The devices that train; by default all GPUs, or the CPU.
    """
    if form == "fast":
        return random_ids.training_step(experiment, sizes, devices)
    from pipelines.benchmark.plain import PlainDTMT

    step = random_ids.training_step(experiment, sizes, devices, PlainDTMT)
    step.kernels = []  # gradients as TensorFlow makes them
    return step


class Sample:
    """A sample of an epoch's batches, evenly spaced in the order of their sizes.

    It is read like a `BatchPlan`.

    Args:
        batches: All batches of an epoch, arrays of pair numbers.
        lengths: Longer side of each pair, `[N]`.
        count: How many are taken.
    """

    def __init__(self, batches: Iterable[np.ndarray], lengths: np.ndarray, count: int) -> None:
        ordered = sorted(batches, key=lambda rows: int(lengths[rows].sum()))
        self.chosen = [ordered[(2 * k + 1) * len(ordered) // (2 * count)] for k in range(count)]

    def batch(self, step: int) -> np.ndarray:
        """Returns the pairs of a step's batch."""
        return self.chosen[step]


class Updates:
    """Training as pipelines/train.py does it, without validation, checkpoints and summaries.

    Every window makes updates on the same batches, a `Sample` of the first epoch's. It restarts
    the input pipeline and includes the time spent waiting for batches.

    Args:
        options: The command's.
        began: When the process began.
    """

    def __init__(self, options: Namespace, began: float) -> None:
        from dtmt_tf.data.batch import BatchPlan

        laps = Laps(began)
        laps.end("TensorFlow")
        experiment, _ = common.experiment(options)
        self.own_shape = own_shape(options)
        data, self.training = experiment.data, experiment.training
        run = corpora.open_run(options)
        if run:
            run.corpus  # noqa: B018 - checks and prepares it
            laps.end("corpus")
            sizes = run.vocabulary.source.size, run.vocabulary.target.size
            laps.end("sub-words")
        else:
            sizes = random_ids.vocabulary_sizes(experiment)
        pairs = corpora.training_set(experiment, corpora.text_of(experiment, run))
        laps.end("training set")
        self.step = training_step(experiment, sizes, options.form, options.devices)
        laps.end("model")
        plan = BatchPlan(data, pairs.lengths, self.step.slices, self.training.seed)
        sample: Any = Sample(plan.epoch(0), pairs.lengths, options.updates)
        self.batches = pairs.batches(sample, 0, options.updates)
        self.first_loss = self._update(next(self.batches.as_numpy_iterator()))
        laps.end("first update")
        self.start = laps.seconds
        self.corpus = experiment.task if run else corpora.RANDOM
        self.work = flops.work(self.batches.as_numpy_iterator())
        self.waited: list[float] = []
        self.seconds: list[float] = []
        self._run(self.batches)  # warms up: every shape has been seen
        self.warm_traces = self._traces()

    def window(self) -> dict[str, float]:
        """Makes the updates; returns seconds and target words."""
        seconds, waited = self._run(self.batches)
        self.seconds.append(seconds)
        self.waited.append(waited)
        return {"seconds": seconds, "amount": self.work.target}

    def details(self) -> dict[str, Any]:
        """Returns everything that is not measured in windows."""
        memory = peak_memory()  # before the parts are built
        model = self.step.model
        operations = self.training.passes * flops.training(model, self.work)
        return {
            "corpus": self.corpus,
            "parameters": model.count_params(),
            "updates": len(self.seconds) * len(list(self.batches)),
            "target_words_per_update": round(self.work.target / len(list(self.batches)), 1),
            "megaflop_per_target_word": operations / self.work.target / 1e6,
            "gflops": operations / statistics.median(self.seconds) / 1e9,
            "own_shape": "x".join(map(str, self.own_shape)),
            "first_loss": self.first_loss,
            "start": self.start,
            "traces": {"warm-up": self.warm_traces, "later": self._traces() - self.warm_traces},
            "peak_memory": memory,
            "parts": self.parts(),
        }

    def parts(self) -> dict[str, float]:
        """Returns seconds of a window by part, which add up to its median; of DTMT alone.

        Input is what updates wait for. The forward pass is timed in pieces, each a graph of its
        own: the encoder; the query transition and the decoder transition, each alone over all
        steps and without dropout; up to the features; up to the loss. What the decoder takes beyond
        its two transitions is attention, dropout masks and the loop. The optimiser is timed alone.
        Backward is what is left: the gradient, what the forward pass keeps for it, its sum over
        slices and replicas, and its norm. Pieces run on one device; of several each has its share.
        R-Drop's two passes take twice as long as one; what they differ by is part of backward.
        """
        from dtmt_tf.models import DTMT

        if not isinstance(self.step.model, DTMT):
            return {}
        share = self.training.passes / self.step.strategy.num_replicas_in_sync
        batches = [tuple(batch) for batch in self.batches.as_numpy_iterator()]
        pieces = forward_seconds(self.step, batches)
        forward = {name: seconds * share for name, seconds in pieces.items()}
        optimizer = len(batches) * self._optimizer_seconds()
        waited = statistics.median(self.waited)
        rest = statistics.median(self.seconds) - waited - sum(forward.values()) - optimizer
        return {"input": waited, **forward, "backward": rest, "optimizer": optimizer}

    def profile(self, folder: str) -> None:
        """Writes a profile of a few updates for TensorBoard."""
        import tensorflow as tf

        with tf.profiler.experimental.Profile(folder):
            self._run(self.batches.take(PROFILED))

    def _update(self, batch: Any) -> float:
        return float(self.step(*batch).loss)

    def _run(self, batches: Any) -> tuple[float, float]:
        """Makes updates; returns the seconds they took, and those spent waiting for batches."""
        waited, start = 0.0, time.perf_counter()
        before = start
        for batch in batches.as_numpy_iterator():
            waited += time.perf_counter() - before
            self._update(batch)
            before = time.perf_counter()
        return time.perf_counter() - start, waited

    def _traces(self) -> int:
        count: int = self.step._function.experimental_get_tracing_count()
        return count

    def _optimizer_seconds(self) -> float:
        import tensorflow as tf

        optimizer, weights = self.step.optimizer, self.step.model.trainable_variables
        gradients = [tf.zeros(weight.shape) for weight in weights]

        @tf.function
        def apply() -> None:
            rate = optimizer.learning_rate
            self.step.strategy.run(lambda: optimizer.update(gradients, weights, rate))

        return seconds_of(apply, TIMES)


def forward_seconds(step: TrainingStep, batches: Iterable[tuple[Any, Any]]) -> dict[str, float]:
    """Returns the seconds of the forward pass by part, over some batches; see `Updates.parts`."""
    import keras
    import tensorflow as tf

    from dtmt_tf.cells import products_in
    from dtmt_tf.config import PAD_ID
    from dtmt_tf.layers import SeedStream
    from dtmt_tf.training.loss import smoothed_cross_entropy

    model: Any = step.model
    training, cell = step.training, model.cell
    ids = tf.TensorSpec([None, None], tf.int32)
    slices = [(s[k :: step.slices], t[k :: step.slices])
              for s, t in batches for k in range(step.slices)]  # fmt: skip

    def encoder(source: Any, target: Any, options: dict[str, Any]) -> Any:
        return model.annotate(source, **options)

    def query(source: Any, target: Any, options: dict[str, Any]) -> Any:
        words = model.shifted_embeddings(target)
        return type(model.decoder)(cell.query, return_sequences=True)(words)

    def transition(source: Any, target: Any, options: dict[str, Any]) -> Any:
        contexts = tf.fill([*tf.unstack(tf.shape(target)), cell.attention.output_dim], 0.1)
        return keras.layers.RNN(cell.transition, return_sequences=True)(contexts)

    def features(source: Any, target: Any, options: dict[str, Any]) -> Any:
        return model.features(source, target, **options)

    def loss(source: Any, target: Any, options: dict[str, Any]) -> Any:
        real = tf.not_equal(target, PAD_ID)
        rows = tf.boolean_mask(features(source, target, options), real)
        logits = model.readout(rows, **options)
        words = tf.boolean_mask(target, real)
        return tf.reduce_sum(smoothed_cross_entropy(logits, words, training.label_smoothing)[0])

    def seconds(part: Any) -> float:
        @tf.function(input_signature=[ids, ids])
        def run(source: Any, target: Any) -> Any:
            options = {"training": True, "seeds": SeedStream((training.seed, 0))}
            with products_in(training.precision):
                return part(source, target, options)

        return seconds_of(lambda: [run(*batch) for batch in slices], TIMES)

    found = {part.__name__: seconds(part) for part in (encoder, query, transition, features, loss)}
    between = found["features"] - found["encoder"] - found["query"] - found["transition"]
    return {
        "encoder": found["encoder"],
        "query": found["query"],
        "attention": between,
        "decoder transition": found["transition"],
        "softmax and loss": found["loss"] - found["features"],
    }


class Reading:
    """The input pipeline alone: a window is an epoch of batches, or the first `BATCHES` of it.

    Args:
        options: The command's.
        began: Not used.
    """

    def __init__(self, options: Namespace, began: float) -> None:
        from dtmt_tf.data.batch import BatchPlan

        experiment, _ = common.experiment(options)
        data, training = experiment.data, experiment.training
        run = None if options.pairs else corpora.open_run(options)
        self.corpus = experiment.task if run else corpora.RANDOM
        text = corpora.text_of(experiment, run, options.copies, options.pairs)
        start = time.perf_counter()
        pairs = corpora.training_set(experiment, text, options.copies)
        self.preparing = time.perf_counter() - start
        plan = BatchPlan(data, pairs.lengths, training.accumulation_steps, training.seed)
        self.pairs = len(pairs.lengths)
        self.batches = pairs.batches(plan, 0, min(BATCHES, plan.batches_per_epoch))
        self.work = flops.work(self.batches.as_numpy_iterator())

    def window(self) -> dict[str, float]:
        """Reads them; returns seconds and target words."""
        start = time.perf_counter()
        for _ in self.batches.as_numpy_iterator():
            pass
        return {"seconds": time.perf_counter() - start, "amount": self.work.target}

    def details(self) -> dict[str, Any]:
        """Returns everything that is not measured in windows."""
        return {
            "corpus": self.corpus,
            "pairs": self.pairs,
            "seconds_to_cut_into_subwords": self.preparing,
            "peak_memory": peak_memory(),
        }

    def profile(self, folder: str) -> None:
        """Writes a profile of a window for TensorBoard."""
        import tensorflow as tf

        with tf.profiler.experimental.Profile(folder):
            self.window()
