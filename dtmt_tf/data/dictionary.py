"""A dictionary of words, read from a file."""

from __future__ import annotations

from pathlib import Path

from dtmt_tf.data.lines import read_whole
from dtmt_tf.errors import UserError


def read_dictionary(path: Path) -> dict[str, str]:
    """Returns the translations of words.

    Args:
        path: UTF-8 text, plain or packed, on each line a word, a tab, its translation. What follows
            another tab, such as a probability, is not read. Of a word's lines the first counts.

    Raises:
        UserError: If a line has no tab, or the file is damaged, not UTF-8 or holds nothing.
    """
    found: dict[str, str] = {}
    try:
        lines = read_whole(path).decode().split("\n")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 ({error}).") from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        word, *rest = (field.strip() for field in line.split("\t"))
        if not word or not rest or not rest[0]:
            raise UserError(
                f"{path}, line {number}: expected a word, a tab and its translation. "
                f"Received: {line[:60]!r}."
            )
        found.setdefault(word, rest[0])
    if not found:
        raise UserError(f"{path} holds no words.")
    return found
