"""BLEU from its counts in each sentence: for any subset, any two systems, without the text.

sacreBLEU adds these counts up over a corpus and then computes the score.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest

from dtmt_tf.evaluation.scores import (
    SAMPLES,
    SEED,
    TOKENIZER,
    build_bleu,
    interval,
    sacrebleu_seed,
)

Counts = npt.NDArray[np.int64]

ORDERS = 4  # of n-grams


def count_sentences(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    tokenize: str = TOKENIZER,
    lowercase: bool = False,
) -> Counts:
    """Returns BLEU's counts, one row for each sentence.

    Args:
        hypotheses: One translation per source sentence.
        references: The reference translations, in the same order.
        tokenize: Name of a sacreBLEU tokenizer.
        lowercase: Whether to ignore case.

    Returns:
        `[N, 10]`: tokens of hypothesis and reference, then for orders 1 to 4 the n-grams that
        match, then for orders 1 to 4 the n-grams there are.
    """
    metric = build_bleu(tokenize, lowercase)
    return np.array(metric._extract_corpus_statistics(hypotheses, [references]), np.int64)


def count_ngrams(lengths_and_matches: Counts) -> Counts:
    """Appends the n-grams that there are, which follow from the hypothesis's length.

    Args:
        lengths_and_matches: The first 6 columns of `count_sentences`, `[N, 6]`.
    """
    ngrams = lengths_and_matches[:, :1] - np.arange(ORDERS)
    return np.concatenate([lengths_and_matches, np.maximum(ngrams, 0)], axis=1)


def sentence_chrf(
    hypotheses: Sequence[str], *references: Sequence[str], lowercase: bool = False
) -> npt.NDArray[np.float64]:
    """Returns chrF2 of each sentence, 0 to 100, `[N]`.

    Args:
        hypotheses: One translation per source sentence.
        references: One or more references of each, in the same order.
        lowercase: Whether to ignore case.
    """
    metric = CHRF(lowercase=lowercase)
    pairs = zip(hypotheses, *references, strict=True)
    return np.array([metric.sentence_score(text, theirs).score for text, *theirs in pairs])


def bleu_of(counts: Counts, tokenize: str = TOKENIZER) -> float:
    """Returns the BLEU, 0 to 100, of the sentences whose counts are given.

    Args:
        counts: `[N, 10]`.
        tokenize: What they were counted with; multi-bleu does not smooth.
    """
    return float(_Counted(tokenize)._aggregate_and_compute(counts.tolist()).score)


def bleu_interval(trainings: Sequence[Counts], tokenize: str = TOKENIZER) -> tuple[float, float]:
    """Returns the 95 % bootstrap interval of the mean BLEU of several trainings.

    Args:
        trainings: Counts of each on the same sentences, `[N, 10]`.
        tokenize: See `bleu_of`.
    """
    return interval(_Counted(tokenize), *trainings)


def paired_bootstrap(baseline: Counts, system: Counts) -> float:
    """Returns the p-value of sacreBLEU's paired bootstrap, as `compare_systems` does.

    Args:
        baseline: Counts of one system, `[N, 10]`. Several trainings of it are added up sentence by
            sentence.
        system: Counts of the other on the same sentences.
    """
    if bleu_of(baseline) == bleu_of(system):
        return 1.0
    systems: Any = [("baseline", baseline.tolist()), ("system", system.tolist())]
    with sacrebleu_seed(SEED):
        test = PairedTest(systems, {"BLEU": _Counted()}, None, "bs", SAMPLES)
        result: Any = test()[1]["BLEU"][1]
    return float(result.p_value)


class _Counted(BLEU):
    """BLEU that is given counts instead of text; the tokenizer has done its work."""

    def __init__(self, tokenize: str = TOKENIZER) -> None:
        super().__init__(smooth_method=build_bleu(tokenize, lowercase=False).smooth_method)
        self.num_refs = 1

    def _extract_corpus_statistics(self, hypotheses: Any, references: Any) -> Any:
        return hypotheses
