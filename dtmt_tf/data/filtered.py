"""Parallel text without the pairs that filters drop. Nothing is copied."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dtmt_tf.config import DataConfig
from dtmt_tf.data import filters
from dtmt_tf.data.check import TRAIN
from dtmt_tf.data.parallel_text import PreparedText
from dtmt_tf.errors import UserError
from dtmt_tf.files import write_atomically
from dtmt_tf.folders import locked
from dtmt_tf.terminal import counted

logger = logging.getLogger(__name__)

KEPT = 0  # in the array of reasons; else 1 + the place of the filter


class FilteredText(PreparedText):
    """A data set whose training split lacks what filters drop, and others taken from the same text.

    A pair that several filters would drop counts for the first of them.

    Args:
        text: The data set as it is.
        data: Names the filters.
        folder: Where their verdicts are kept, a byte a pair.
        splits: Those that are filtered, training first; they are judged as one text.

    Attributes:
        dropped: Number of training pairs by the filter that drops them.

    Raises:
        UserError: If no training pair is left; or see `filters.judge`.

    Side effects:
        Warns of another split of which no pair is left; there is none then.
    """

    def __init__(
        self,
        text: PreparedText,
        data: DataConfig,
        folder: Path,
        splits: Sequence[str] = (TRAIN,),
    ) -> None:
        ends = np.cumsum([text.sizes[split] for split in splits])
        parts = np.split(_reasons(text, data, folder, splits), ends[:-1])
        self._rows = {
            split: np.flatnonzero(part == KEPT) for split, part in zip(splits, parts, strict=True)
        }
        reasons = parts[0]
        counts = np.bincount(reasons, minlength=1 + len(data.filters)).tolist()
        self.dropped = dict(zip(data.filters, counts[1:], strict=True))
        emptied = {split for split, rows in self._rows.items() if not len(rows)}
        advice = "Set fewer filters, or name other files."
        if TRAIN in emptied:
            told = ", ".join(f"{count:,} {name}" for name, count in self.dropped.items() if count)
            raise UserError(
                f"data.filters drops all {text.sizes[TRAIN]:,} training pairs ({told}). {advice}"
            )
        for split in emptied:  # of few pairs; training goes on without
            logger.warning(
                "data.filters drops all %s held-out %s pairs: there is no %s split. %s",
                *(f"{text.sizes[split]:,}", split, split, advice),
            )
            del self._rows[split]
        facts = text.facts
        if any(self.dropped.values()):
            kept = hashlib.sha256(
                facts.fingerprint.encode() + np.packbits(reasons == KEPT).tobytes()
            )
            facts = dataclasses.replace(facts, fingerprint=kept.hexdigest()[:16])
        super().__init__(text.builder, text.languages, text.names, facts)
        self.sizes |= {split: len(rows) for split, rows in self._rows.items()}
        for split in emptied:
            del self.sizes[split]
        self._text = text

    def stream(
        self, split: str, start: int = 0, stop: int | None = None
    ) -> Iterator[tuple[str, str]]:
        """Yields what `PreparedText` does, of the pairs that are left."""
        if split not in self._rows:
            yield from self._text.stream(split, start, stop)
            return
        rows = self._rows[split][start:stop]
        if not len(rows):
            return
        first, last = int(rows[0]), int(rows[-1])
        is_kept = np.zeros(last + 1 - first, np.bool_)
        is_kept[rows - first] = True
        yield from itertools.compress(self._text.stream(split, first, last + 1), is_kept)


def format_dropped(dropped: Mapping[str, int], left: int) -> str:
    """Returns what filters did, as a line.

    Args:
        dropped: Number of training pairs by filter.
        left: Number of those that are left.
    """
    total = sum(dropped.values())
    counts = ", ".join(f"{count:,} {name}" for name, count in dropped.items())
    return f"Filters dropped {total:,} of {left + total:,} training pairs: {counts}"


def _reasons(
    text: PreparedText, data: DataConfig, folder: Path, splits: Sequence[str]
) -> npt.NDArray[np.uint8]:
    """Returns why each pair is dropped, or `KEPT`; found out once, then kept in a file."""
    languages = data.source_language, data.target_language
    key = [text.facts.fingerprint, *data.filters, str(data.max_length_ratio), *languages]
    key += data.reserved_symbols
    key += [filters.version(data), Path(filters.__file__).read_text("utf-8")]
    key += [text.builder.info.full_name, *splits[1:]] * (len(splits) > 1)
    digest = hashlib.sha256("\0".join(key).encode()).hexdigest()[:16]
    path, size = folder / f"{digest}.npy", sum(text.sizes[split] for split in splits)
    with locked(path.with_suffix(".lock")):
        try:
            found = np.load(path)
            if found.shape == (size,) and found.dtype == np.uint8:
                return found
        except (FileNotFoundError, ValueError, EOFError):  # not there, or damaged
            pass
        logger.info("Filtering the %s pairs by %s", " and ".join(splits), ", ".join(data.filters))
        pairs = counted(itertools.chain.from_iterable(map(text.stream, splits)), size, "filtering")
        reasons = np.full(size, KEPT, np.uint8)
        masks = filters.judge(pairs, data)
        for place, mask in reversed([*enumerate(masks.values(), start=1)]):
            reasons[mask] = place
        write_atomically(path, lambda file: np.save(file, reasons))
        return reasons
