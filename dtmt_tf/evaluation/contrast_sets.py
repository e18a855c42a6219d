"""Sets of contrastive translations: LingEval97's JSON, or a table with tabs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dtmt_tf.errors import DAMAGED, UserError

TABLE = ("set", "source", "correct", "contrastive")  # how columns begin: source_en, correct_de


@dataclass(frozen=True)
class Contrast:
    """A source with a correct translation and one that has an error.

    Args:
        kind: The type of the error.
        source: The source text.
        correct: The correct translation.
        contrastive: The same with the error.
        distance: Words between those that should agree, where it is known.
    """

    kind: str
    source: str
    correct: str
    contrastive: str
    distance: int | None = None

    @property
    def position(self) -> int:
        """The first word, counted from 0 and split at blanks, in which the translations differ."""
        both = list(zip(self.correct.split(), self.contrastive.split(), strict=False))
        return next((k for k, (one, other) in enumerate(both) if one != other), len(both))


def read_table(lines: Sequence[str], name: str) -> list[Contrast]:
    """Reads a table with tabs, one contrast a line.

    Its first line names the columns: `set` (the type of the error) and three that begin with
    `source`, `correct` and `contrastive`; a column `distance` may be there, others are not read.

    Args:
        lines: The file's lines.
        name: The file's name, for messages.

    Raises:
        UserError: If a column is missing, or a line has another number of them.
    """
    head = lines[0].split("\t") if lines else []
    columns = [next((k for k, cell in enumerate(head) if cell.partition("_")[0] == wanted), -1)
               for wanted in (*TABLE, "distance")]  # fmt: skip
    missing = [wanted for wanted, k in zip(TABLE, columns, strict=False) if k < 0]
    if missing:
        raise UserError(
            f"{name}:1: a column is missing that begins with {', '.join(missing)}. The first line "
            f"of a table names its columns, with tabs between them: {', '.join(TABLE)}."
        )
    found = []
    for number, line in enumerate(lines[1:], start=2):
        cells = line.split("\t")
        if len(cells) != len(head):
            raise UserError(
                f"{name}:{number}: {len(cells)} columns; the first line has {len(head)}."
            )
        kind, source, correct, contrastive, *_ = (cells[k] for k in columns)
        distance = (cells[columns[-1]] or None) if columns[-1] >= 0 else None
        found.append(_contrast(f"{name}:{number}", kind, source, correct, contrastive, distance))
    return found


def read_json(
    text: bytes, name: str, prepared: tuple[Sequence[str], Sequence[str]] | None = None
) -> list[Contrast]:
    """Reads LingEval97's JSON: sentences, each with a list of errors.

    Args:
        text: The file's content.
        name: The file's name, for messages.
        prepared: Lines of sources and of translations that stand for the JSON's, such as truecased
            ones: of each sentence the correct translation, then one with each error. This is what
            LingEval97's `json_to_plaintext.py` writes.

    Raises:
        UserError: If it is no such list, or there are more or fewer lines than it has.
    """
    rows: list[tuple[Any, Any]] = []  # source and translation
    errors: list[tuple[int, int, Any, Any]] = []  # of which rows, type and distance
    try:
        for sentence in json.loads(text):
            correct = len(rows)
            rows.append((sentence["source"], sentence["reference"]))
            for error in sentence["errors"]:
                errors.append((correct, len(rows), error["type"], error.get("distance")))
                rows.append((sentence["source"], error["contrastive"]))
    except DAMAGED as error:
        raise UserError(
            f"{name} is no list of sentences with source, reference and errors, each error with "
            f"type and contrastive, as LingEval97 has it ({type(error).__name__}: {error})."
        ) from None
    if prepared:
        counts = [len(lines) for lines in prepared]
        if set(counts) != {len(rows)}:
            raise UserError(
                f"Prepared text of {name} should have {len(rows):,} lines, one for each correct "
                f"translation and one for each error. Received: {counts[0]:,} and {counts[1]:,}."
            )
        rows = list(zip(*prepared, strict=True))
    return [
        _contrast(f"{name}: pair {k}", kind, *rows[correct], rows[wrong][1], distance)
        for k, (correct, wrong, kind, distance) in enumerate(errors, start=1)
    ]


def _contrast(
    place: str, kind: Any, source: Any, correct: Any, contrastive: Any, distance: Any
) -> Contrast:
    """Returns a contrast if its values are what they should be.

    Raises:
        UserError: Otherwise.
    """
    texts = kind, source, correct, contrastive
    if not all(isinstance(text, str) for text in texts):
        raise UserError(f"{place}: type, source and translations should be texts.")
    if not kind.isprintable():  # it stands in tables
        raise UserError(f"{place}: the type {kind!r} has characters that can not be shown.")
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        raise UserError(f"{place}: a text has half of a character (a lone surrogate).") from None
    try:
        words = None if distance is None else int(distance)
    except (ValueError, TypeError, OverflowError):
        raise UserError(f"{place}: a distance is a number. Received: {distance!r}.") from None
    return Contrast(*texts, words)
