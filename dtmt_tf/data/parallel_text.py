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

from dtmt_tf.data.check import Finding
from dtmt_tf.data.untuned import untuned
from dtmt_tf.errors import UserError
from dtmt_tf.folders import locked
from dtmt_tf.terminal import counted

PAIRS_PER_SHARD = 100_000  # TFDS holds one shard in memory while it writes
PAIRS_AT_ONCE = 1000  # read together


@dataclass(frozen=True)
class Split:
    """Pairs to be prepared.

    Args:
        size: Number of pairs.
        read: Returns them from the first to the last, in UTF-8.
    """

    size: int
    read: Callable[[], Iterator[tuple[bytes, bytes]]]


@dataclass(frozen=True)
class Facts:
    """Facts about a data set, gathered once and kept with it.

    Args:
        findings: What the data check found worth telling.
        fingerprint: Hash of the training split's text; nothing if there is none.
    """

    findings: tuple[Finding, ...] = ()
    fingerprint: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Returns plain values for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Facts:
        """The reverse of `to_dict`."""
        findings = tuple(Finding(**finding) for finding in values["findings"])
        return cls(findings, values["fingerprint"])


@dataclass(eq=False, repr=False)
class ParallelTextConfig(tfds.core.BuilderConfig):
    """What `ParallelText` writes: pairs by TFDS's split, and what to keep with them as JSON."""

    languages: tuple[str, str] = ("", "")
    pairs: Mapping[str, Split] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)


class ParallelText(tfds.core.ShardBasedBuilder):
    """Writes parallel text with the features of TFDS's own translation data sets, in order.

    A `GeneratorBasedBuilder` that keeps the order would sort all of it in memory; shards are
    written one after the other as the pairs come.
    """

    VERSION = tfds.core.Version("1.1.0")  # raised when the same files give other pairs or findings

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
        for name, split in self.builder_config.pairs.items():
            # all shards take from one iterator, in turn
            pairs = iter(counted(split.read(), split.size, f"preparing {name}"))
            shards[name] = [
                functools.partial(self._examples, pairs, first, split.size)
                for first in range(0, split.size, PAIRS_PER_SHARD)
            ]
        return shards

    def _examples(
        self, pairs: Iterator[tuple[bytes, bytes]], first: int, size: int
    ) -> Iterator[tuple[int, dict[str, bytes]]]:
        languages = self.builder_config.languages
        for key, pair in enumerate(itertools.islice(pairs, PAIRS_PER_SHARD), first):
            yield key, dict(zip(languages, pair, strict=True))
        if first + PAIRS_PER_SHARD >= size:
            next(pairs, None)  # after the last pair what was read is checked


class PreparedText:
    """A prepared data set of parallel text.

    Args:
        builder: TFDS's builder of it.
        languages: Names of source and target among its features.
        names: What TFDS calls each of its splits.
        facts: What is known about it.

    Attributes:
        sizes: Number of pairs by split.
    """

    def __init__(
        self,
        builder: tfds.core.DatasetBuilder,
        languages: tuple[str, str],
        names: Mapping[str, str],
        facts: Facts = Facts(),
    ) -> None:
        self.builder = builder
        self.languages = languages
        self.names = names
        self.facts = facts
        self._features = {name: tf.io.FixedLenFeature([], tf.string) for name in languages}
        self.sizes: dict[str, int] = {
            split: builder.info.splits[name].num_examples for split, name in names.items()
        }

    def stream(
        self, split: str, start: int = 0, stop: int | None = None
    ) -> Iterator[tuple[str, str]]:
        """Yields source and target of the pairs from `start` to before `stop`, in order.

        Of the pairs before `start`, only those of its own shard are skimmed.

        Raises:
            UserError: If a file of the data set is damaged or missing.
        """
        stop = self.sizes[split] if stop is None else min(stop, self.sizes[split])
        if start >= stop:
            return
        pairs = self.builder.info.splits[f"{self.names[split]}[{start}:{stop}]"]
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
            raise _damaged(self.builder.data_dir, f"pairs are missing in {split}")


def prepare(
    folder: Path,
    languages: tuple[str, str],
    key: Sequence[str],
    gather: Callable[[], tuple[Mapping[str, Split], Facts]],
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
                splits, facts = gather()
                names = _names_for_tfds(splits)
                config = ParallelTextConfig(
                    name=name,
                    languages=languages,
                    pairs={names[split]: splits[split] for split in splits},
                    metadata={"splits": names, **facts.to_dict()},
                )
                _write(ParallelText(config=config, data_dir=folder))
    try:
        builder = tfds.builder_from_directory(place)
        metadata = builder.info.metadata
        return PreparedText(builder, languages, metadata["splits"], Facts.from_dict(metadata))
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


def _names_for_tfds(splits: Iterable[str]) -> dict[str, str]:
    """Returns a name that TFDS takes for each split; `all` has a meaning of its own there."""
    names: dict[str, str] = {}
    for split in splits:
        name = re.sub(r"[^\w-]", "_", split)
        while name in ("all", *names.values()):
            name += "_"
        names[split] = name
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
