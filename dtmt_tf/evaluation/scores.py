"""Corpus scores by sacreBLEU: BLEU, chrF2, TER and exact match, each with its conditions."""

import contextlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

import numpy as np
import numpy.typing as npt
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import PairedTest, Result

from dtmt_tf.errors import UserError
from dtmt_tf.languages import CHINESE, base_language, has_blanks

# as sacreBLEU advises; for others 13a, or char where no blanks are between words
LANGUAGE_TOKENIZERS = {"ja": "ja-mecab", "ko": "ko-mecab", **dict.fromkeys(CHINESE, "zh")}
MULTI_BLEU = "multi-bleu"
SAMPLES, SEED = 1000, 12345  # of every bootstrap
TOKENIZER = "13a"  # of text as people write it; sacreBLEU's own default
_SEED_VARIABLE = "SACREBLEU_SEED"


@dataclass(frozen=True)
class Scores:
    """The scores of one system on one test set.

    Attributes:
        bleu: Corpus BLEU, 0 to 100.
        bleu_signature: sacreBLEU's signature. Quote it with the score: two BLEU scores compare
            only when their signatures agree.
        precisions: N-gram precisions for orders 1 to 4, in percent.
        brevity_penalty: In [0, 1].
        hypothesis_length: Number of hypothesis tokens after BLEU's tokenizer.
        reference_length: Number of reference tokens after BLEU's tokenizer.
        chrf: Corpus chrF2, 0 to 100.
        chrf_signature: sacreBLEU's signature of the chrF2 score.
        exact_match: Percentage of hypotheses equal to their reference, or `None` if not asked.
        num_sentences: Number of hypotheses scored.
        ter: Translation edit rate, in percent, 0 or more; lower is better. `None` if not asked.
        ter_signature: sacreBLEU's signature of it.
        comet: 100 times COMET, about 0 to 100; see `comet`. `None` if not asked.
        comet_model: Name of its model.
        intervals: Low and high end of the 95 % bootstrap interval of each score, by its name
            here; empty if not asked.
    """

    bleu: float
    bleu_signature: str
    precisions: tuple[float, ...]
    brevity_penalty: float
    hypothesis_length: int
    reference_length: int
    chrf: float
    chrf_signature: str
    exact_match: float | None
    num_sentences: int
    ter: float | None = None
    ter_signature: str | None = None
    comet: float | None = None
    comet_model: str | None = None
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class MetricScore:
    """One score of one system in a comparison with a baseline.

    Attributes:
        score: Corpus score on the whole test set.
        mean: Its mean over the bootstrap resamples.
        confidence_interval: Half the width of the 95 % interval around `mean`.
        p_value: sacreBLEU's, which is one-sided: how often a resample's difference lies so far
            above the resamples' mean; `None` for the baseline itself.
        signature: sacreBLEU's signature, with number of resamples and seed.
    """

    score: float
    mean: float
    confidence_interval: float
    p_value: float | None
    signature: str


@dataclass(frozen=True)
class SystemScore:
    """The scores of one system in a comparison with a baseline.

    Attributes:
        name: The system's name.
        metrics: Its scores by `BLEU`, `chrF2` and `TER`.
    """

    name: str
    metrics: Mapping[str, MetricScore]

    @property
    def bleu(self) -> float:
        """Corpus BLEU on the whole test set, 0 to 100."""
        return self.metrics["BLEU"].score


def choose_tokenizer(tokenize: str, language: str) -> str:
    """Returns the sacreBLEU tokenizer for a target language.

    Args:
        tokenize: `"auto"`, or the name of a tokenizer, which is then the answer.
        language: ISO code, such as `"zh"` or `"zh_Hans"`; may be empty.
    """
    if tokenize != "auto":
        return tokenize
    if has_blanks(language) and base_language(language) != "ko":
        return TOKENIZER
    return LANGUAGE_TOKENIZERS.get(base_language(language), "char")


