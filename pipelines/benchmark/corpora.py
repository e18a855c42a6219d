"""The text of the measurements: Multi30k if it is there, else random ids of the same lengths."""

from __future__ import annotations

import itertools
import tempfile
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dtmt_tf.commands import common
from dtmt_tf.errors import UserError
from dtmt_tf.experiment import Experiment
from dtmt_tf.planning.random_ids import vocabulary_sizes

if TYPE_CHECKING:
    from dtmt_tf.data.pipeline import TrainingSet
    from dtmt_tf.runs import Run
    from dtmt_tf.text import Vocabulary

RANDOM = "random ids"
# Source and target length with <eos> of every 242nd pair of multi30k_ende's training set in 8,000
# joint sub-words, sorted; means 15.3 and 15.9, of the whole set 15.3 and 15.8
LENGTHS = """
7-9 8-8 8-10 9-8 9-9 9-9 9-10 9-12 10-8 10-9 10-10 10-10 10-11 10-12 10-13 11-8 11-9 11-10 11-10
11-11 11-11 11-12 11-12 11-13 11-15 12-9 12-10 12-11 12-11 12-12 12-12 12-12 12-13 12-13 12-14 12-15
12-16 13-10 13-11 13-12 13-12 13-13 13-13 13-13 13-14 13-15 13-15 13-16 13-18 14-11 14-12 14-13
14-13 14-14 14-14 14-15 14-15 14-16 14-17 14-18 15-11 15-13 15-13 15-14 15-15 15-15 15-16 15-16
15-17 15-18 15-21 16-13 16-14 16-15 16-15 16-16 16-17 16-18 16-19 16-20 17-12 17-15 17-16 17-17
17-18 17-19 17-20 17-22 18-14 18-16 18-17 18-18 18-19 18-21 18-25 19-16 19-18 19-19 19-21 19-23
20-16 20-19 20-20 20-22 20-31 21-20 21-22 21-25 22-19 22-22 22-26 23-22 23-26 24-23 24-31 25-27
26-27 27-30 29-31 33-41
"""
PAIRS = 12_000
LEARNT_FROM = 100_000  # pairs of made up text, for sub-words


def open_run(options: Namespace) -> Run | None:
    """Returns the run of `--run`, else a new one on the data directory, or none without either.

    A new run's sub-words are kept in a folder named after the preset, below the other runs.
    """
    from dtmt_tf.runs import Run

    data_dir, cache_dir = common.places(options)
    if options.run:
        return Run.open(options.run, data_dir, cache_dir, options.set)
    if not data_dir:
        return None
    experiment, origins = common.experiment(options)
    folder = options.output_dir / options.task / f"benchmark_{options.preset.rstrip('+')}"
    return Run(experiment, folder, data_dir, cache_dir, origins)


def need_run(options: Namespace) -> Run:
    """Like `open_run`, but never none.

    Raises:
        UserError: If there is nothing to read.
    """
    run = open_run(options)
    if run is None:
        raise UserError(
            "This reads text. Name the folder above multi30k with --data-dir, or a trained run "
            "with --run."
        )
    return run


def text_of(
    experiment: Experiment, run: Run | None, copies: int = 1, pairs: int = 0
) -> tuple[Any, Vocabulary] | None:
    """Returns text and the sub-words of it, or nothing if there is no text.

    Args:
        experiment: The settings.
        run: The source of the text, if it is not made up.
        copies: How often its pairs are repeated.
        pairs: Above 0, the number of made-up pairs, in sub-words learnt from them.
    """
    from dtmt_tf.text import Vocabulary

    if pairs:
        made = RandomText(pairs)
        source, target = zip(*made.stream("train", 0, LEARNT_FROM), strict=True)
        return made, Vocabulary.train(source, target, experiment.data)
    if run:
        return Repeated(list(run.corpus.stream("train")), copies), run.vocabulary
    return None


