"""A task's corpus: its text found, checked, prepared once and read."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from dtmt_tf.config import DataConfig, Task
from dtmt_tf.data import catalogue, own_files, rendered
from dtmt_tf.data.check import TRAIN
from dtmt_tf.data.filtered import FilteredText
from dtmt_tf.data.parallel_text import PreparedText
from dtmt_tf.data.request import Request
from dtmt_tf.errors import UserError

# Sources of text by their name in `data.corpus`. Own files may be added to any other source.
FILES = "files"
SOURCES: Mapping[str, Callable[[Request], PreparedText]] = {
    FILES: own_files.load,
    "cldr": rendered.load,
    "tfds": catalogue.load,
}

Pairs = tuple[list[str], list[str]]


class Corpus:
    """Parallel text in splits: train, validation, test and extra tests by name.

    Args:
        texts: The data sets that hold it. A split of a later one takes the place of an
            earlier one's of the same name.

    Attributes:
        sizes: Number of pairs by split.
        findings: What the data check found worth telling.
        fingerprint: Hash of the training split's text.
        dropped: Number of training pairs that are left out, by filter.
    """

    def __init__(self, texts: Sequence[PreparedText]) -> None:
        self._texts = {split: text for text in texts for split in text.sizes}
        self.sizes = {split: text.sizes[split] for split, text in self._texts.items()}
        self.findings = [finding for text in texts for finding in text.facts.findings]
        if TRAIN not in self._texts:
            raise UserError(f"There is no {TRAIN} split, but {', '.join(self.sizes)}.")
        train = self._texts[TRAIN]
        self.fingerprint = train.facts.fingerprint
        self.dropped = train.dropped if isinstance(train, FilteredText) else {}

    def stream(
        self, split: str, start: int = 0, stop: int | None = None
    ) -> Iterator[tuple[str, str]]:
        """Yields source and target of the pairs from `start` to before `stop`, in order.

        Memory is bounded, and at most one shard is read of the pairs before `start`.
        """
        return self._texts[split].stream(split, start, stop)

    def sampled(self, split: str, most: int) -> Pairs:
        """Returns source and target lines of a split, every n-th pair if it has more than `most`.

        Memory is bounded.
        """
        every = max(1, math.ceil(self.sizes[split] / most))
        pairs = list(itertools.islice(self.stream(split), 0, None, every))
        return [source for source, _ in pairs], [target for _, target in pairs]

    def lines(self, split: str, stop: int | None = None) -> Pairs:
        """Returns source and target lines of a split, or of its first `stop` pairs."""
        pairs = list(self.stream(split, 0, stop))
        return [source for source, _ in pairs], [target for _, target in pairs]


def load_corpus(data: DataConfig, task: Task, data_dir: Path | None, cache_dir: Path) -> Corpus:
    """Returns the corpus that the settings name, checked and prepared on first use.

    The user's own files replace splits of the same name from another source.

    Args:
        data: Names the corpus or its files.
        task: Knows where its public files come from.
        data_dir: Where the user keeps data sets.
        cache_dir: Where downloads and prepared data sets go.

    Raises:
        UserError: If a file is missing or faulty, or a public corpus can not be downloaded.
    """
    request = Request(data, task, data_dir, cache_dir)
    sources = [SOURCES[data.corpus]]
    if data.corpus != FILES and own_files.are_named(data):
        sources.append(SOURCES[FILES])
    texts = [load(request) for load in sources]
    with_train = [k for k, text in enumerate(texts) if TRAIN in text.sizes]
    if data.extra_tests:
        train = texts[with_train[-1]] if with_train else None
        texts.append(own_files.load_extra_tests(request, train))
    if data.filters and with_train:
        last = with_train[-1]  # the one that is trained on
        splits = (TRAIN, own_files.VALIDATION) if own_files.holds_out(data) else (TRAIN,)
        texts[last] = FilteredText(texts[last], data, request.datasets / "filtered", splits)
    return Corpus(texts)
