"""Parallel text as a TFDS data set: prepared once, then read from any pair on.

Files of the user's own, rendered corpora and public data sets are all read as `PreparedText`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import io
import itertools
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tensorflow as tf
import tensorflow_datasets as tfds
from tqdm import tqdm

from dtmt_tf.data.check import Finding
from dtmt_tf.data.untuned import untuned
from dtmt_tf.errors import UserError
from dtmt_tf.files import locked

PAIRS_PER_SHARD = 100_000  # TFDS holds one shard in memory while it writes
PAIRS_AT_ONCE = 1000  # read together
TRAIN = "train"


@dataclass(frozen=True)
class Part:
    """Pairs that are to be prepared.

    Args:
        size: How many there are.
        read: Returns them from the first to the last, in UTF-8.
    """

    size: int
    read: Callable[[], Iterator[tuple[bytes, bytes]]]


@dataclass(frozen=True)
class Record:
    """What is found out about a data set once, and kept with it.

    Args:
        findings: What the data check found worth telling.
        fingerprint: Hash of the training part's text; nothing if there is none.
    """

    findings: tuple[Finding, ...] = ()
    fingerprint: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Returns plain values for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Record:
        """Rebuilds what `to_dict` took apart."""
        findings = tuple(Finding(**finding) for finding in values["findings"])
        return cls(findings, values["fingerprint"])


@dataclass(eq=False, repr=False)
class ParallelTextConfig(tfds.core.BuilderConfig):
    """What `ParallelText` writes: parts by split, and what to keep with them as JSON."""

    languages: tuple[str, str] = ("", "")
    parts: Mapping[str, Part] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)


class ParallelText(tfds.core.ShardBasedBuilder):
    """Writes parallel text with the features of TFDS's own translation data sets, in order.

    A `GeneratorBasedBuilder` that keeps the order would sort all of it in memory; shards are
    written one after the other as the pairs come.
    """

    VERSION = tfds.core.Version("1.0.0")

    def _info(self) -> tfds.core.DatasetInfo:
        config = self.builder_config
        return tfds.core.DatasetInfo(
            builder=self,
            features=tfds.features.Translation(languages=config.languages),
            supervised_keys=config.languages,
            metadata=tfds.core.MetadataDict(config.metadata),
            disable_shuffling=True,
        )

    def _shard_iterators_per_split(self, dl_manager: Any) -> dict[str, list[Callable]]:
        shards: dict[str, list[Callable]] = {}
        for name, part in self.builder_config.parts.items():
            # all shards take from one iterator, in turn
            pairs = iter(tqdm(part.read(), f"preparing {name}", part.size, disable=None))
            shards[name] = [
                functools.partial(self._examples, pairs, first)
                for first in range(0, part.size, PAIRS_PER_SHARD)
            ]
        return shards

    def _examples(
        self, pairs: Iterator[tuple[bytes, bytes]], first: int
    ) -> Iterator[tuple[int, dict[str, bytes]]]:
        languages = self.builder_config.languages
        for key, pair in enumerate(itertools.islice(pairs, PAIRS_PER_SHARD), first):
            yield key, dict(zip(languages, pair, strict=True))


class PreparedText:
    """A prepared data set of parallel text.

    Args:
        builder: TFDS's builder of it.
        languages: Names of source and target among its features.
        splits: Its splits by part.
        record: What is known about it.

    Attributes:
        sizes: Number of pairs by part.
    """

    def __init__(
        self,
        builder: tfds.core.DatasetBuilder,
        languages: tuple[str, str],
        splits: Mapping[str, str],
        record: Record = Record(),
    ) -> None:
        self.builder = builder
        self.languages = languages
        self.splits = splits
        self.record = record
        self._features = {name: tf.io.FixedLenFeature([], tf.string) for name in languages}
        self.sizes: dict[str, int] = {
            part: builder.info.splits[split].num_examples for part, split in splits.items()
        }

    def stream(
        self, part: str, start: int = 0, stop: int | None = None
    ) -> Iterator[tuple[str, str]]:
        """Yields source and target of the pairs from `start` to before `stop`, in order.

        Of what comes before `start`, only its own shard is skimmed.

        Raises:
            UserError: If a file of the data set is damaged or missing.
        """
        stop = self.sizes[part] if stop is None else min(stop, self.sizes[part])
        if start >= stop:
            return
        pairs = self.builder.info.splits[f"{self.splits[part]}[{start}:{stop}]"]
        read = 0
        try:
            for shard in pairs.file_instructions:
                records = tf.data.TFRecordDataset(shard.filename).skip(shard.skip).take(shard.take)
                for batch in untuned(records.batch(PAIRS_AT_ONCE).prefetch(1)).as_numpy_iterator():
                    # TFDS's own reader parses pair by pair: 20 times the work
                    parsed = tf.io.parse_example(batch, self._features)
                    sides = (parsed[name].numpy().tolist() for name in self.languages)
                    for source, target in zip(*sides, strict=True):
                        yield source.decode(), target.decode()
                    read += len(batch)
        except (tf.errors.DataLossError, tf.errors.NotFoundError) as error:
            raise _damaged(self.builder.data_dir, error) from error
        if read < stop - start:
            raise _damaged(self.builder.data_dir, f"pairs are missing in {part}")


def prepare(
    folder: Path,
    languages: tuple[str, str],
    key: Sequence[str],
    gather: Callable[[], tuple[Mapping[str, Part], Record]],
) -> PreparedText:
    """Returns a data set, prepared on first use.

    Args:
        folder: Where TFDS keeps data sets.
        languages: Names of source and target; the features are called so.
        key: Texts that all change if the pairs would.
        gather: Returns what to write, and what to keep with it; only called on first use.

    Side effects:
        Writes `folder/parallel_text/<languages and hash of key>`, whole or not at all. Processes
        that want the same data set wait for the one that makes it.
    """
    digest = hashlib.sha256("\0".join((*languages, *key)).encode()).hexdigest()[:16]
    name = "-".join((*languages, digest))
    place = folder / "parallel_text" / name / str(ParallelText.VERSION)
    if not place.exists():
        with preparing(place):
            if not place.exists():
                parts, record = gather()
                splits = _split_names(parts)
                config = ParallelTextConfig(
                    name=name,
                    languages=languages,
                    parts={splits[part]: parts[part] for part in parts},
                    metadata={"splits": splits, **record.to_dict()},
                )
                _write(ParallelText(config=config, data_dir=folder))
    try:
        builder = tfds.builder_from_directory(place)
        metadata = builder.info.metadata
        return PreparedText(builder, languages, metadata["splits"], Record.from_dict(metadata))
    except Exception as error:  # whatever its small files may lack
        raise _damaged(place, error) from error


def _write(builder: ParallelText) -> None:
    """Writes a data set under another name, and renames it when it is complete."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # sizes that TFDS does not know
            builder.download_and_prepare(
                download_config=tfds.download.DownloadConfig(try_download_gcs=False)
            )
    except (OSError, tf.errors.OpError) as error:
        raise UserError(
            f"{builder.data_dir} could not be written: {error}. Make room and run the same command "
            "again; XDG_CACHE_HOME names another disk."
        ) from error


def _damaged(place: str | Path, error: object) -> UserError:
    return UserError(
        f"The prepared data set {place} is damaged: {error}. Remove the folder; the next run "
        "prepares it anew."
    )


def _split_names(parts: Iterable[str]) -> dict[str, str]:
    """Returns a name that TFDS takes for each part; `all` has a meaning of its own there."""
    names: dict[str, str] = {}
    for part in parts:
        name = re.sub(r"[^\w-]", "_", part)
        while name in ("all", *names.values()):
            name += "_"
        names[part] = name
    return names


@contextlib.contextmanager
def preparing(place: Path) -> Iterator[None]:
    """Locks a data set's folder, and removes what a killed preparation left beside it."""
    with locked(place.parent / ".lock"):
        for left_over in place.parent.glob("incomplete.*"):
            shutil.rmtree(left_over)
        yield


def fingerprint(source: Iterable[bytes], target: Iterable[bytes]) -> str:
    """Returns a short hash of a corpus: all of its source, then all of its target."""
    digest = hashlib.sha256()
    for side in (source, target):
        separator = b""
        for line in side:
            digest.update(separator + line)
            separator = b"\n"
        digest.update(b"\0")
    return digest.hexdigest()[:16]
