"""Glossaries and vocabularies in files."""

from __future__ import annotations

from pathlib import Path

from dtmt_tf.commands.lines import Lines
from dtmt_tf.errors import UserError


def read_glossary(path: Path) -> dict[str, str]:
    """Returns target terms by their source terms.

    Args:
        path: A file with a source term, a tab and its target term in each line that is not empty.

    Raises:
        UserError: If a line is something else, or a term has two translations; with its number.
            If there is no term.
    """
    terms: dict[str, str] = {}
    for number, line in enumerate(Lines(path), start=1):
        if not line.strip():
            continue
        source, target, *more = [*map(str.strip, line.split("\t")), ""]
        if more != [""] or not (source and target):
            raise UserError(
                f"{path}:{number}: a line of a glossary should be a source term, a tab and its "
                f"target term. Received: {line!r}."
            )
        if terms.setdefault(source, target) != target:
            raise UserError(f"{path}:{number}: {source!r} has two translations.")
    if not terms:
        raise UserError(f"{path} has no term.")
    return terms


def read_words(path: Path) -> list[str]:
    """Returns the words of a file, divided by blanks or line ends, each once.

    Raises:
        UserError: If it has none.
    """
    words = list(dict.fromkeys(word for line in Lines(path) for word in line.split()))
    if not words:
        raise UserError(f"{path} has no word that translations could be made of.")
    return words
