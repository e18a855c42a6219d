"""The parts of a task's corpus: found, checked, prepared once and read."""

from __future__ import annotations

import functools
import itertools
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path

from dtmt_tf.config import DataConfig, Task
from dtmt_tf.data import cldr, cldr_phrases, cldr_renderer, cldr_sampler
from dtmt_tf.data.check import check_files, check_pairs
from dtmt_tf.data.corpus import Text, byte_lines, resolve_file, text_of
from dtmt_tf.data.known_texts import KnownTexts
from dtmt_tf.data.parallel_text import TRAIN, Part, PreparedText, Record, fingerprint, prepare
from dtmt_tf.data.public_text import public_text
from dtmt_tf.errors import UserError

Pairs = tuple[list[str], list[str]]
Files = Sequence[tuple[Path, Path]]  # source and target files, one after the other

logger = logging.getLogger(__name__)


class Corpus:
    """Parallel text in parts: train, validation, test and extra tests by name.

    Args:
        texts: The data sets that hold it. A part of a later one takes the place of an earlier
            one's of the same name.

    Attributes:
        sizes: Number of pairs by part.
        findings: What the data check found worth telling.
        fingerprint: Hash of the training part's text.
    """

    def __init__(self, texts: Sequence[PreparedText]) -> None:
        self._texts = {part: text for text in texts for part in text.sizes}
        self.sizes = {part: text.sizes[part] for part, text in self._texts.items()}
        self.findings = [finding for text in texts for finding in text.record.findings]
        if TRAIN not in self._texts:
            raise UserError(f"There is no {TRAIN} part, but {', '.join(self.sizes)}.")
        self.fingerprint = self._texts[TRAIN].record.fingerprint

    def stream(
        self, part: str, start: int = 0, stop: int | None = None
    ) -> Iterator[tuple[str, str]]:
        """Yields source and target of the pairs from `start` to before `stop`, in order.

        Memory is bounded, and of what comes before `start` no more is read than a shard.
        """
        return self._texts[part].stream(part, start, stop)

    def lines(self, part: str, stop: int | None = None) -> Pairs:
        """Returns source and target lines of a part, or of its first `stop` pairs."""
        pairs = list(self.stream(part, 0, stop))
        return [source for source, _ in pairs], [target for _, target in pairs]


def load_corpus(data: DataConfig, task: Task, data_dir: Path | None, cache_dir: Path) -> Corpus:
    """Returns the corpus that the settings name, checked and prepared on first use.

    Files take the place of a rendered or public corpus's parts of the same name.

    Args:
        data: Names the corpus or its files.
        task: Knows where its public files come from.
        data_dir: Where the user keeps data sets.
        cache_dir: Where downloads and prepared data sets go.

    Raises:
        UserError: If a file is missing or faulty, or a public corpus can not be downloaded.
    """
    folder = cache_dir / "datasets"
    languages = data.source_language, data.target_language
    if not all(languages) or languages[0] == languages[1]:
        languages = "source", "target"
    texts = []
    if data.corpus == "tfds":
        texts.append(public_text(data.tfds_name, languages, data_dir, folder))
    elif data.corpus == "cldr":
        texts.append(_rendered(languages, folder))
    known = KnownTexts(folder / "known_texts.json")
    files, key = _files(data, task, data_dir, cache_dir, known)
    if files:
        texts.append(prepare(folder, languages, key, lambda: _checked_files(files, known)))
    return Corpus(texts)


