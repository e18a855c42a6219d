"""Makes the n-th call of a process that touches its files fail, or the last it makes.

    python -m tests.faults 3 EIO --below DIR -- python pipelines/translate.py ...
    python -m tests.faults 0 KILL --below DIR -- ...       counts the calls, and lists them

Counted are, below one folder: opening, writing, flushing to the disk, renaming, removing and making
folders, whoever does it: Python, TensorFlow, any library. Not each fault can befall each call:

    EIO, ESTALE   all of them
    EACCES        opening (for reading, too), renaming, removing
    ENOSPC        opening for writing, writing, flushing; from the n-th on all of them
    KILL          all but opening for reading: SIGKILL in place of the call

From Python: `run` does that to a command. A process that was started with `environment()` can do
it to a function, in a fork (`forked`), or to itself (`arm`, then `count`); `each` does it with
every n. All of it takes a C compiler and Linux.
"""

from __future__ import annotations

import argparse
import atexit
import ctypes
import errno
import functools
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dtmt_tf.errors import UserError

SOURCE = Path(__file__).with_suffix(".c")
KILL = "KILL"
ERRORS = {name: getattr(errno, name) for name in ("EIO", "ENOSPC", "ESTALE", "EACCES")} | {KILL: -1}


class Fault(NamedTuple):
    """What is to go wrong.

    Args:
        error: One of `ERRORS`.
        number: Which call, from 1; 0 only counts those that the error could befall.
    """

    error: str
    number: int = 0

    @property
    def is_lasting(self) -> bool:
        """Whether later calls fail as well: a disk stays full."""
        return self.error == "ENOSPC"


def compiler() -> str | None:
    """Returns the C compiler, if there is one and the system is Linux."""
    return shutil.which("cc") or shutil.which("gcc") if sys.platform == "linux" else None


@functools.cache
def works() -> bool:
    """Returns whether processes here can be made to fail.

    It takes Linux, a C compiler and temporary files that may be run, and whose names have neither
    blanks nor colons: those part the names in LD_PRELOAD.
    """
    if compiler() is None or set(tempfile.gettempdir()) & set(" :"):
        return False
    try:
        ctypes.CDLL(str(library()))
    except OSError:
        return False
    return True


@functools.cache
def library() -> Path:
    """Compiles what counts and fails; it goes when this process ends."""
    folder = tempfile.mkdtemp(prefix="faults-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder) / "faults.so"
    flags = ["-shared", "-fPIC", "-O1", "-U_FORTIFY_SOURCE"]
    subprocess.run([compiler() or "cc", *flags, "-o", path, SOURCE, "-ldl"], check=True)
    return path


def environment(
    fault: Fault | None = None, below: Path | None = None, log: Path | None = None
) -> dict[str, str]:
    """Returns the environment of a process that is to fail.

    Args:
        fault: What goes wrong; without it nothing does until the process calls `arm`.
        below: The folder.
        log: A file that gets a line for each call: number, call, path, and `*` if it failed.
    """
    added = {"LD_PRELOAD": str(library())}
    if fault:
        numbers = fault.number, ERRORS[fault.error], int(fault.is_lasting)
        added["DTMT_FAULTS"] = ":".join([*map(str, numbers), str(Path(below or "/").resolve())])
    if log:
        added["DTMT_FAULTS_LOG"] = str(log.resolve())
    return os.environ | added


def run(
    command: Sequence[str | Path],
    fault: Fault,
    below: Path,
    log: Path | None = None,
    **options: Any,
) -> subprocess.CompletedProcess:
    """Runs a command that something goes wrong in; `options` are those of `subprocess.run`."""
    extra: Mapping[str, str] = options.pop("env", {})
    return subprocess.run(command, env=environment(fault, below, log) | extra, **options)


def arm(fault: Fault | None, below: Path) -> None:
    """Begins anew to count the calls of this process; without a fault none counts or fails.

    Raises:
        RuntimeError: If the process was not started with `environment()`.
    """
    if "faults.so" not in os.environ.get("LD_PRELOAD", ""):
        raise RuntimeError("Start this process with the environment of tests.faults.environment().")
    fault, folder = fault or Fault(KILL), str(below.resolve()) if fault else ""
    number, error = fault.number, ERRORS[fault.error]
    _loaded().faults_arm(ctypes.c_long(number), error, int(fault.is_lasting), os.fsencode(folder))


def count() -> int:
    """Returns how many calls there were since `arm` that the fault could befall."""
    return int(_loaded().faults_count())


class Ended(NamedTuple):
    """How a function ended.

    Args:
        code: As a process's: 0, or 2 for a mistake of the user or an error of the system, or 1 for
            any other exception, or -9 if it was killed, or what it gave to `sys.exit`.
        calls: How many calls were counted; -1 if it was killed.
        said: What it wrote to standard output and error.
    """

    code: int
    calls: int
    said: str


def forked(work: Callable[[], object], fault: Fault | None, below: Path) -> Ended:
    """Runs a function in a fork of this process, in which something may go wrong.

    Libraries that run threads must not have been used before, TensorFlow among them; they may have
    been imported.
    """
    with tempfile.TemporaryFile() as output:
        reading, writing = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if not child:
            code = 1
            try:
                os.dup2(output.fileno(), 1)
                os.dup2(output.fileno(), 2)
                arm(fault, below)
                code = _code_of(work)
            finally:
                calls = count()
                arm(None, below)
                sys.stdout.flush()
                sys.stderr.flush()
                os.write(writing, str(calls).encode())
                os._exit(code)
        os.close(writing)
        with open(reading, encoding="ascii") as pipe:
            calls = pipe.read()
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        output.seek(0)
        return Ended(code, int(calls or -1), output.read().decode("utf-8", "replace"))


def _code_of(work: Callable[[], object]) -> int:
    try:
        work()
        return 0
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except (UserError, OSError):
        traceback.print_exc()
        return 2
    except BaseException:
        traceback.print_exc()
        return 1


def each(
    work: Callable[[], object], error: str, below: Path, begin: Callable[[], object], step: int = 1
) -> Iterator[tuple[int, Ended]]:
    """Runs a function with an error at its first call, its second, and so on until there is none.

    Args:
        work: The function.
        error: One of `ERRORS`.
        below: The folder.
        begin: Makes the folder as it is to be before.
        step: Calls between those that fail.

    Yields:
        The number of the call, and how the function ended.
    """
    for number in itertools.count(1, step):
        begin()
        ended = forked(work, Fault(error, number), below)
        if 0 <= ended.calls < number:
            return
        yield number, ended


@functools.cache
def _loaded() -> ctypes.CDLL:
    loaded = ctypes.CDLL(None)
    loaded.faults_count.restype = ctypes.c_long
    return loaded


def main() -> int:
    """Runs a command that something goes wrong in."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("number", type=int, metavar="N", help="which call, from 1; 0 to list them")
    parser.add_argument("error", choices=ERRORS)
    parser.add_argument("--below", type=Path, required=True, metavar="DIR")
    parser.add_argument("command", nargs="+")
    args = parser.parse_args()
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as log:
        done = run(args.command, Fault(args.error, args.number), args.below, Path(log.name))
        calls = log.readlines()
    shown = calls if args.number == 0 else [line for line in calls if line.endswith(" *\n")][:1]
    print("".join(shown), end="", file=sys.stderr)
    print(f"{len(calls)} calls, exit code {done.returncode}", file=sys.stderr)
    return done.returncode if done.returncode >= 0 else 128 - done.returncode


if __name__ == "__main__":
    sys.exit(main())
