"""A disk without room, as the system has it."""

import contextlib
import resource
import sys


@contextlib.contextmanager
def file_size_limit(size):
    """Makes the system refuse to write more than so many bytes into any file.

    Python writes no byte code meanwhile: a module imported here would stay cut short.
    """
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    cached, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        sys.dont_write_bytecode = cached
