"""What a run translates, and how good that is."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tensorflow as tf

from dtmt_tf.batched_lines import translate_lines, translate_to
from dtmt_tf.config import EOS_ID, ExportConfig
from dtmt_tf.data.dictionary import read_dictionary
from dtmt_tf.data.lexicon import frequent, lexical_table, word_dictionary
from dtmt_tf.data.lines import LINES_READ
from dtmt_tf.data.own_files import find_file
from dtmt_tf.decoding import Shortlist
from dtmt_tf.errors import UserError
from dtmt_tf.evaluation import Scores, choose_tokenizer, score_hypotheses
from dtmt_tf.export import Endpoints, made_of, never_written, program_hash
from dtmt_tf.files import size_and_hash, write_json
from dtmt_tf.models import TranslationModel
from dtmt_tf.resumable_lines import ResumableLines
from dtmt_tf.runs.noted_texts import warn_of_others
from dtmt_tf.runs.run import Run
from dtmt_tf.runs.subwords import note_subwords
from dtmt_tf.runs.weights import best_model
from dtmt_tf.terminal import line_bar

logger = logging.getLogger(__name__)


OF_TRAINING = "train"  # a dictionary that is made of that text
FREQUENT = 1000  # target sub-words in every shortlist
BATCHES_SORTED_TOGETHER = 16  # by length; a command that is stopped loses as many
Translate = Callable[[tf.Tensor], tf.Tensor]  # strings `[B]` -> translations
ScorePairs = Callable[[list[tuple[str, str]]], list[tuple[float, int]]]


def endpoints(
    run: Run, model: TranslationModel, limits: ExportConfig | None = None, searches: bool = True
) -> Endpoints:
    """Returns a run's model as functions of strings, by its present weights.

    Args:
        run: The run.
        model: Its model.
        limits: What requests may ask for.
        searches: Whether it translates: only then dictionary and shortlist are made.

    Raises:
        UserError: If there is no `decoding.dictionary`, or it can not be read; see `shortlist`.
    """
    data, decoding = run.experiment.data, run.experiment.decoding
    return Endpoints(
        *(model, run.vocabulary, decoding, data.max_length, data.target_language),
        limits,
        _dictionary(run) if searches else {},
        shortlist(run) if searches and decoding.shortlist else None,
    )


def shortlist(run: Run) -> Shortlist:
    """Returns the target sub-words that a search tries, by the run's training pairs.

    Raises:
        UserError: If the run is an ensemble: it averages probabilities, which those of a sentence's
            neighbours would change.
    """
    if run.members:
        raise UserError("decoding.shortlist is for single models; an ensemble takes 0.")
    sizes = run.vocabulary.source.size, run.vocabulary.target.size
    count = run.experiment.decoding.shortlist
    warn_of_others(run, "train")
    logger.info("Aligning training pairs for decoding.shortlist=%d", count)
    count = min(count, sizes[1])
    table = lexical_table(run.shards.blocks, sizes, count, EOS_ID)
    always = frequent(run.shards.blocks(), sizes[1], FREQUENT)
    never = never_written(run.vocabulary.target, run.experiment.decoding)
    return Shortlist(table, always[~np.isin(always, never)], sizes[1])


def _dictionary(run: Run) -> dict[str, str]:
    """Returns what `decoding.dictionary` stands for, if it is to be read."""
    decoding = run.experiment.decoding
    if not (decoding.replace_unknown and decoding.dictionary):
        return {}
    if decoding.dictionary == OF_TRAINING:
        warn_of_others(run, "train")
        logger.info("Aligning training pairs for decoding.dictionary=%s", OF_TRAINING)
        return word_dictionary(*run.corpus.sampled("train", LINES_READ))
    try:
        path = find_file(decoding.dictionary, run.task, run.data_dir, run.cache_dir)
    except UserError as error:
        raise UserError(f"decoding.dictionary: {error}") from error
    return read_dictionary(path)


def translate_function(run: Run, model: TranslationModel) -> Translate:
    """Returns strings `[B]` -> translations, by the model's present weights."""
    return _translating(endpoints(run, model))


def _translating(answers: Endpoints) -> Translate:
    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def translate(texts: tf.Tensor) -> tf.Tensor:
        return answers.translate(texts)["translation"]

    return translate


