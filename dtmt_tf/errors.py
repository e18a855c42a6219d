"""Errors shared by every room of the package."""

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """A mistake the user can mend; pipelines print it without a traceback and exit with code 2."""


def hint(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """Returns what to say after a name that is none of those known: the nearest, if one is near."""
    near = difflib.get_close_matches(name, list(known), 1)
    return f"Did you mean {near[0]!r}?" if near else otherwise
