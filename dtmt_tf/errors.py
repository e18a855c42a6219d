"""Errors shared by every room of the package."""

import difflib
from collections.abc import Iterable

MOST_LISTED = 12
# what reading JSON raises, and taking out of it what should be there, if it is damaged
DAMAGED = (ValueError, KeyError, TypeError, AttributeError, RecursionError)


class UserError(Exception):
    """A mistake the user can mend; pipelines print it without a traceback and exit with code 2."""


class Refused(UserError):
    """A text that a model refuses by itself, such as one beyond its limits; others it may take."""


def hint(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """Returns what to say after a name that is none of those known: the nearest, if one is near."""
    near = difflib.get_close_matches(name, list(known), 1)
    return f"Did you mean {near[0]!r}?" if near else otherwise


def listed(name: str, known: Iterable[str]) -> str:
    """Returns lines that name what there is, the nearest to a name first; nothing if none is."""
    names = sorted(known)
    if not names:
        return ""
    near = difflib.get_close_matches(name, names, 1, 0.8)
    first = [*near, *(each for each in names if each not in near)][:MOST_LISTED]
    more = f"\n  and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
    return "\nThere are:\n  " + "\n  ".join(first) + more
