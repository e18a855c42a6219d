"""What the machine offers."""

import ctypes
import os
import platform
from pathlib import Path
from typing import Any

# glibc's <malloc.h>: the most that stays free at the heap's end, how many blocks are no part of the
# heap, and how many heaps threads have. To set the size from which a block is no part of the heap
# would not do: where Python is 3.11, TensorFlow's `Dataset.from_generator` sets it back to 128 KiB.
_TRIM_THRESHOLD, _MMAP_MAX, _ARENA_MAX = -1, -4, -8
_KEEPING = {_TRIM_THRESHOLD: 2**31 - 1, _MMAP_MAX: 0, _ARENA_MAX: 1}


def cores() -> int:
    """Returns how many processor cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def keep_freed_memory() -> None:
    """Lets this process keep the memory that it frees, if its C library is glibc.

    TensorFlow frees most tensors of an update and allocates them again in the next. glibc returns
    what threads free to the system, which gives it back zeroed, page by page. For threads that are
    started later; variables `MALLOC_...` of the user's win.
    """
    asked = any(name.startswith("MALLOC_") for name in os.environ)
    if platform.libc_ver()[0] == "glibc" and not asked:
        mallopt = ctypes.CDLL(None).mallopt
        for option, value in _KEEPING.items():
            mallopt(option, value)


def machine() -> dict[str, Any]:
    """Returns what this process computes with, for records."""
    import tensorflow as tf

    names = []
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": names[0] if names else platform.processor() or platform.machine(),
        "threads": cores(),
        "gpus": len(tf.config.list_physical_devices("GPU")),
    }


def multiplies_bfloat16() -> bool:
    """Whether bfloat16 is taken to be fast: on a GPU, if a processor has it, or if none can tell.

    TensorFlow's devices stay unset, as a strategy of several workers must be the first to set them.
    """
    import tensorflow as tf

    features = Path("/proc/cpuinfo")
    known = features.exists() and not tf.config.list_physical_devices("GPU")
    return not known or "bf16" in features.read_text()
