"""Facts about the user's own training text, read before any setting is sized."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

from dtmt_tf.config import DataConfig, Task
from dtmt_tf.data.lines import LINES_READ, unmarked_lines
from dtmt_tf.data.own_files import TRAIN, check_sides, find_file, known_texts
from dtmt_tf.errors import UserError
from dtmt_tf.languages import has_blanks
from dtmt_tf.sizing import TextFacts

CHARACTERS_A_WORD = 1.6  # of languages without blanks: Chinese


def text_facts(
    data: DataConfig,
    task: Task,
    data_dir: Path | None,
    cache_dir: Path,
    has_bfloat16: bool,
    replicas: int,
) -> TextFacts:
    """Counts the pairs of the training files; words and characters in the first of each file.

    Args:
        data: Names the files.
        task: Knows where its public files come from.
        data_dir: Where the user keeps data sets.
        cache_dir: Where the numbers of lines are kept.
        has_bfloat16: Whether the processor multiplies bfloat16.
        replicas: Devices that will train together.

    Raises:
        UserError: If a file is missing, damaged or empty, one side has more files, or two files
            that belong together have unequal numbers of lines.
    """
    check_sides(TRAIN, data.train_source, data.train_target, task, of_files=True)
    known = known_texts(cache_dir)
    pairs, words = 0, 0.0
    alphabet: set[str] = set()
    longest: list[float] = []
    for names in zip(data.train_source, data.train_target, strict=True):
        source, target = (find_file(name, task, data_dir, cache_dir, known) for name in names)
        lines = known(source).num_lines
        if known(target).num_lines != lines:
            raise UserError(
                f"{source} has {lines:,} lines and {target} {known(target).num_lines:,}. Line n of "
                "one should be the translation of line n of the other."
            )
        if not lines:
            raise UserError(f"{source} and {target} are empty.")
        languages = data.source_language, data.target_language
        read = [
            _words(path, language, alphabet)
            for path, language in zip((source, target), languages, strict=True)
        ]
        longest += map(max, *read)
        pairs += lines
        words += (sum(read[0]) + sum(read[1])) / 2 * lines / len(read[0])
    if not words:
        raise UserError(f"{', '.join(data.train_source + data.train_target)} hold no words.")
    longest.sort()
    return TextFacts(
        pairs=pairs,
        words=max(1, round(words)),
        alphabet=len(alphabet),
        longest=round(longest[(999 * (len(longest) - 1)) // 1000]),
        has_validation=bool(data.validation_source),
        has_bfloat16=has_bfloat16,
        replicas=replicas,
    )


def _words(path: Path, language: str, alphabet: set[str]) -> Sequence[float]:
    """Returns the words of each line; adds its characters to the alphabet."""
    found = []
    for line in itertools.islice(unmarked_lines(path), LINES_READ):
        text = line.decode(errors="replace")  # the data check tells of what is no UTF-8
        alphabet.update(text)
        found.append(len(text.split()) if has_blanks(language) else len(text) / CHARACTERS_A_WORD)
    return found
