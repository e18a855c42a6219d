"""Errors shared by every room of the package."""


class UserError(Exception):
    """A mistake the user can mend; pipelines print it without a traceback and exit with code 2."""