def training_set(
    experiment: Experiment, text: tuple[Any, Vocabulary] | None, copies: int = 1
) -> TrainingSet:
    """Returns the pairs of `text_of`, or random ids, from shards made for this process."""
    from dtmt_tf.data.pipeline import TrainingSet
    from dtmt_tf.data.shards import Shards, preparation

    data, training = experiment.data, experiment.training
    if text is None:
        return random_set(experiment, PAIRS * copies)
    corpus, vocabulary = text
    rate = training.subword_dropout_rate
    made = preparation(_folder(), corpus, vocabulary, bool(rate))
    made.run()
    samplers = vocabulary.samplers(rate)
    return TrainingSet(Shards(made.folder), data.max_length, samplers, training.seed)


def random_set(experiment: Experiment, pairs: int) -> TrainingSet:
    """Returns pairs of random ids with the lengths of `LENGTHS`, in turn."""
    from dtmt_tf.config import EOS_ID, UNK_ID
    from dtmt_tf.data.pipeline import TrainingSet
    from dtmt_tf.data.shards import Preparation, Shards

    def numbers(texts: Sequence[str]) -> list[list[int]]:
        return [[*map(int, text.split()), EOS_ID] for text in texts]

    random = np.random.default_rng(0)
    sides: list[list[str]] = []
    for side, size in enumerate(vocabulary_sizes(experiment)):
        rows = (
            random.integers(UNK_ID + 1, size, pair[side] - 1)
            for pair in itertools.islice(itertools.cycle(_lengths()), pairs)
        )
        sides.append([" ".join(map(str, row)) for row in rows])
    corpus = Repeated(list(zip(*sides, strict=True)), 1)
    folder = _folder()
    Preparation(folder, corpus, (numbers, numbers)).run()
    return TrainingSet(Shards(folder), experiment.data.max_length)


class Repeated:
    """A corpus: some pairs over and over.

    Args:
        pairs: The pairs.
        copies: How often.
    """

    def __init__(self, pairs: Sequence[tuple[str, str]], copies: int) -> None:
        self.pairs = pairs
        self.sizes: Mapping[str, int] = {"train": copies * len(pairs)}
        self.fingerprint = ""

    def stream(
        self, split: str, start: int = 0, stop: int | None = None
    ) -> Iterator[tuple[str, str]]:
        """Yields the pairs from `start` to before `stop`."""
        for k in range(start, self.sizes[split] if stop is None else stop):
            yield self.pairs[k % len(self.pairs)]


class RandomText:
    """A corpus of made-up words with the frequencies of real ones, two words per three sub-words.

    Args:
        pairs: How many pairs it has; none is kept.
    """

    WORDS = 20_000
    LETTERS = "etaoinsrhldcumfpgwybvkxjqz"

    def __init__(self, pairs: int) -> None:
        self.sizes: Mapping[str, int] = {"train": pairs}
        self.fingerprint = ""
        random = np.random.default_rng(0)
        chances = 1 / np.arange(1, len(self.LETTERS) + 1)
        letters = random.choice(list(self.LETTERS), (self.WORDS, 12), p=chances / chances.sum())
        ends = random.integers(2, 13, self.WORDS)
        rows = zip(letters.tolist(), ends.tolist(), strict=True)
        self.words = ["".join(row[:end]) for row, end in rows]

    def stream(
        self, split: str, start: int = 0, stop: int | None = None
    ) -> Iterator[tuple[str, str]]:
        """Yields the pairs from `start` to before `stop`: the same ones for the same `start`."""
        random = np.random.default_rng(start)
        lengths = itertools.cycle(_lengths())
        for _ in range(start, self.sizes[split] if stop is None else stop):
            source, target = (2 * length // 3 for length in next(lengths))
            # Zipf's law: the n-th word is used 1 / n times as often as the first
            ranks = (self.WORDS ** random.random(source + target)).astype(int)
            words = [self.words[rank - 1] for rank in ranks.tolist()]
            yield " ".join(words[:source]), " ".join(words[source:])


def _lengths() -> list[tuple[int, int]]:
    """Returns `LENGTHS` as numbers."""
    pairs = (pair.split("-") for pair in LENGTHS.split())
    return [(int(source), int(target)) for source, target in pairs]


_folders: list[tempfile.TemporaryDirectory] = []  # removed when the process ends


def _folder() -> Path:
    _folders.append(tempfile.TemporaryDirectory(prefix="benchmark"))
    return Path(_folders[-1].name)