def score_function(run: Run, model: TranslationModel) -> ScorePairs:
    """Returns pairs of texts -> log probability and number of sub-words of each."""
    answers, texts = endpoints(run, model, searches=False), tf.TensorSpec([None], tf.string)
    function = tf.function(answers.score, input_signature=[texts, texts])

    def scored(pairs: list[tuple[str, str]]) -> list[tuple[float, int]]:
        outputs = function(*(tf.constant(side) for side in zip(*pairs, strict=True)))
        return [
            (float(value), int(tokens))
            for value, tokens in zip(
                outputs["log_probability"].numpy(), outputs["tokens"].numpy(), strict=True
            )
        ]

    return scored


def translate(run: Run, lines: list[str], function: Translate, progress: str) -> list[str]:
    """Translates lines with a progress bar."""
    with line_bar(len(lines), progress) as bar:
        return translate_lines(lines, function, run.experiment.decoding.batch_size, bar.update)


def score(run: Run, translations: list[str], references: list[str], full: bool = False) -> Scores:
    """Scores translations as the run's task wants it; if `full`, by TER too, with intervals."""
    settings = run.experiment.evaluation
    return score_hypotheses(
        translations,
        references,
        tokenize=choose_tokenizer(settings.tokenize, run.experiment.data.target_language),
        lowercase=settings.lowercase,
        exact_match=settings.exact_match,
        full=full,
    )


def translations_file(run: Run, split: str) -> Path:
    """Returns where a run's translations of a split are kept, a line each."""
    return run.work / f"{split}.txt"


def translations_of(run: Run, split: str) -> list[str]:
    """Returns the translations of a split that was evaluated."""
    return translations_file(run, split).read_bytes().decode().split("\n")[:-1]


def check_split(run: Run, split: str) -> None:
    """Raises a UserError if a run's corpus has no such split."""
    if split not in run.corpus.sizes:
        raise UserError(
            f"There is no {split} split. Choose with --split: {', '.join(run.corpus.sizes)}. "
            "data.extra_tests=STEM names files that end in the languages, such as STEM.en."
        )


def evaluate(run: Run, split: str) -> Scores:
    """Translates a split with the best weights and scores it.

    Side effects:
        Warns if the split's files are others than when the run began.
        Writes `train/<split>.txt` (the translations) and `train/scores.json`.
    """
    check_split(run, split)
    run.check_trained()  # before anything is made
    run.read("scores.json")  # a damaged one is told before hours of search
    score(run, ["text"], ["text"])  # so that a scorer which fails does so before hours of search
    warn_of_others(run, split)
    with run.claimed():
        return _evaluate(run, split)


def _evaluate(run: Run, split: str) -> Scores:
    note_subwords(run)
    model, steps = best_model(run)
    trained = [member.newest() for member in run.members or [run]]
    sources, references = run.corpus.lines(split)
    path, decoding = translations_file(run, split), run.experiment.decoding
    answers = endpoints(run, model)
    made = made_of(answers)
    search = {"decoding": dataclasses.asdict(decoding), "program": program_hash()}
    function = _translating(answers)
    with ResumableLines(path, made | search) as output:
        translate_to(output, sources, function, decoding.batch_size, BATCHES_SORTED_TOGETHER, split)
    translations = translations_of(run, split)
    scores = score(run, translations, references, full=True)
    fingerprint = run.vocabulary.fingerprint
    results = {
        name: result
        for name, result in run.read("scores.json").items()
        if result.get("vocabulary", fingerprint) == fingerprint  # else they are another run's
        and name != split  # what is scored last stands last
    }
    results[split] = {
        **dataclasses.asdict(scores),
        "vocabulary": fingerprint,
        "checkpoint_steps": steps,
        "translations_sha256": size_and_hash(path)["sha256"],
        **made,
        "training": {
            "updates": sum(each.step for each in trained),
            "minutes_in_updates": round(sum(each.seconds for each in trained) / 60, 2),
            "target_words": sum(each.tokens for each in trained),
            "seed": run.experiment.training.seed,
        },
        "parameters": model.count_params(),
        "decoding": dataclasses.asdict(run.experiment.decoding),
        "evaluation": dataclasses.asdict(run.experiment.evaluation),
    }
    write_json(run.work / "scores.json", results)
    return scores
