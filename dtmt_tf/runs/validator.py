"""A run's validation split, scored while the run is trained."""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from dtmt_tf.data.parallel_text import fingerprint
from dtmt_tf.models import TranslationModel
from dtmt_tf.runs.run import Run
from dtmt_tf.runs.scoring import score, translate, translate_function
from dtmt_tf.text.faults import faults
from dtmt_tf.training import CrossEntropy, Inspection, Validation, Validator

NUM_SHOWN = 4  # pairs
LARGEST_EXPONENT = 700.0  # of a perplexity that is a number


class RunValidator(Validator):
    """Scores and shows a run's model by its present weights.

    Args:
        run: The run.
        model: Its model, which is being trained.
    """

    def __init__(self, run: Run, model: TranslationModel) -> None:
        self.run = run
        self.model = model
        self.scores = "validation" in run.corpus.sizes
        if self.scores:
            self._translate = translate_function(run, model)
            data = run.experiment.data
            self._lines = run.corpus.lines("validation")
            self.fingerprint = fingerprint(*(map(str.encode, side) for side in self._lines))
            sides = [ids.to_list() for ids in self._ids(self._lines)]
            tokens = data.max_tokens_per_batch
            if data.sentences_per_batch:  # no more than fits in training
                tokens = min(tokens, data.sentences_per_batch * data.max_length)
            self._cross_entropy = CrossEntropy(model, list(zip(*sides, strict=True)), tokens)

    def validate(self) -> Validation:
        """Scores the validation split by the present weights."""
        sources, references = self._lines
        translations = translate(self.run, sources, self._translate, "validation")
        found = score(self.run, translations, references)
        scores = {"bleu": found.bleu, "chrf": found.chrf}
        if found.exact_match is not None:
            scores["exact_match"] = found.exact_match
        nats = self._cross_entropy()
        perplexity = math.exp(min(nats, LARGEST_EXPONENT))
        scores |= {"cross_entropy": nats, "perplexity": perplexity}
        rows = zip(sources, references, translations, strict=True)
        return Validation(scores, list(rows)[:NUM_SHOWN], faults(sources, translations))

    def inspect(self) -> Inspection:
        """Looks at gates and attention of the first pairs."""
        run = self.run
        ids = self._ids(run.corpus.lines(run.shown_split, NUM_SHOWN))
        gates, attention = self.model.inspect(ids[0].to_tensor(), ids[1].to_tensor())
        vocabularies = run.vocabulary.source, run.vocabulary.target
        subwords = [
            [text.decode() for text in side.tokenizer.id_to_string(ids[k][row]).numpy()]
            for row in range(ids[0].nrows())
            for k, side in enumerate(vocabularies)
        ]
        values = {name: float(value) for name, value in gates.items()}
        return Inspection(values, attention.numpy(), subwords)

    def texts(self, source_ids: Any, target_ids: Any) -> list[tuple[str, str]]:
        """Returns the pairs that a batch's ids stand for."""
        vocabularies = self.run.vocabulary.source, self.run.vocabulary.target
        sides = [
            [text.decode("utf-8", "replace") for text in side.decode(tf.constant(ids)).numpy()]
            for side, ids in zip(vocabularies, (source_ids, target_ids), strict=True)
        ]
        return list(zip(*sides, strict=True))

    def _ids(self, lines: tuple[list[str], list[str]]) -> list[tf.RaggedTensor]:
        """Returns both sides in sub-words, as long as training reads them: memory is bounded.

        Sources are read as by the search, targets as in training; the end of a target that is cut
        counts for nothing.
        """
        longest = self.run.experiment.data.max_length
        source, target = self.run.vocabulary.source, self.run.vocabulary.target
        texts, references = (tf.constant([line.strip() for line in side]) for side in lines)
        return [source.encode(source.read(texts), longest), target.encode(references)[:, :longest]]
