"""Training a run: all rooms put together for as long as a process works on it."""

from __future__ import annotations

import logging
from typing import Any

import tensorflow as tf

from dtmt_tf.errors import UserError
from dtmt_tf.experiment import defaults, to_dict
from dtmt_tf.files import claimed
from dtmt_tf.models import TranslationModel
from dtmt_tf.runs.run import Run
from dtmt_tf.runs.scoring import score, translate, translate_function
from dtmt_tf.training import (
    Limits,
    Outcome,
    Summaries,
    Trainer,
    TrainingStep,
    is_chief,
    make_strategy,
    multiplies_bfloat16,
    wait_for_all,
)

logger = logging.getLogger(__name__)

NUM_SHOWN = 4  # pairs shown at validation
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
    """

    def __init__(
        self,
        run: Run,
        strategy: tf.distribute.Strategy | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.run = run
        self.strategy = strategy or make_strategy(multiworker=False)
        self.limits = limits or Limits()
        self.chief = is_chief(self.strategy)

    def train(self, restart: bool = False) -> Outcome:
        """Trains, or goes on training; the run's folder belongs to this process meanwhile.

        Args:
            restart: Forget checkpoints, sub-words and scores of an earlier run; exports stay.

        Raises:
            UserError: If another process has the folder, the run was begun with other settings,
                memory does not suffice, or another worker is gone.
        """
        if not self.chief:
            return self._guarded()
        with claimed(self.run.folder):
            if restart and self.run.corpus.sizes:  # what is missing or unsound removes nothing
                self.run.restart()
            return self._guarded()

    def _guarded(self) -> Outcome:
        training = self.run.experiment.training
        # a scorer that fails should do so before the first update
        score(self.run, ["text"], ["text"])
        if training.deterministic:
            tf.config.experimental.enable_op_determinism()
        if training.precision == "bfloat16" and not multiplies_bfloat16():
            logger.warning(
                "This processor has no bfloat16 products: training.precision=float32 is faster."
            )
        try:
            return self._train()
        except GONE as error:
            if self.strategy.extended._in_multi_worker_mode():
                raise UserError(
                    f"Another worker is gone ({str(error).splitlines()[0]}). Start the same "
                    "command on all workers again; they go on from the newest checkpoint."
                ) from error
            raise

    def _train(self) -> Outcome:
        run, strategy = self.run, self.strategy
        training_set = run.training_set() if self.chief else None
        wait_for_all(strategy)
        training_set = training_set or run.training_set()
        with strategy.scope():
            model = run.build_model()
        step = TrainingStep(model, run.experiment.training, strategy)
        paths = [variable.path for variable in model.trainable_variables]
        data = run.experiment.data
        summaries = Summaries(run.work / "tensorboard", paths) if self.chief else None
        if "validation" not in run.corpus.sizes:
            logger.warning("No validation pairs: no BLEU, no early stopping.")
        elif run.experiment.evaluation.tokenize == "auto" and not data.target_language:
            logger.warning(
                "BLEU counts words between blanks and punctuation (13a). For languages without "
                "blanks, such as Chinese, set data.target_language."
            )
        trainer = Trainer(
            step,
            training_set,
            run.checkpoints,
            summaries,
            self._validation(model),
            lambda at: self._inspect(model, summaries, at),
            to_dict(run.experiment),
            defaults(type(run.experiment.model)),
            self._texts,
            data.max_length,
            data.max_tokens_per_batch,
            self.limits,
        )
        done = trainer.restore()
        if self.chief:
            run.write_settings(trainer.finished())
        logger.info("Devices: %s", ", ".join(strategy.extended.worker_devices))
        logger.info(
            "%s parameters; %s updates an epoch; %s",
            f"{sum(model.parameter_counts().values()):,}",
            f"{trainer.plan.batches_per_epoch:,}",
            f"resuming after update {done:,}" if done else "starting",
        )
        trainer.rehearse()
        outcome = trainer.run()
        wait_for_all(strategy)
        return outcome

    def _validation(self, model: TranslationModel) -> Any:
        """Returns what scores the validation split, if there is one, by the present weights."""
        run = self.run
        if "validation" not in run.corpus.sizes:
            return None
        function = translate_function(run, model)
        sources, references = run.corpus.lines("validation")

        def validate() -> tuple[dict[str, float], list[tuple[str, str, str]]]:
            translations = translate(run, sources, function, "validation")
            scores = score(run, translations, references)
            values = {"bleu": scores.bleu, "chrf": scores.chrf}
            if scores.exact_match is not None:
                values["exact_match"] = scores.exact_match
            rows = zip(sources, references, translations, strict=True)
            return values, list(rows)[:NUM_SHOWN]

        return validate

    def _texts(self, source_ids: Any, target_ids: Any) -> list[tuple[str, str]]:
        """Returns the pairs of a batch."""
        subwords = self.run.vocabulary.source, self.run.vocabulary.target
        sides = [
            [text.decode("utf-8", "replace") for text in side.decode(tf.constant(ids)).numpy()]
            for side, ids in zip(subwords, (source_ids, target_ids), strict=True)
        ]
        return list(zip(*sides, strict=True))

    def _inspect(self, model: TranslationModel, summaries: Summaries | None, step: int) -> None:
        """Writes gate means and attention of the first pairs."""
        if summaries is None:
            return
        run = self.run
        subwords = run.vocabulary.source, run.vocabulary.target
        ids = [  # as long as training reads them: attention of all steps takes memory
            side.encode(tf.constant(lines))[:, : run.experiment.data.max_length]
            for lines, side in zip(
                run.corpus.lines(run.shown_split, NUM_SHOWN), subwords, strict=True
            )
        ]
        gates, attention = model.inspect(ids[0].to_tensor(), ids[1].to_tensor())
        words = [
            [text.decode() for text in side.tokenizer.id_to_string(ids[k][row]).numpy()]
            for row in range(ids[0].nrows())
            for k, side in enumerate(subwords)
        ]
        values = {name: float(value) for name, value in gates.items()}
        summaries.inspection(step, values, attention.numpy(), words)
