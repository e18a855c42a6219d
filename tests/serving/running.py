"""Starts the stand-in for the server in a process of its own."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Running:
    """Where a server listens.

    Attributes:
        rest: Address of the REST interface, such as `"http://127.0.0.1:8501"`.
        grpc: Address of the gRPC interface, such as `"127.0.0.1:8500"`.
        process: The server.
    """

    rest: str
    grpc: str
    process: subprocess.Popen[str]


@contextmanager
def running_double(models: Mapping[str, Path], *options: str) -> Iterator[Running]:
    """Serves models until the block ends.

    Args:
        models: Folders with versions, by the name that clients use.
        options: More of the command line of `tests.serving.double`.
    """
    pairs = [f"--model={name}={folder}" for name, folder in models.items()]
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.serving.double", *pairs, *options],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        )
        assert process.stdout
        try:
            line = process.stdout.readline()
            if not line:
                log.seek(0)
                raise RuntimeError(log.read())
            ports = json.loads(line)
            rest, grpc = (f"127.0.0.1:{ports[name]}" for name in ("rest_port", "grpc_port"))
            yield Running(f"http://{rest}", grpc, process)
        finally:
            process.terminate()
            process.communicate(timeout=1800)