def score_hypotheses(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *more_references: Sequence[str],
    tokenize: str = TOKENIZER,
    lowercase: bool = False,
    exact_match: bool = False,
    full: bool = False,
) -> Scores:
    """Scores hypotheses against one reference each, or several.

    Two conventions are in use and give different numbers for the same output: the defaults, for
    detokenised text in its own case, and `tokenize="none"`, for text already tokenised (and, if
    the convention asks for it, already lower-cased). `tokenize="multi-bleu"` is the second as
    Moses's `multi-bleu.perl` computes it, to the last digit.

    Args:
        hypotheses: One translation per source sentence. A string may be empty.
        references: The reference translations, in the same order.
        more_references: Other translations of the same sources, if there are.
        tokenize: Name of a sacreBLEU tokenizer, such as `"13a"`, `"none"`, `"intl"`, `"char"`; or
            `"multi-bleu"`.
        lowercase: Whether to ignore case in all scores.
        exact_match: Whether to compute the percentage of hypotheses that equal a reference,
            white space at either end aside.
        full: Whether to compute TER, too, and the intervals. TER is sacreBLEU's default, without
            regard to case. With the tokenizers of Asian languages, and `"char"`, each Chinese
            character is a word; in other scripts words are what stands between blanks.

    Returns:
        The scores, with a signature for each metric.

    Raises:
        UserError: If the counts differ, there is nothing to score, or the tokenizer is unknown.

    Example:
    >>> scores = score_hypotheses(["Ein Hund ."], ["Ein Hund ."], tokenize="none")
    >>> scores.chrf
    100.0
    """
    streams = [references, *more_references]
    _check_counts("hypotheses", hypotheses, streams)
    metrics = {"bleu": build_bleu(tokenize, lowercase), "chrf": CHRF(lowercase=lowercase)}
    metrics |= {"ter": _build_ter(tokenize)} if full else {}
    found, intervals = {}, {}
    for name, metric in metrics.items():
        counts = metric._extract_corpus_statistics(hypotheses, streams)
        found[name] = metric._aggregate_and_compute(counts)
        if full:
            intervals[name] = interval(metric, np.array(counts))
    matches = _exact_matches(hypotheses, streams, lowercase) if exact_match else 0
    if exact_match and full:
        intervals["exact_match"] = _interval_of_share(matches, len(hypotheses))
    bleu = found["bleu"]
    return Scores(
        bleu=float(bleu.score),
        bleu_signature=signed(metrics["bleu"].get_signature(), tokenize),
        precisions=tuple(float(precision) for precision in bleu.precisions),
        brevity_penalty=float(bleu.bp),
        hypothesis_length=int(bleu.sys_len),
        reference_length=int(bleu.ref_len),
        chrf=float(found["chrf"].score),
        chrf_signature=str(metrics["chrf"].get_signature()),
        exact_match=100 * matches / len(hypotheses) if exact_match else None,
        num_sentences=len(hypotheses),
        ter=float(found["ter"].score) if full else None,
        ter_signature=str(metrics["ter"].get_signature()) if full else None,
        intervals=intervals,
    )


def resamples(count: int) -> Iterator[npt.NDArray[np.int64]]:
    """Yields how often each of `count` sentences is drawn in each bootstrap sample, `[N]`.

    Sentences are drawn with replacement (Koehn, 2004), as many as there are.
    """
    generator = np.random.default_rng(SEED)
    for _ in range(SAMPLES):
        yield generator.multinomial(count, np.full(count, 1 / count))


def interval(metric: Metric, *trainings: npt.NDArray[Any]) -> tuple[float, float]:
    """Returns the ends of the 95 % bootstrap interval of a corpus score, a mean over trainings.

    Sentences are drawn with replacement, the same for all trainings (Koehn, 2004).

    Args:
        metric: One of sacreBLEU's.
        trainings: What it counted in each sentence, `[N, any]`, for each training.
    """
    return ends(
        [
            fmean(metric._compute_score_from_stats((often @ each).tolist()).score
                  for each in trainings)
            for often in resamples(len(trainings[0]))
        ]
    )  # fmt: skip


def ends(scores: Sequence[float] | npt.NDArray[Any]) -> tuple[float, float]:
    """Returns the ends of the interval that holds the middle 95 % of resampled scores."""
    low, high = np.quantile(scores, (0.025, 0.975))
    return float(low), float(high)


def _interval_of_share(matches: int, count: int) -> tuple[float, float]:
    """Returns the ends of the bootstrap interval of a share, in percent."""
    drawn = np.random.default_rng(SEED).binomial(count, matches / count, SAMPLES)
    return ends(100 * drawn / count)


def compare_systems(
    named_hypotheses: Mapping[str, Sequence[str]],
    references: Sequence[str],
    *more_references: Sequence[str],
    tokenize: str = TOKENIZER,
    lowercase: bool = False,
    samples: int = SAMPLES,
) -> list[SystemScore]:
    """Compares systems with a baseline by sacreBLEU's paired bootstrap resampling.

    BLEU, chrF2 and TER are compared, all by the same samples.

    The p-values are sacreBLEU's, with one exception. Where a metric gives a system the baseline's
    score, its p-value is 1. sacreBLEU counts the samples that differ by more than the scores do;
    where all are equal, too, it counts none and reports the smallest it can, 1 / (samples + 1).

    Args:
        named_hypotheses: Hypotheses by system name, at least two systems. The first one is the
            baseline.
        references: The reference translations, in the same order as each system's hypotheses.
        more_references: Other translations of the same sources, if there are.
        tokenize: See `score_hypotheses`.
        lowercase: Whether to ignore case.
        samples: Number of bootstrap resamples. Positive.

    Returns:
        One score per system, in the order given, the baseline first.

    Raises:
        UserError: If there are fewer than two systems, counts differ, or a setting is out of
            range.

    Side effects:
        Sets the environment variable `SACREBLEU_SEED` while it runs, the only way sacreBLEU
        takes a seed, and then restores it.
    """
    if len(named_hypotheses) < 2:
        raise UserError(
            "A comparison needs a baseline and at least one other system. "
            f"Received: {', '.join(named_hypotheses) or 'none'}."
        )
    if samples < 1:
        raise UserError(f"`samples` should be positive. Received: {samples}.")
    for name, hypotheses in named_hypotheses.items():
        _check_counts(f"hypotheses of system '{name}'", hypotheses, [references, *more_references])
    with sacrebleu_seed(SEED):
        test = PairedTest(
            list(named_hypotheses.items()),
            {
                "BLEU": build_bleu(tokenize, lowercase),
                "chrF2": CHRF(lowercase=lowercase),
                "TER": _build_ter(tokenize),
            },
            [references, *more_references],
            test_type="bs",
            n_samples=samples,
        )
        signatures, columns = test()
    scores = []
    for row, name in enumerate(named_hypotheses):
        metrics = {
            metric: _metric_score(columns[metric][row], columns[metric][0], signature)
            for metric, signature in signatures.items()
        }
        bleu = metrics["BLEU"]
        metrics["BLEU"] = replace(bleu, signature=signed(bleu.signature, tokenize))
        scores.append(SystemScore(name, metrics))
    return scores


