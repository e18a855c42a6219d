"""What the machine offers."""

import os
import platform
from pathlib import Path
from typing import Any


def cores() -> int:
    """Returns how many processor cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


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
