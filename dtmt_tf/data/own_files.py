"""Parallel files named by settings: found, checked and prepared."""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dtmt_tf.config import DataConfig, Task
from dtmt_tf.data.check import TRAIN, check_files, find_overlap
from dtmt_tf.data.downloads import resolve_file
from dtmt_tf.data.known_texts import KnownTexts
from dtmt_tf.data.lines import PACKED, FileFacts, facts_of, is_marked, unmarked_lines
from dtmt_tf.data.parallel_text import Facts, PreparedText, Split, fingerprint, prepare
from dtmt_tf.data.request import DATASETS, Request
from dtmt_tf.errors import UserError, hint
from dtmt_tf.files import check_name, no_file
from dtmt_tf.text import is_blank

Files = Sequence[tuple[Path, Path]]  # source and target files, one after the other
Sides = tuple[tuple[str, ...], tuple[str, ...]]  # names of source files, and of target files

VALIDATION = "validation"
SPLITS = (TRAIN, VALIDATION, "test")

logger = logging.getLogger(__name__)


def load(request: Request) -> PreparedText:
    """Returns the files that the settings name as a data set, but for those of extra tests.

    Raises:
        UserError: If a file is missing or faulty, or one side has more files than the other.
    """
    named = named_files(request.data)
    return _load(request, {split: named[split] for split in SPLITS})


def load_extra_tests(request: Request, train: PreparedText | None) -> PreparedText:
    """Returns the files of `data.extra_tests` as a data set of its own, which another test renews.

    Args:
        request: Names them.
        train: Holds the training text, whose sentences tests should not have.

    Raises:
        UserError: If a file is missing or faulty.
    """
    named = {split: of for split, of in named_files(request.data).items() if split not in SPLITS}
    return _load(request, named, train)


def _load(
    request: Request, named: Mapping[str, Sides], train: PreparedText | None = None
) -> PreparedText:
    """Returns named files as a data set.

    Args:
        request: Says where they lie and where data sets go.
        named: The names by split.
        train: Holds the training text, if these do not.
    """
    known = known_texts(request.cache_dir)
    files: dict[str, list[tuple[Path, Path]]] = {}
    hashes: dict[Path, str] = {}
    key = ["beside", train.facts.fingerprint] if train else []
    for split, (sources, targets) in named.items():
        check_sides(split, sources, targets, request.task, request.data.corpus == "files")
        place = request.task, request.data_dir, request.cache_dir, known
        for names in zip(sources, targets, strict=True):
            source, target = (find_file(name, *place) for name in names)
            files.setdefault(split, []).append((source, target))
            hashes |= {path: known(path).sha256 for path in (source, target)}
            key += [split, *names, hashes[source], hashes[target]]
            key += ["unmarked"] * (is_marked(source) or is_marked(target))  # once they were kept
    held_out = request.data.held_out if holds_out(request.data) and TRAIN in files else 0
    key += [f"{held_out} held out"] * bool(held_out)

    def check_read(paths: Iterable[Path]) -> None:
        for path in paths:
            if known(path).sha256 != hashes[path]:
                raise UserError(f"{path} was changed while it was read. Run this again.")

    def gather() -> tuple[dict[str, Split], Facts]:
        beside = (source.encode() for source, _ in train.stream(TRAIN)) if train else ()
        return _checked_files(files, known, held_out, check_read, beside)

    return prepare(request.datasets, request.languages, key, gather)


def known_texts(cache_dir: Path) -> KnownTexts:
    """Returns what is known of text files, for as long as the cache is kept."""
    return KnownTexts(cache_dir / DATASETS / "known_texts.json")


def holds_out(data: DataConfig) -> bool:
    """Whether validation pairs are some of the named training files'."""
    return bool(data.held_out and data.train_source and not data.validation_source)


def are_named(data: DataConfig) -> bool:
    """Whether the settings name any file but those of extra tests."""
    named = named_files(data)
    return any(name for split in SPLITS for side in named[split] for name in side)


