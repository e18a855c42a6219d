"""Starts `dtmt serve` in a process of its own."""

import os
import re
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
def running_server(models: Mapping[str, Path], *options: str) -> Iterator[Running]:
    """Serves models until the block ends.

    Args:
        models: Folders with versions, by the name that clients use.
        options: More of the command line of `dtmt serve`.
    """
    command = [sys.executable, str(ROOT / "pipelines" / "serve.py"), "--rest-port=0"]
    command += ["--grpc-port=0", *(f"{name}={folder}" for name, folder in models.items())]
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            [*command, *options],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        )
        assert process.stdout
        try:
            for line in process.stdout:
                if found := re.match(r"REST: (\S+) +gRPC: (\S+)$", line):
                    break
            else:
                process.wait(timeout=1800)
                log.seek(0)
                raise RuntimeError(f"{process.returncode}: {log.read()}")
            yield Running(found[1], found[2], process)
        finally:
            runs = process.poll() is None
            process.terminate()
            process.communicate(timeout=1800)
            assert not runs or process.returncode in (0, 130)  # 130 if it is told twice
