"""The splits of a task: found, checked and read."""

from __future__ import annotations

import logging
from collections.abc import Mapping
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
    """Reads train, validation and test pairs, as far as the settings name them.

    Args:
        data: Names the corpus or its files.
        task: Knows where its public files come from.
        data_dir: Where the user keeps data sets.
        cache_dir: Where downloads go.

    Returns:
        Source and target lines by split, and what the data check found worth telling.

    Raises:
        UserError: If a file is missing or faulty.
    """
    if data.corpus == "cldr":
        logger.info("Rendering the corpus from Unicode CLDR")
        splits = render_corpus(data.source_language, data.target_language)
        return splits, check_pairs(splits)
    paths: dict[str, tuple[Path, Path]] = {}
    for split in ("train", "validation", "test"):
        names = getattr(data, f"{split}_source"), getattr(data, f"{split}_target")
        if all(names):
            source, target = (_find(name, task, data_dir, cache_dir) for name in names)
            paths[split] = source, target
        elif any(names) or split == "train":
            raise UserError(
                f"data.{split}_source and data.{split}_target should both name a file. "
                f"Received: {names[0]!r} and {names[1]!r}.\n{task.unavailable}".rstrip()
            )
    findings = check_files(paths)
    return {split: read_parallel(*sides) for split, sides in paths.items()}, findings


def _find(name: str, task: Task, data_dir: Path | None, cache_dir: Path) -> Path:
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
