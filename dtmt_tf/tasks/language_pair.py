"""Parallel files named by their stems."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from dtmt_tf.config import DataConfig


def language_pair(
    data: DataConfig,
    source: str,
    target: str,
    *,
    train: Sequence[str],
    validation: Sequence[str],
    test: Sequence[str] = (),
    extra_tests: Sequence[str] = (),
) -> DataConfig:
    """Returns settings with two languages and their files: each stem, a dot and the language.

    Args:
        data: All other settings.
        source: ISO code of the source.
        target: ISO code of the target.
        train: Stems such as `"wmt/newstest2012"`, below `--data-dir`.
        validation: Stems for validation.
        test: Stems for the test; none if the corpus has no such part.
        extra_tests: Stems of tests that are scored by themselves.
    """
    files: dict[str, Any] = {
        f"{split}_{side}": tuple(f"{stem}.{language}" for stem in stems)
        for split, stems in (("train", train), ("validation", validation), ("test", test))
        for side, language in (("source", source), ("target", target))
    }
    return dataclasses.replace(
        data,
        source_language=source,
        target_language=target,
        extra_tests=tuple(extra_tests),
        **files,
    )