def _metric_score(result: Any, baseline: Any, signature: object) -> MetricScore:
    """Returns what sacreBLEU found of a system and a metric, beside what it found of the first."""
    if not isinstance(result, Result) or result.mean is None or result.ci is None:
        raise TypeError(f"sacreBLEU should give a bootstrap result. Received: {result!r}")
    p_value = None if result.p_value is None else float(result.p_value)
    if p_value is not None and result.score == baseline.score:
        p_value = 1.0
    figures = float(result.score), float(result.mean), float(result.ci)
    return MetricScore(*figures, p_value, str(signature))


def build_bleu(tokenize: str, lowercase: bool) -> BLEU:
    """Returns the BLEU metric, or raises `UserError` naming the tokenizers there are."""
    if tokenize == MULTI_BLEU:
        return _MultiBleu(tokenize="none", smooth_method="none", lowercase=lowercase, force=True)
    if tokenize not in BLEU.TOKENIZERS:
        known = ", ".join([*BLEU.TOKENIZERS, MULTI_BLEU])
        raise UserError(f"Unknown BLEU tokenizer '{tokenize}'. Choose from: {known}.")
    # With "none" the text is tokenised on purpose, so sacreBLEU's advice to detokenise is wrong.
    try:
        return BLEU(tokenize=tokenize, lowercase=lowercase, force=tokenize == "none")
    except (ImportError, RuntimeError, OSError) as error:  # it needs a package, or a download
        raise UserError(f"The BLEU tokenizer '{tokenize}' can not be used: {error}") from error


def _build_ter(tokenize: str) -> TER:
    """Returns the TER metric; with BLEU's tokenizers of Asia it divides Chinese characters."""
    without_blanks = tokenize in (*LANGUAGE_TOKENIZERS.values(), "char")
    return TER(normalized=without_blanks, asian_support=without_blanks)


def signed(signature: object, tokenize: str) -> str:
    """Returns sacreBLEU's signature as text; of multi-bleu it says so."""
    return f"{signature}|as:{MULTI_BLEU}.perl" if tokenize == MULTI_BLEU else str(signature)


class _MultiBleu(BLEU):
    """BLEU as `multi-bleu.perl` computes it: text is bytes there, of which ASCII alone has meaning.

    So no-break and other blanks beyond ASCII are parts of words, and `-lc` lowers A to Z alone.
    Zero matches of an order make the score 0.
    """

    def _preprocess_segment(self, sent: str) -> str:
        if self.lowercase:
            sent = re.sub("[A-Z]+", lambda match: match[0].lower(), sent)
        return re.sub(r"[^\S \t\n\r\f\v]", lambda match: f"<{ord(match[0]):x}>", sent)


def _check_counts(
    what: str, hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> None:
    """Raises `UserError` unless each reference has a line for each of one or more hypotheses."""
    for k, stream in enumerate(references, start=1):
        if len(hypotheses) != len(stream):
            several = f", in references {k} of {len(references)}" if len(references) > 1 else ""
            raise UserError(
                f"The {what} and the references should have the same number of lines. "
                f"Received: {len(hypotheses)} and {len(stream)}{several}."
            )
    if not hypotheses:
        raise UserError(f"There is nothing to score: the {what} and the references are empty.")


def _exact_matches(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]], lowercase: bool
) -> int:
    """Returns how many hypotheses equal a reference of theirs."""

    def plain(text: str) -> str:
        return (text.lower() if lowercase else text).strip()

    return sum(
        plain(hypothesis) in map(plain, theirs)
        for hypothesis, *theirs in zip(hypotheses, *references, strict=True)
    )


@contextlib.contextmanager
def sacrebleu_seed(seed: int) -> Iterator[None]:
    """Sets sacreBLEU's seed for the length of a `with` block."""
    previous = os.environ.get(_SEED_VARIABLE)
    os.environ[_SEED_VARIABLE] = str(seed)
    try:
        yield
    finally:
        if previous is None:
            del os.environ[_SEED_VARIABLE]
        else:
            os.environ[_SEED_VARIABLE] = previous
