"""Sets of contrastive translations: LingEval97's JSON, or a table with tabs."""

from __future__ import annotations

import json
import re
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
    places = {
        wanted: [k for k, cell in enumerate(head) if cell.partition("_")[0] == wanted]
        for wanted in (*TABLE, "distance")
    }
    for wanted, found in places.items():
        if len(found) > 1:
            names = ", ".join(head[k] for k in found)
            raise UserError(f"{name}:1: several columns begin with {wanted}: {names}. Keep one.")
    missing = [wanted for wanted in TABLE if not places[wanted]]
    if missing:
        raise UserError(
            f"{name}:1: a column is missing that begins with {', '.join(missing)}. The first line "
            f"of a table names its columns, with tabs between them: {', '.join(TABLE)}."
        )
    texts = [k for wanted in TABLE for k in places[wanted]]
    contrasts = []
    for number, line in enumerate(lines[1:], start=2):
        cells = line.split("\t")
        if len(cells) != len(head):
            raise UserError(
                f"{name}:{number}: {len(cells)} columns; the first line has {len(head)}."
            )
        kind, source, correct, contrastive = (cells[k] for k in texts)
        (distance,) = [cells[k] or None for k in places["distance"]] or [None]
        place = f"{name}:{number}"
        contrasts.append(_contrast(place, kind, source, correct, contrastive, distance))
    return contrasts


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
        sentences = json.loads(text)
        if not isinstance(sentences, list):
            raise TypeError(f"{type(sentences).__name__} instead of a list")
        for sentence in sentences:
            correct = len(rows)
            rows.append((sentence["source"], sentence["reference"]))
            if not isinstance(sentence["errors"], list):
                raise TypeError("errors are no list")
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
    if distance is not None and not re.fullmatch("[0-9]{1,9}", str(distance)):
        raise UserError(f"{place}: a distance is a number of words. Received: {distance!r}.")
    return Contrast(*texts, None if distance is None else int(distance))
