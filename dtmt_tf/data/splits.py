"""The splits of a task: found, checked and read."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path

from dtmt_tf.config import DataConfig, Task
from dtmt_tf.data.check import Finding, check_files, check_pairs
from dtmt_tf.data.cldr import render_corpus
from dtmt_tf.data.corpus import read_parallel, resolve_file
from dtmt_tf.errors import UserError

Pairs = tuple[list[str], list[str]]

logger = logging.getLogger(__name__)


def load_splits(
    data: DataConfig, task: Task, data_dir: Path | None, cache_dir: Path
) -> tuple[dict[str, Pairs], list[Finding]]:
    """Reads train, validation and test pairs and extra tests, as far as the settings name them.

    Args:
        data: Names the corpus or its files.
        task: Knows where its public files come from.
        data_dir: Where the user keeps data sets.
        cache_dir: Where downloads go.

    Returns:
        Source and target lines by split, its files one after the other, and what the data check
        found worth telling.

    Raises:
        UserError: If a file is missing or faulty.
    """
    if data.corpus == "cldr":
        logger.info("Rendering the corpus from Unicode CLDR")
        splits = render_corpus(data.source_language, data.target_language)
        return splits, check_pairs(splits)
    paths: dict[str, list[tuple[Path, Path]]] = {}
    for split, (sources, targets) in named_files(data).items():
        if len(sources) != len(targets) or (split == "train" and not sources):
            raise UserError(
                f"data.{split}_source and data.{split}_target should both name a file, or as many "
                f"files. Received: {', '.join(sources) or 'none'} and "
                f"{', '.join(targets) or 'none'}.\n{task.unavailable}".rstrip()
            )
        for pair in zip(sources, targets, strict=True):
            source, target = (find_file(name, task, data_dir, cache_dir) for name in pair)
            paths.setdefault(split, []).append((source, target))
    findings = check_files(paths)
    return {split: _read(files) for split, files in paths.items()}, findings


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


def _read(files: Iterable[tuple[Path, Path]]) -> Pairs:
    """Reads pairs of files, one after the other."""
    pairs: Pairs = [], []
    for paths in files:
        for side, lines in zip(pairs, read_parallel(*paths), strict=True):
            side.extend(lines)
    return pairs


def find_file(name: str, task: Task, data_dir: Path | None, cache_dir: Path) -> Path:
    """Returns the path of a file: as given, below the data directory, or downloaded."""
    remote: Mapping[str, object] = {file.path: file for file in task.files}
    if name in remote:
        return resolve_file(remote[name], data_dir, cache_dir)  # type: ignore[arg-type]
    for folder in (Path(), *([data_dir] if data_dir else [])):
        for suffix in ("", ".gz", ".xz"):
            path = folder / (name + suffix)
            if path.is_file():
                return path
    places = f"here or below {data_dir}" if data_dir else "here; --data-dir names another place"
    raise UserError(f"{name} was not found, {places}.\n{task.unavailable}".rstrip())
