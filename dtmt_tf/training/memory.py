"""Turns a lack of memory into an error, where the system would kill the process."""

from __future__ import annotations

import contextlib
import re
import resource
from collections.abc import Iterator
from pathlib import Path

STATUS, MEMINFO = Path("/proc/self/status"), Path("/proc/meminfo")
CONTAINER = Path("/sys/fs/cgroup")


@contextlib.contextmanager
def no_more_than_there_is() -> Iterator[None]:
    """Lets allocations fail that exceed the memory of the machine or container.

    Linux grants any allocation and kills the process once it uses what is not there. In here the
    process can not be granted more than is free at the start. Elsewhere than on Linux nothing is
    limited.
    """
    if not (STATUS.exists() and MEMINFO.exists()):
        yield
        return
    former = resource.getrlimit(resource.RLIMIT_DATA)
    limits = [value for value in former if value != resource.RLIM_INFINITY]
    limit = min([_number(STATUS, "VmData:") * 1024 + available(), *limits])
    resource.setrlimit(resource.RLIMIT_DATA, (limit, former[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, former)


def available() -> int:
    """Returns the bytes that a process can still take, on Linux."""
    free = _number(MEMINFO, "MemAvailable:") * 1024
    limit = CONTAINER / "memory.max"
    if limit.exists() and (most := limit.read_text().strip()).isdigit():
        used = int((CONTAINER / "memory.current").read_text())
        # files that were read count as used, but the system gives their room back
        cached = sum(_number(CONTAINER / "memory.stat", f"{kind}_file")
                     for kind in ("active", "inactive"))  # fmt: skip
        free = min(free, int(most) - used + cached)
    return max(0, free)


def _number(path: Path, name: str) -> int:
    found = re.search(rf"^{name}\s+(\d+)", path.read_text(), re.MULTILINE)
    return int(found[1]) if found else 0