def _files(
    data: DataConfig, task: Task, data_dir: Path | None, cache_dir: Path, known: KnownTexts
) -> tuple[dict[str, Files], list[str]]:
    """Returns the files by part, and texts that tell them from others."""
    files: dict[str, list[tuple[Path, Path]]] = {}
    key = []
    for part, (sources, targets) in named_files(data).items():
        needed = part == TRAIN and data.corpus == "files"
        if len(sources) != len(targets) or (needed and not sources):
            raise UserError(
                f"data.{part}_source and data.{part}_target should both name a file, or as many "
                f"files. Received: {', '.join(sources) or 'none'} and "
                f"{', '.join(targets) or 'none'}.\n{task.unavailable}".rstrip()
            )
        for names in zip(sources, targets, strict=True):
            source, target = (find_file(name, task, data_dir, cache_dir, known) for name in names)
            files.setdefault(part, []).append((source, target))
            key += [part, *names, known(source).sha256, known(target).sha256]
    return dict(files), key


def _checked_files(files: Mapping[str, Files], known: KnownTexts) -> tuple[dict[str, Part], Record]:
    """Returns what is in files, and what the data check and the training part's hash are."""
    logger.info("Checking and preparing the corpus")
    findings = check_files(files)
    parts = {
        part: Part(
            sum(known(source).num_lines for source, _ in pairs),
            functools.partial(_pairs, pairs),
        )
        for part, pairs in files.items()
    }
    hashed = fingerprint(*_sides(files[TRAIN])) if TRAIN in files else ""
    return parts, Record(tuple(findings), hashed)


def _sides(files: Files) -> tuple[Iterator[bytes], Iterator[bytes]]:
    """Returns the lines of source and target, file after file."""
    sources, targets = zip(*files, strict=True)
    return (
        itertools.chain.from_iterable(map(byte_lines, sources)),
        itertools.chain.from_iterable(map(byte_lines, targets)),
    )


def _pairs(files: Files) -> Iterator[tuple[bytes, bytes]]:
    return zip(*_sides(files), strict=True)


def _rendered(languages: tuple[str, str], folder: Path) -> PreparedText:
    """Returns the CLDR corpus, anew when Babel or the code that renders it has changed."""
    modules = cldr, cldr_phrases, cldr_renderer, cldr_sampler
    code = [Path(str(module.__file__)).read_text("utf-8") for module in modules]

    def render() -> tuple[dict[str, Part], Record]:
        logger.info("Rendering the corpus from Unicode CLDR")
        splits = cldr.render_corpus(*languages)
        sides = {
            part: [[line.encode() for line in side] for side in pairs]
            for part, pairs in splits.items()
        }
        parts = {
            part: Part(len(source), functools.partial(zip, source, target, strict=True))
            for part, (source, target) in sides.items()
        }
        return parts, Record(tuple(check_pairs(splits)), fingerprint(*sides[TRAIN]))

    return prepare(folder, languages, ["cldr", metadata.version("babel"), *code], render)


def named_files(data: DataConfig) -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    """Returns the names of source and target files by split; an extra test is named by its files.

    Raises:
        UserError: If two splits would have one name.
    """
    files = {
        split: (getattr(data, f"{split}_source"), getattr(data, f"{split}_target"))
        for split in ("train", "validation", "test")
    }
    for stem in data.extra_tests:
        name = Path(stem).name
        if name in files:
            raise UserError(f"`data.extra_tests`: another part is already called {name}: {stem}.")
        files[name] = (f"{stem}.{data.source_language}",), (f"{stem}.{data.target_language}",)
    return files


def find_file(
    name: str,
    task: Task,
    data_dir: Path | None,
    cache_dir: Path,
    read: Callable[[Path], Text] = text_of,
) -> Path:
    """Returns the path of a file: as given, below the data directory, or downloaded."""
    remote = {file.path: file for file in task.files}
    if name in remote:
        return resolve_file(remote[name], data_dir, cache_dir, read)
    for folder in (Path(), *([data_dir] if data_dir else [])):
        for suffix in ("", ".gz", ".xz"):
            path = folder / (name + suffix)
            if path.is_file():
                return path
    places = f"here or below {data_dir}" if data_dir else "here; --data-dir names another place"
    raise UserError(f"{name} was not found, {places}.\n{task.unavailable}".rstrip())
