"""Tokenised pairs in sharded files: written once, checked, and read at random.

A folder of shards holds, for each, the pairs as an ArrayRecord file of `tf.train.Example`s
and their lengths as a `.npy` file, and `manifest.json` with the size and SHA-256 of every file that
is complete.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import resource
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import tensorflow as tf
from array_record.python.array_record_module import ArrayRecordReader, ArrayRecordWriter

from dtmt_tf.data.check import TRAIN
from dtmt_tf.errors import DAMAGED, UserError
from dtmt_tf.files import clear_leftovers, size_and_hash, write_atomically, write_json
from dtmt_tf.folders import locked
from dtmt_tf.terminal import line_bar
from dtmt_tf.text import Vocabulary, is_blank

logger = logging.getLogger(__name__)

FORMAT = 3  # raised when the same corpus gives other shards
PAIRS_PER_SHARD = 100_000
PAIRS_AT_ONCE = 10_000
OTHER_FILES = 512  # that a training may have open beside its shards
AT_RANDOM: Mapping[str, Any] = {  # how a file is opened whose pairs are read one by one
    "options": "readahead_buffer_size:0,max_parallelism:0",
    "file_reader_buffer_size": 4096,
}
SIDES = ("source", "target")
TEXTS = ("source_text", "target_text")
_MANIFEST = "manifest.json"

Encode = Callable[[Sequence[str]], list[list[int]]]  # texts to ids, ending in <eos>
Example = dict[str, Any]  # lists of ids by side, and bytes if the text is stored


class PairsBySplit(Protocol):
    """Parallel text, such as `data.corpus.Corpus`."""

    fingerprint: str

    @property
    def sizes(self) -> Mapping[str, int]:
        """Number of pairs by split."""

    def stream(
        self, split: str, start: int = 0, stop: int | None = None
    ) -> Iterable[tuple[str, str]]:
        """Yields source and target of the pairs from `start` to before `stop`, in order."""


class Ids(NamedTuple):
    """One side of some pairs."""

    flat: np.ndarray  # all ids, one pair's after the other's
    lengths: np.ndarray  # [B]


class Preparation:
    """Makes a folder of shards, one by one.

    A shard holds the pairs that a fixed range of the corpus has, less those with a blank side and
    without blanks around a line. Once complete it is never written again, so that a preparation
    that was ended, in whatever way, goes on with the next shard.

    Args:
        folder: Where the shards go.
        corpus: Gives the pairs, of the split "train".
        encoders: Turn the lines of source and target into ids.
        with_text: Whether the text is stored too; who cuts it up anew, as BPE-dropout does, needs
            it.
    """

    def __init__(
        self,
        folder: Path,
        corpus: PairsBySplit,
        encoders: tuple[Encode, Encode],
        with_text: bool = False,
    ) -> None:
        self.folder = folder
        self.corpus = corpus
        self.encoders = encoders
        self.with_text = with_text
        self.num_pairs = corpus.sizes[TRAIN]
        self.num_shards = -(-self.num_pairs // PAIRS_PER_SHARD)

    @property
    def pipeline(self) -> Path:
        """Where a pipeline keeps what it has made, until it ends."""
        return self.folder / "beam"

    def run(self, write: Callable[[Preparation, list[int]], None] | None = None) -> None:
        """Makes the missing shards; `Shards` verifies the others.

        Args:
            write: Writes those shards and calls `add` for each; by default `write_shards`.

        Raises:
            UserError: If there is no pair.

        Side effects:
            Writes below `folder` alone. Other processes that prepare the same wait.
        """
        if not self.num_pairs:
            raise UserError("There is no training pair: the files are empty.")
        with locked(self.folder / ".lock"):
            clear_leftovers(self.folder)  # of preparations that were killed
            shutil.rmtree(self.pipeline, ignore_errors=True)
            there = set()
            for name in self._manifest()["files"]:
                if (self.folder / name).exists():
                    there.add(name)
                else:
                    logger.warning("%s is missing; its shard is made again", self.folder / name)
            if missing := [k for k in range(self.num_shards) if not set(_names(k)) <= there]:
                (write or write_shards)(self, missing)

    def examples(self, shard: int) -> Iterator[Example]:
        """Yields the pairs of a shard."""
        first = shard * PAIRS_PER_SHARD
        pairs = iter(self.corpus.stream(TRAIN, first, min(first + PAIRS_PER_SHARD, self.num_pairs)))
        while block := list(islice(pairs, PAIRS_AT_ONCE)):
            # no search or score reads blanks around a line, so training does not either
            block = [(s.strip(), t.strip()) for s, t in block if not (is_blank(s) or is_blank(t))]
            sides = [
                encode([pair[side] for pair in block]) for side, encode in enumerate(self.encoders)
            ]
            for pair, *ids in zip(block, *sides, strict=True):
                example: Example = dict(zip(SIDES, ids, strict=True))
                if self.with_text:
                    example |= zip(TEXTS, (text.encode() for text in pair), strict=True)
                yield example

    def path(self, shard: int) -> Path:
        """Returns where the pairs of a shard go."""
        return self.folder / _names(shard)[0]

    def add(self, shard: int) -> int:
        """Adds a written shard to the manifest; returns its number of pairs."""
        pairs, index = _names(shard)
        blocks = [[side.lengths for side in sides] for sides in _blocks(self.path(shard))]
        lengths = np.concatenate(blocks, axis=1).T if blocks else np.empty((0, 2))
        write_atomically(self.folder / index, lambda file: np.save(file, lengths.astype(np.int32)))
        manifest = self._manifest()
        for name in (pairs, index):
            manifest["files"][name] = _describe(self.folder / name)
        write_json(self.folder / _MANIFEST, manifest)
        return len(lengths)

    def _manifest(self) -> dict[str, Any]:
        """Returns the complete shards so far."""
        path = self.folder / _MANIFEST
        if path.exists():
            return _read_manifest(path)
        return {
            "corpus": self.corpus.fingerprint,
            "pairs": self.num_pairs,
            "shards": self.num_shards,
            "with_text": self.with_text,
            "files": {},
        }


def write_shards(preparation: Preparation, shards: Sequence[int]) -> None:
    """Writes shards one after the other, with a progress bar."""
    done = (preparation.num_shards - len(shards)) * PAIRS_PER_SHARD
    total = preparation.num_pairs
    with line_bar(total, "prepare", min(done, total)) as bar:
        for shard in shards:
            end = min(bar.n + PAIRS_PER_SHARD, total)

            def write(file: Any, shard: int = shard) -> None:
                writer = ArrayRecordWriter(file.name, "group_size:1")  # as TFDS writes
                for example in preparation.examples(shard):
                    writer.write(_serialized(example))
                    bar.update()
                writer.close()

            write_atomically(preparation.path(shard), write)
            preparation.add(shard)
            bar.update(end - bar.n)  # blank pairs


def preparation(
    cache_dir: Path, corpus: PairsBySplit, vocabulary: Vocabulary, with_text: bool
) -> Preparation:
    """Returns the preparation of a corpus's shards in some sub-words.

    Args:
        cache_dir: They go below its folder `prepared`, in one named after all that they depend on.
        corpus: Gives the pairs.
        vocabulary: Gives the sub-words.
        with_text: Whether the text is stored too.
    """
    depends_on = FORMAT, corpus.fingerprint, PAIRS_PER_SHARD, with_text
    digest = hashlib.sha256(repr(depends_on).encode())
    for subwords in (vocabulary.source, vocabulary.target):
        digest.update(hashlib.sha256(subwords.model).digest())
    encoders = vocabulary.source.encode_lists, vocabulary.target.encode_lists
    folder = cache_dir / "prepared" / digest.hexdigest()[:16]
    return Preparation(folder, corpus, encoders, with_text)


class Shards:
    """A complete folder of shards.

    Memory holds what `ArrayRecordReader` keeps of each file that was read from, about 8 bytes a
    pair.

    Args:
        folder: What `Preparation` has filled.

    Attributes:
        fingerprint: Hash of the corpus.
        num_pairs: Number of pairs of the corpus, blank ones included.
        with_text: Whether the text is stored.

    Raises:
        UserError: If a file is missing or is not as it was written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        manifest = _read_manifest(folder / _MANIFEST)
        self.fingerprint: str = manifest["corpus"]
        self.num_pairs: int = manifest["pairs"]
        self.with_text: bool = manifest["with_text"]
        names = [_names(k) for k in range(manifest["shards"])]
        files = {name: manifest["files"].get(name) for pair in names for name in pair}
        _check(folder, files)
        self._paths = [folder / pairs for pairs, _ in names]
        self._indices = [folder / index for _, index in names]
        # of each shard the number of pairs before the next one
        sizes = [len(np.load(path, mmap_mode="r")) for path in self._indices]
        self._ends = np.cumsum(sizes)
        self._readers: dict[int, ArrayRecordReader] = {}
        _allow_open_files(len(names) + OTHER_FILES)

    def lengths(self) -> Iterator[np.ndarray]:
        """Yields the lengths of source and target, with <eos>, `[N, 2]`, shard by shard."""
        return map(np.load, self._indices)

    def blocks(self) -> Iterator[tuple[Ids, Ids]]:
        """Yields all pairs in order, many at once."""
        for path in self._paths:
            yield from _blocks(path)

    def ids(self, rows: np.ndarray) -> tuple[Ids, Ids]:
        """Returns source and target of some pairs by their numbers, `[B]`."""
        return _parse_ids(self._read(rows))

    def texts(self, rows: np.ndarray) -> tuple[list[str], list[str]]:
        """Returns source and target of some pairs as text, if it is stored."""
        features = dict.fromkeys(TEXTS, tf.io.FixedLenFeature([], tf.string))
        with tf.device("CPU"):
            parsed = tf.io.parse_example(self._read(rows), features)
        source, target = ([text.decode() for text in parsed[name].numpy()] for name in TEXTS)
        return source, target

    def _read(self, rows: np.ndarray) -> list[bytes]:
        shards = np.searchsorted(self._ends, rows, side="right")
        starts = np.concatenate([[0], self._ends])[shards]
        found = []
        for shard, place in zip(shards.tolist(), (rows - starts).tolist(), strict=True):
            if shard not in self._readers:
                self._readers[shard] = _reader(self._paths[shard], **AT_RANDOM)
            # a range: a list of places would take as long as the shard has pairs
            found += self._readers[shard].read(place, place + 1)
        return found


