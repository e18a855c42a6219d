"""Training a run: all rooms put together for as long as a process works on it."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import tensorflow as tf

from dtmt_tf.data.batch import BatchPlan
from dtmt_tf.errors import UserError
from dtmt_tf.experiment import Experiment, defaults, to_dict
from dtmt_tf.export import weights_hash
from dtmt_tf.machine import multiplies_bfloat16
from dtmt_tf.models import TranslationModel
from dtmt_tf.runs.compared import all_settings, compared
from dtmt_tf.runs.former import set_aside, settle
from dtmt_tf.runs.run import Run
from dtmt_tf.runs.scoring import score
from dtmt_tf.runs.validator import RunValidator
from dtmt_tf.runs.weights import check_beginning, check_source, refuse_stuck, take_weights
from dtmt_tf.tasks import TASKS
from dtmt_tf.training import (
    Limits,
    Outcome,
    Summaries,
    Tracker,
    Trainer,
    TrainingStep,
    agree,
    check_trackers,
    is_chief,
    make_strategy,
    open_trackers,
    several_workers,
    wait_for_all,
)

logger = logging.getLogger(__name__)

GONE = (  # what a worker is told when another one is no longer there
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.InternalError,
)


class Session:
    """Trains a run. Of several workers the chief prepares and writes; the others read.

    Args:
        run: The run.
        strategy: The devices; by default all GPUs, or the CPU.
        limits: Of this session; by default none.
        trackers: What is told the numbers besides TensorBoard, of `dtmt_tf.training.TRACKERS`.
    """

    def __init__(
        self,
        run: Run,
        strategy: tf.distribute.Strategy | None = None,
        limits: Limits | None = None,
        trackers: Sequence[str] = (),
    ) -> None:
        self.run = run
        self.trackers = trackers
        self.strategy = strategy or make_strategy(multiworker=False)
        self.limits = limits or Limits()
        self.chief = is_chief(self.strategy)

    def train(self, restart: bool = False) -> Outcome:
        """Trains, or goes on training; the run's folder belongs to this process meanwhile.

        Args:
            restart: Forget checkpoints, sub-words and scores of an earlier run, once this one has
                come to its first update; exports stay.

        Raises:
            UserError: If another process has the folder, the run was begun with other settings,
                memory does not suffice, or another worker is gone.
        """
        check_source(self.run, restart)
        # a scorer or a tracker that fails should do so before anything is removed or trained
        score(self.run, ["text"], ["text"])
        check_trackers(self.trackers)
        if not self.chief:
            if not restart:
                check_beginning(self.run)
            return self._guarded()
        with self.run.claimed():
            if not restart:
                settle(self.run)
                check_beginning(self.run)
            elif self.run.corpus.sizes:  # what is missing or unsound moves nothing
                set_aside(self.run)
            try:
                return self._guarded()
            finally:
                settle(self.run)

    def _guarded(self) -> Outcome:
        training = self.run.experiment.training
        if training.deterministic:
            tf.config.experimental.enable_op_determinism()
        if training.precision == "bfloat16" and not multiplies_bfloat16():
            logger.warning(
                "This processor has no bfloat16 products: training.precision=float32 is faster; "
                "a run that has begun takes it with --allow-changes training.precision "
                "(reproduce: --precision float32)."
            )
        try:
            return self._train()
        except GONE as error:
            if several_workers(self.strategy):
                raise UserError(
                    f"Another worker is gone ({str(error).splitlines()[0]}). Start the same "
                    "command on all workers again, without --restart; they go on from the newest "
                    "checkpoint."
                ) from error
            raise

    def _train(self) -> Outcome:
        run, strategy = self.run, self.strategy
        settings = to_dict(run.experiment)  # before the sub-words' sizes are noted
        agree(strategy, {"--init-from": str(run.beginning())})
        training_set = run.training_set() if self.chief else None
        wait_for_all(strategy)
        agree(strategy, {f"settings of {name}": value for name, value in settings.items()})
        agree(strategy, {"their training text": run.corpus.fingerprint})
        training_set = training_set or run.training_set()
        with strategy.scope():
            model = run.build_model()
        new = [] if run.checkpoints.steps() else [each.path for each in model.trainable_variables]
        if run.init_from and new:
            new = take_weights(model, run.init_from)
        experiment = run.experiment
        step = TrainingStep(model, experiment.training, strategy)
        refuse_stuck(new, step)
        validator = RunValidator(run, model)
        if not validator.scores:
            logger.warning("No validation pairs: no BLEU, no early stopping.")
        elif experiment.evaluation.tokenize == "auto" and not experiment.data.target_language:
            logger.warning(
                "BLEU counts words between blanks and punctuation (13a). For languages without "
                "blanks, such as Chinese, set data.target_language."
            )
        if told := other_batches(experiment, step.slices):
            logger.warning("%s", told)
        trainer = Trainer(
            step,
            training_set,
            BatchPlan(experiment.data, training_set.lengths, step.slices, experiment.training.seed),
            run.checkpoints,
            validator,
            settings=to_dict(experiment),
            defaults=defaults(type(experiment.model)),
            summaries=self._summaries(model) if self.chief else None,
            limits=self.limits,
        )
        done = trainer.restore()
        agree(strategy, {"the checkpoint that they found": done})
        if several_workers(strategy):
            agree(strategy, {"their sub-words": run.vocabulary.fingerprint})
            agree(strategy, {"the weights that they begin with": weights_hash(model)})
        if self.chief:
            run.write_settings(trainer.finished())
        if trainer.summaries:  # now that nothing is refused any more
            trainer.summaries.trackers = self._trackers(model)
        devices = strategy.extended.worker_devices
        logger.info("Devices: %s", ", ".join(name.partition("device:")[2] for name in devices))
        logger.info(
            "%s parameters; %s updates an epoch; %s",
            f"{model.count_params():,}",
            f"{trainer.plan.batches_per_epoch:,}",
            f"resuming after update {done:,}" if done else "starting",
        )
        try:
            if not trainer.finished():
                trainer.rehearse()
            if self.chief:
                settle(run)
            outcome = trainer.run()
        finally:
            if trainer.summaries:
                trainer.summaries.close()
        wait_for_all(strategy)
        return outcome

    def _summaries(self, model: TranslationModel) -> Summaries:
        run = self.run
        name = f"{run.experiment.task}/{run.folder.resolve().name}"
        return Summaries(run.events, model, compared(run, model), name)

    def _trackers(self, model: TranslationModel) -> list[Tracker]:
        run = self.run
        task, name = run.experiment.task, run.folder.resolve().name
        told = {**compared(run, model), **all_settings(run)}
        return open_trackers(self.trackers, task, name, told, run.work / "trackers.json")


def other_batches(experiment: Experiment, slices: int) -> str:
    """Returns what to tell if an update reads other batches than its task is meant for, else "".

    Args:
        experiment: The settings.
        slices: Devices times accumulation steps.
    """
    meant, steps = TASKS[experiment.task].replicas, experiment.training.accumulation_steps
    if meant in (0, slices):
        return ""
    devices = slices // steps
    if meant < devices:
        some = "one device" if meant == 1 else f"{meant} devices"
        sentences = experiment.data.sentences_per_batch
        limit = "sentences_per_batch" if sentences else "max_tokens_per_batch"
        advice = f"Train on {some} (--devices), or with a lower data.{limit}."
    elif meant % devices:
        advice = f"Choose devices by which {meant} can be divided, and training.accumulation_steps."
    else:
        advice = f"--set training.accumulation_steps={meant // devices} makes them {meant}."
    batches = f"{slices} {'batch' if slices == 1 else 'batches'}"
    return (
        f"{experiment.task} is meant for {meant} batches an update; here it is {batches}. {advice}"
    )
