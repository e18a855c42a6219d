"""Models need Keras alone: under JAX, without TensorFlow, each architecture computes the same."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

from tests.cells.twin import relative_error
from tests.layers import backend_values

ROOT = Path(__file__).parents[2]
JAX = {
    "KERAS_BACKEND": "jax",
    "JAX_PLATFORMS": "cpu",
    # each operation runs a few times: to optimise it takes longer
    "XLA_FLAGS": "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true",
}


@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="JAX is not installed")
def test_jax_without_tensorflow_computes_the_same():
    run = subprocess.run(
        [sys.executable, "-m", "tests.layers.backend_values"],
        env=os.environ | JAX,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert run.returncode == 0, run.stderr
    theirs = json.loads(run.stdout.splitlines()[-1])
    assert theirs.pop("backend") == "jax" != keras.backend.backend()
    ours = backend_values.values()
    assert set(theirs) == set(ours)
    for name, value in ours.items():
        assert np.max(np.abs(value)) > 0.1
        assert relative_error(value, np.array(theirs[name])) <= 1e-5