def _allow_open_files(number: int) -> None:
    """Raises this process's soft limit of open files to a number, as far as the hard one lets."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = number if hard == resource.RLIM_INFINITY else min(number, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _names(shard: int) -> tuple[str, str]:
    """Returns the names of a shard's two files: its pairs and their lengths."""
    return f"{TRAIN}-{shard:05}.array_record", f"{TRAIN}-{shard:05}.lengths.npy"


def as_ids(rows: Sequence[Sequence[int]]) -> Ids:
    """Returns lists of ids, one behind the other."""
    return Ids(np.concatenate(rows), np.array([len(row) for row in rows]))


def _serialized(example: Example) -> bytes:
    """Serialises an example like TFDS's features do, six times as fast."""
    proto = tf.train.Example()
    for name, value in example.items():
        feature = proto.features.feature[name]
        if isinstance(value, bytes):
            feature.bytes_list.value.append(value)
        else:
            feature.int64_list.value.extend(value)
    return proto.SerializeToString(deterministic=True)


def _reader(path: Path, **options: Any) -> ArrayRecordReader:
    """Opens a shard; one that the system refuses would look empty."""
    reader = ArrayRecordReader(str(path), **options)
    if not reader.ok():
        path.open("rb").close()  # raises what the system says, such as of too many open files
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
    return reader


