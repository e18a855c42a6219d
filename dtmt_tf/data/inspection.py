"""What a corpus is like: lengths, words and characters of each side; what filters would drop."""

from __future__ import annotations

import dataclasses
import importlib.util
import itertools
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from dtmt_tf.config import FILTERS, DataConfig
from dtmt_tf.data import filters
from dtmt_tf.data.check import TRAIN
from dtmt_tf.data.corpus import Corpus
from dtmt_tf.errors import UserError
from dtmt_tf.languages import has_blanks

COUNTED = 1_000_000  # training pairs whose words and characters are counted, drawn evenly
SHOWN = 5  # pairs that each filter would drop
SAMPLES = 10  # pairs, drawn evenly

Pairs = list[tuple[str, str]]


@dataclass
class Side:
    """One side of a split.

    Args:
        language: Its code; without one, words stand between blanks.

    Attributes:
        lengths: Of each line: words, or characters of a language without blanks.
        words: How often each word occurs; characters of a language without blanks.
        characters: How often each character occurs.
    """

    language: str
    lengths: array = field(default_factory=lambda: array("i"))
    words: Counter[str] = field(default_factory=Counter)
    characters: Counter[str] = field(default_factory=Counter)

    @property
    def unit(self) -> str:
        """What lengths count."""
        return "words" if has_blanks(self.language) else "characters"

    def add(self, line: str, counted: bool = True) -> None:
        """Adds a line; its words and characters only if they are `counted`."""
        words = line.split() if has_blanks(self.language) else [*line]
        self.lengths.append(len(words))
        if counted:
            self.words.update(words)
            self.characters.update(line)

    def covered(self, most_frequent: int) -> float:
        """Returns which share of the running words the most frequent ones are, in percent."""
        part = sum(count for _, count in self.words.most_common(most_frequent))
        return 100 * part / max(self.words.total(), 1)

    def unseen(self, held_out: Side) -> tuple[float, float]:
        """Returns how much of another text's running words and characters is not here, percent."""
        words, characters = (
            sum(count for each, count in theirs.items() if each not in ours)
            for ours, theirs in (
                (self.words, held_out.words),
                (self.characters, held_out.characters),
            )
        )
        return (
            100 * words / max(held_out.words.total(), 1),
            100 * characters / max(held_out.characters.total(), 1),
        )


@dataclass
class Inspected:
    """What is found out about a corpus.

    Args:
        splits: Source and target of each split, by name.
        ratios: Characters of the source for each of the target, of each training pair, `[N]`.
        usual_ratio: Their median.
        dropped: Number of training pairs that each filter would drop alone.
        left: Number of training pairs that none of them would drop.
        examples: Some of the pairs that each would drop.
        missing: Filters that can not be tried here, and why.
        samples: Training pairs, drawn evenly.
        step: Words and characters of the training text are counted in one of so many pairs.
    """

    splits: dict[str, tuple[Side, Side]]
    ratios: np.ndarray
    usual_ratio: float
    dropped: dict[str, int]
    left: int
    examples: dict[str, Pairs]
    missing: dict[str, str]
    samples: Pairs
    step: int


def inspect(corpus: Corpus, data: DataConfig) -> Inspected:
    """Reads a corpus once, and the training pairs that are shown once more.

    Args:
        corpus: The text, nothing dropped.
        data: Languages, and the settings of filters.
    """
    languages = data.source_language, data.target_language
    splits = {name: (Side(languages[0]), Side(languages[1])) for name in corpus.sizes}
    for name in corpus.sizes:
        if name != TRAIN:
            for pair in corpus.stream(name):
                for side, line in zip(splits[name], pair, strict=True):
                    side.add(line)
    sizes, step = array("i"), -(-corpus.sizes[TRAIN] // COUNTED)

    def watched(pairs: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
        for number, pair in enumerate(pairs):
            for side, line in zip(splits[TRAIN], pair, strict=True):
                side.add(line, counted=number % step == 0)
            source, target = pair
            sizes.extend((len(filters.untagged(source, data.reserved_symbols)), len(target)))
            yield pair

    missing = _missing(languages)
    tried = tuple(name for name in FILTERS if name not in missing)
    masks = filters.judge(watched(corpus.stream(TRAIN)), dataclasses.replace(data, filters=tried))
    characters = np.frombuffer(sizes, np.int32).reshape(-1, 2)
    source, target = np.maximum(characters, 1).T
    shown = {name: np.flatnonzero(mask)[:SHOWN].tolist() for name, mask in masks.items()}
    evenly = np.unique(np.linspace(0, len(characters) - 1, SAMPLES).astype(int)).tolist()
    found = _pairs(corpus, sorted({*evenly, *itertools.chain(*shown.values())}))
    return Inspected(
        splits,
        source / target,
        filters.usual_ratio(characters),
        {name: int(mask.sum()) for name, mask in masks.items()},
        int(np.sum(~np.logical_or.reduce([*masks.values()]))),
        {name: [found[row] for row in rows] for name, rows in shown.items()},
        missing,
        [found[row] for row in evenly],
        step,
    )


def _missing(languages: tuple[str, str]) -> dict[str, str]:
    """Returns which filters can not be tried, and why."""
    found = {}
    if not all(languages):
        why = "data.source_language and data.target_language are not set"
        found = dict.fromkeys(("script", "language"), why)
    elif importlib.util.find_spec(filters.IDENTIFIER) is None:
        found["language"] = f"{filters.IDENTIFIER} is not installed"
    else:
        try:
            filters.RULES["language"](languages)
        except UserError as error:  # it does not know them
            found["language"] = str(error).rpartition(": ")[2].rstrip(".")
    return found


def _pairs(corpus: Corpus, rows: Sequence[int]) -> dict[int, tuple[str, str]]:
    """Returns training pairs by their numbers, which ascend."""
    wanted, found = iter(rows), {}
    row = next(wanted, None)
    for number, pair in enumerate(corpus.stream(TRAIN)):
        if row is None:
            break
        if number == row:
            found[number] = pair
            row = next(wanted, None)
    return found