def named_files(data: DataConfig) -> dict[str, Sides]:
    """Returns the names of source and target files by split.

    An extra test is named by its files, and where two have one name by their folder, too.

    Raises:
        UserError: If two splits would have one name.
    """
    files = {
        split: (getattr(data, f"{split}_source"), getattr(data, f"{split}_target"))
        for split in SPLITS
    }
    last = [Path(stem).name for stem in data.extra_tests]
    for stem, name in zip(data.extra_tests, last, strict=True):
        if last.count(name) > 1:
            name = "-".join(Path(stem).parts[-2:])
        if name in files:
            raise UserError(f"`data.extra_tests`: another split is already called {name}: {stem}.")
        files[name] = (f"{stem}.{data.source_language}",), (f"{stem}.{data.target_language}",)
    return files


def own_texts(
    data: DataConfig, task: Task, data_dir: Path | None, cache_dir: Path
) -> Iterator[tuple[str, str, Path]]:
    """Yields split, name and path of the user's own files, as far as they are there.

    Files of the task are left out: it knows their hashes.
    """
    of_task = {file.path for file in task.files}
    for split, sides in named_files(data).items():
        for name in itertools.chain(*sides):
            with contextlib.suppress(UserError):  # who needs it tells
                if name not in of_task:
                    yield split, name, find_file(name, task, data_dir, cache_dir)


def check_sides(
    split: str, sources: Sequence[str], targets: Sequence[str], task: Task, of_files: bool
) -> None:
    """Raises a UserError if one side has more files than the other.

    Args:
        split: The split; of a corpus `of_files` the training split should have a file.
        sources: Names of its source files.
        targets: Names of its target files.
        task: Says where its files come from.
        of_files: Whether no other source has the text.
    """
    if len(sources) != len(targets) or (split == TRAIN and of_files and not sources):
        raise UserError(
            f"data.{split}_source and data.{split}_target should both name a file, or as many "
            f"files. Received: {', '.join(sources) or 'none'} and "
            f"{', '.join(targets) or 'none'}.\n{task.unavailable}".rstrip()
        )


def check_names(data: DataConfig) -> None:
    """Refuses files that are named after each other's language.

    Raises:
        UserError: If so.
    """
    languages = data.target_language.lower(), data.source_language.lower()
    for sides in named_files(data).values():
        for source, target in zip(*sides, strict=False):
            if (_ending(source), _ending(target)) == languages and len(set(languages)) == 2:
                raise UserError(
                    f"{source} and {target} seem to be swapped: {source} is given as "
                    f"{data.source_language}, {target} as {data.target_language}. Swap the files "
                    "or the languages; or rename the files."
                )


def _ending(name: str) -> str:
    """Returns what a text's name ends in, such as "en" for a.EN.gz."""
    path = Path(name)
    return (path.with_suffix("") if path.suffix in PACKED else path).suffix[1:].lower()


def find_file(
    name: str,
    task: Task,
    data_dir: Path | None,
    cache_dir: Path,
    read: Callable[[Path], FileFacts] = facts_of,
) -> Path:
    """Returns the path of a file: as given, below the data directory, or downloaded.

    A file of the task that is named as if it were packed is found unpacked, too.

    Raises:
        UserError: If there is none, it is no regular file, or its name is not UTF-8.
    """
    check_name(name)
    remote = {file.path: file for file in task.files}
    if name in remote:
        return resolve_file(remote[name], data_dir, cache_dir, read)
    folders = [Path(), *([data_dir] if data_dir else [])]
    paths = [folder / (name + suffix) for folder in folders for suffix in ("", *PACKED)]
    for path in paths:
        if path.is_file():
            return path
    for suffix in PACKED:
        if (plain := name.removesuffix(suffix)) in remote:
            return resolve_file(remote[plain], data_dir, cache_dir, read)
    if other := next(filter(None, map(no_file, paths)), None):
        raise UserError(other)
    where = f", here or below {data_dir}" if data_dir else ", here; --data-dir names another place"
    near = hint(Path(name).name, _names_beside(name, data_dir))
    found = f"{name} was not found{'' if Path(name).is_absolute() else where}. {near}".rstrip()
    raise UserError(f"{found}\n{task.unavailable}".rstrip())


