"""Memory that is freed stays with the process, unless its user has other wishes."""

import os
import platform
import subprocess
import sys

import pytest
import tensorflow as tf

from dtmt_tf import machine

COUNTING = """
import ctypes, resource, threading
import numpy as np
from dtmt_tf.machine import keep_freed_memory

def work():
    for _ in range(30):
        blocks = [np.ones(2**17) for _ in range(20)]  # 1 MiB each
        blocks.append(np.ones(2**23))  # 64 MiB
        del blocks

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

keep_freed_memory()
ctypes.CDLL(None).mallopt(-3, 2**17)  # as TensorFlow's `from_generator` does on Python 3.11
work()
before = faults()
thread = threading.Thread(target=work)
thread.start()
thread.join()
print(faults() - before)
"""


def page_faults(**environment):
    """How often a thread waited for a page of the 2.5 GiB that it allocates and frees."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    said = subprocess.run(
        [sys.executable, "-c", COUNTING],
        env={**kept, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return int(said.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library has other rules")
def test_a_thread_gets_what_was_freed_before_without_a_page_fault():
    assert page_faults() < 1_000
    assert page_faults(MALLOC_TRIM_THRESHOLD_="131072") > 10_000  # the user's wish


@pytest.mark.parametrize(
    ("features", "devices", "expected"),
    [
        ("flags : avx512f avx512_bf16", [], True),
        ("flags : avx512f", [], False),
        ("flags : avx512f", ["GPU:0"], True),
        (None, [], True),  # a system that does not tell
    ],
)
def test_a_processor_without_bfloat16_is_known_by_its_flags(
    features, devices, expected, tmp_path, monkeypatch
):
    told = tmp_path / "cpuinfo"
    if features:
        told.write_text(features)
    monkeypatch.setattr(machine, "Path", {"/proc/cpuinfo": told}.get)
    monkeypatch.setattr(tf.config, "list_physical_devices", {"GPU": devices}.get)
    assert machine.multiplies_bfloat16() is expected
