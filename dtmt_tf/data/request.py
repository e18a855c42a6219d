"""A request to a source of text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dtmt_tf.config import DataConfig, Task

DATASETS = "datasets"  # folder of the cache where TFDS keeps data sets


@dataclass(frozen=True)
class Request:
    """A requested corpus, and the folders to use.

    Args:
        data: Names the corpus or its files.
        task: Knows where its public files come from.
        data_dir: Where the user keeps data sets, if anywhere.
        cache_dir: Where downloads and prepared data sets go.
    """

    data: DataConfig
    task: Task
    data_dir: Path | None
    cache_dir: Path

    @property
    def languages(self) -> tuple[str, str]:
        """Names of the two sides."""
        languages = self.data.source_language, self.data.target_language
        return languages if all(languages) and len(set(languages)) == 2 else ("source", "target")

    @property
    def datasets(self) -> Path:
        """Where TFDS keeps data sets."""
        return self.cache_dir / DATASETS
