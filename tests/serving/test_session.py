"""Proof in the C++ session, alone in its process: all signatures, threads, memory, time to load."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.serving.calls import LINES, TEXTS

PROGRAM = """
import json, os, sys, time
sys.path.insert(0, sys.argv[1])
from concurrent.futures import ThreadPoolExecutor
from c_api import load_library
from c_session import CSession

def resident_bytes():
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0

asked = json.load(sys.stdin)
times = [time.process_time()]
load_library()
times.append(time.process_time())
session = CSession(sys.argv[2])
times.append(time.process_time())
told = {"library_seconds": times[1] - times[0], "load_seconds": times[2] - times[1]}

told["signatures"] = session.signatures
told["outputs"] = [session.run_flat(*call) for call in asked["calls"]]

def work(thread):
    batches = asked["batches"][thread:] + asked["batches"][:thread]
    outputs = [session.run("translate", {"text": batch}) for batch in batches]
    return outputs[-thread:] + outputs[:-thread] if thread else outputs

told["alone"] = work(0)
with ThreadPoolExecutor(8) as pool:
    told["threads"] = list(pool.map(work, range(8)))

def call_often(times):
    for _ in range(times // 4):
        session.run("translate", {"text": ["a dog"]})
        session.run("score", {"source": ["a dog"], "target": ["the cat"]})
        session.run("info", {"text": asked["large"]})
        session.run("info", {"text": asked["large"]})

call_often(100)
before = resident_bytes()
call_often(1000)
told["growth"] = resident_bytes() - before
told["packages"] = sorted({"tensorflow", "tensorflow_text", "numpy"} & set(sys.modules))
print(json.dumps(told))
"""
# `info` searches nothing, but its tensors are large: one that is not freed would tell.
LARGE = ["x" * 2000] * 128
ODD = "a\u00a0sma\u00adll dog\u200b ru\u0308ns"  # the mark is composed with its letter
BATCHES = [[LINES[0]], LINES[1:], [LINES[3], LINES[0]], LINES, LINES[::-1], [LINES[1]] * 3]


@pytest.fixture(scope="module")
def calls(in_python):
    """Every signature with four rows, two and none, and odd lines: `[(signature, inputs)]`."""
    return [("translate", {"text": [ODD]})] + [
        (signature, {name: TEXTS[name][:rows] for name in function.structured_input_signature[1]})
        for signature, function in in_python.signatures.items()
        for rows in (4, 2, 0)
    ]


@pytest.fixture(scope="module")
def told(served_models, calls):
    """What the session's process says of the translator."""
    folder = Path(__file__).parents[1] / "export"
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, folder, served_models["translator"] / "2"],
        input=json.dumps({"calls": calls, "batches": BATCHES, "large": LARGE}),
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_every_signature_gives_what_python_gives(told, calls, in_python):
    assert set(told["signatures"]) == set(in_python.signatures)
    for (signature, inputs), outputs in zip(calls, told["outputs"], strict=True):
        expected = in_python(signature, **inputs)
        assert set(outputs) == set(expected)
        for name, (shape, flat) in outputs.items():
            where = f"{signature} {name} {inputs}"
            assert tuple(shape) == expected[name].shape, where
            if expected[name].dtype == object:
                assert [text.encode() for text in flat] == expected[name].ravel().tolist(), where
            else:
                np.testing.assert_allclose(flat, expected[name].ravel(), atol=1e-5, err_msg=where)


def test_no_package_is_needed(told):
    assert told["packages"] == []


def test_eight_threads_agree_with_one(told):
    assert len({text for batch in told["alone"] for text in batch["translation"]}) == len(LINES)
    assert len(told["threads"]) == 8
    for outputs in told["threads"]:
        for batch, expected in zip(outputs, told["alone"], strict=True):
            assert batch["translation"] == expected["translation"]
            np.testing.assert_allclose(batch["score"], expected["score"], atol=1e-5)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="/proc tells no memory here")
def test_a_thousand_calls_keep_the_memory(told):
    assert told["growth"] < 20e6


def test_the_model_loads_in_a_few_times_what_the_library_takes(told):
    assert told["load_seconds"] <= 6 * told["library_seconds"]  # 2.2 times
