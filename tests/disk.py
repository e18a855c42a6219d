"""A disk without room, as the system has it."""

import contextlib
import resource


@contextlib.contextmanager
def file_size_limit(size):
    """Makes the system refuse to write more than so many bytes into any file."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
