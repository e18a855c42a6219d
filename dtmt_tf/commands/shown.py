"""Translations and scores as a line of text."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dtmt_tf.translator import Score, Translation

DIGITS = 4  # of scores and attention


@dataclass(frozen=True)
class Unanswered:
    """A line that the model refuses."""

    source: str


def as_row(
    answer: Translation | Score | Unanswered,
    show_source: bool = False,
    scores: bool = False,
    tag: str = "",
) -> str:
    """Returns columns between tabs; with two or more, tabs within texts become blanks.

    Args:
        answer: A translation: its text, or the best texts; its alignment. A score: the log
            probability and the number of sub-words. Of what is refused: nothing.
        show_source: Whether the source comes first.
        scores: Whether a score follows each text.
        tag: What stands, with a blank, before each text that is not empty.
    """
    from dtmt_tf.translator import Score

    cells = [answer.source] if show_source else []
    if isinstance(answer, Unanswered):
        cells.append("")
    elif isinstance(answer, Score):
        cells += [_number(answer.log_probability), str(answer.tokens)]
    else:
        for candidate in answer.nbest or [answer]:
            cells.append(f"{tag} {candidate.text}" if tag and candidate.text else candidate.text)
            cells += [_number(candidate.score)] if scores else []
        cells += [answer.alignment.pharaoh] if answer.alignment else []
    return "\t".join(cell.replace("\t", " ") for cell in cells) if len(cells) > 1 else cells[0]


def as_json(answer: Translation | Score | Unanswered, nbest: bool = False) -> str:
    """Returns an answer as a JSON object with all that it holds.

    Args:
        answer: A translation or a score, or what is refused.
        nbest: Whether the best translations were asked for; a text of blanks has none.
    """
    from dtmt_tf.translator import Score

    values: dict[str, Any] = {"source": answer.source}
    if isinstance(answer, Unanswered):
        return json.dumps({**values, "refused": True}, ensure_ascii=False)
    if isinstance(answer, Score):
        values["target"] = answer.target
        values["log_probability"] = round(answer.log_probability, DIGITS)
        values["tokens"] = answer.tokens
        return json.dumps(values, ensure_ascii=False)
    values["translation"], values["score"] = answer.text, round(answer.score, DIGITS)
    if nbest:
        values["nbest"] = [
            {"translation": each.text, "score": round(each.score, DIGITS)} for each in answer.nbest
        ]
    if alignment := answer.alignment:
        values["alignment"] = {
            "source": alignment.source,
            "target": alignment.target,
            "links": alignment.links,
            "attention": [[round(share, DIGITS) for share in row] for row in alignment.attention],
        }
    return json.dumps(values, ensure_ascii=False)


def _number(value: float) -> str:
    return f"{value:.{DIGITS}f}"
