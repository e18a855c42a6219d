"""Faults of translations that need no reference: nothing at all, or the same again and again."""

import re
from collections.abc import Sequence

WHOLE = re.compile(r"(.+?)\1{3,}", re.DOTALL)
# of words, as where a sentence goes on without end; or of characters, for languages without blanks
PART = re.compile(r"(?<!\S)(\S+(?: \S+){0,5})(?: \1){3,}(?!\S)|([^\W\d_]{2,12}?)\2{3,}")
NOTEWORTHY = 0.1  # share of translations


def is_repetition(text: str) -> bool:
    """Whether a text is nothing but one string at least four times, blanks aside."""
    return WHOLE.fullmatch("".join(text.split())) is not None


def repeats_itself(text: str) -> bool:
    """Whether one to six words, or 2 to 12 letters, stand four times in a row in a text."""
    return PART.search(text) is not None


def faults(sources: Sequence[str], translations: Sequence[str]) -> list[str]:
    """Lists what more than a tenth of the translations have: a line each.

    Args:
        sources: The sentences; those of nothing are not counted, nor those that repeat themselves.
        translations: As many.
    """
    pairs = [pair for pair in zip(sources, translations, strict=True) if pair[0].strip()]
    whole = [text for source, text in pairs if not repeats_itself(source)]
    found = {
        "are empty": [not text.strip() for _, text in pairs],
        "repeat themselves": [repeats_itself(text) for text in whole],
    }
    return [
        f"{sum(have):,} of {len(have):,} translations {what}"
        for what, have in found.items()
        if sum(have) > NOTEWORTHY * len(have)
    ]