def _names_beside(name: str, data_dir: Path | None) -> list[str]:
    """Returns the names of the files in the folders where a file was looked for."""
    folders = [folder / Path(name).parent for folder in (Path(), *([data_dir] if data_dir else []))]
    return [path.name for folder in folders if folder.is_dir() for path in folder.iterdir()]


def _checked_files(
    files: Mapping[str, Files],
    known: KnownTexts,
    held_out: int,
    check_read: Callable[[Iterable[Path]], None],
    train: Iterable[bytes],
) -> tuple[dict[str, Split], Facts]:
    """Returns the pairs of files, and the facts about them."""
    logger.info("Checking and preparing the %s", "corpus" if TRAIN in files else "extra tests")
    findings = check_files(files, train)
    sizes = {split: sum(known(source).num_lines for source, _ in files[split]) for split in files}
    splits = {
        split: Split(sizes[split], functools.partial(_pairs, pairs, check_read))
        for split, pairs in files.items()
    }
    hashed = ""
    if held_out:
        splits |= _divided(splits[TRAIN], held_out)
        read = splits[TRAIN].read
        sources = ((source for source, _ in splits[split].read()) for split in (VALIDATION, TRAIN))
        findings += find_overlap(VALIDATION, *sources)
        hashed = fingerprint((source for source, _ in read()), (target for _, target in read()))
    elif TRAIN in files:
        hashed = fingerprint(*_sides(files[TRAIN]))
    return splits, Facts(tuple(findings), hashed)


def _divided(train: Split, held_out: int) -> dict[str, Split]:
    """Returns training and validation pairs: of every n / held_out pairs the last is held out.

    It is the last with text on both sides; where none has, one fewer is held out.

    Raises:
        UserError: If no pair would be left.
    """
    if held_out >= train.size:
        raise UserError(
            f"`data.held_out` should be below the number of training pairs, {train.size:,}. "
            f"Received: {held_out:,}."
        )
    last = {number * held_out // train.size: number for number in _with_text(train)}
    if sum(1 for _ in itertools.islice(_with_text(train), len(last) + 1)) == len(last):
        raise UserError(
            f"`data.held_out` leaves no training pair with text on both sides: {len(last):,} of "
            f"{train.size:,} pairs have it. Give other pairs with --dev, or hold out fewer."
        )
    in_validation = np.zeros(train.size, np.bool_)
    in_validation[[*last.values()]] = True

    def read(chosen: npt.NDArray[np.bool_]) -> Iterator[tuple[bytes, bytes]]:
        return itertools.compress(train.read(), chosen)

    return {
        TRAIN: Split(train.size - len(last), functools.partial(read, ~in_validation)),
        VALIDATION: Split(len(last), functools.partial(read, in_validation)),
    }


def _with_text(split: Split) -> Iterator[int]:
    """Yields the number of each pair with text on both sides."""
    for number, pair in enumerate(split.read()):
        if not any(is_blank(side.decode()) for side in pair):
            yield number


def _sides(files: Files) -> tuple[Iterator[bytes], Iterator[bytes]]:
    """Returns the lines of source and target, file after file."""
    sources, targets = zip(*files, strict=True)
    return (
        itertools.chain.from_iterable(map(unmarked_lines, sources)),
        itertools.chain.from_iterable(map(unmarked_lines, targets)),
    )


def _pairs(
    files: Files, check_read: Callable[[Iterable[Path]], None]
) -> Iterator[tuple[bytes, bytes]]:
    """Yields the pairs; sees to it that the files are then what they were said to be."""
    yield from zip(*_sides(files), strict=False)
    check_read(itertools.chain.from_iterable(files))