def _blocks(path: Path) -> Iterator[tuple[Ids, Ids]]:
    reader = _reader(path)
    size = reader.num_records()
    for start in range(0, size, PAIRS_AT_ONCE):
        yield _parse_ids(reader.read(start, min(start + PAIRS_AT_ONCE, size)))
    reader.close()


def _parse_ids(records: Sequence[bytes]) -> tuple[Ids, Ids]:
    features = dict.fromkeys(SIDES, tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64))
    with tf.device("CPU"):
        parsed = tf.io.parse_example(tf.constant(records, tf.string), features)
    source, target = (
        Ids(parsed[name].flat_values.numpy(), np.diff(parsed[name].row_splits.numpy()))
        for name in SIDES
    )
    return source, target


def _describe(path: Path) -> dict[str, Any]:
    found = size_and_hash(path)
    return {"bytes": found["size"], "sha256": found["sha256"]}


def _read_manifest(path: Path) -> dict[str, Any]:
    try:
        manifest: dict[str, Any] = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path} is missing. dtmt prepare makes it.") from None
    except DAMAGED as error:
        raise UserError(
            f"{path} is damaged: {error}. Remove its folder and run dtmt prepare again."
        ) from error
    kinds = {"corpus": str, "pairs": int, "shards": int, "with_text": bool, "files": dict}
    if not isinstance(manifest, dict) or any(
        not isinstance(manifest.get(name), kind) for name, kind in kinds.items()
    ):
        raise UserError(
            f"{path} is not a list of shards. Remove its folder and run dtmt prepare again."
        )
    return manifest


def _check(folder: Path, files: Mapping[str, dict[str, Any] | None]) -> None:
    """Compares files with the manifest; none of them may be missing."""
    for name, expected in files.items():
        path = folder / name
        if expected is None or not path.exists():
            raise UserError(f"{path} is missing. Run dtmt prepare: it makes that shard.")
        size = expected.get("bytes") if isinstance(expected, dict) else None
        if path.stat().st_size != size or _describe(path) != expected:
            raise UserError(
                f"{path} is damaged: it is not as it was written. Remove it and run "
                "dtmt prepare again, which makes that shard alone."
            )
