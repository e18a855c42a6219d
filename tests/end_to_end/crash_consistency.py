"""Lets every call of a command that touches its files fail, or kills it there, and runs it again.

    python -m tests.end_to_end.crash_consistency
    python -m tests.end_to_end.crash_consistency --commands translate export --most 10

For each command, each error of `tests.faults` and each call that the error could befall (or
`--most` of them, at even distances) a toy run as it was before the command is laid anew; the
command is run with that error at that call, then again without. It prints how many calls there are,
how many failed, how the command took it, and what was not as it should be:

- a failure ends the command well, or with exit code 2 and a message, never with a traceback;
- then every JSON file can be read, every checkpoint is sound, every version is complete, and what
  was there before the command is there still;
- the same command, run again, ends well, and leaves what it leaves when nothing fails.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import importlib
import itertools
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tests import faults
from tests.faults import ERRORS, KILL, Ended, Fault

ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT / "tests" / "fixtures" / "run-0.1.tar.xz"
LINES = {"train": 40, "dev": 4, "test": 4}  # of each file of the corpus
STEPS = 4  # updates, with a validation and a checkpoint at every second
SETTINGS = [
    *("data.source_language=en", "data.target_language=de", "data.joint_vocabulary=false"),
    *("data.source_vocab_size=60", "data.target_vocab_size=60", "data.max_length=30"),
    *("data.max_tokens_per_batch=512", "model.model_dim=16", "model.filter_dim=16"),
    *("model.num_heads=2", "model.encoder_layers=1", "model.decoder_layers=1"),
    *("training.validation_steps=2", "training.log_steps=2", f"training.max_steps={STEPS}"),
    *("training.keep_last=2", "training.average=none", "decoding.beam_size=1"),
]
TEMPORARY = re.compile(r"\.[0-9a-f]{16}\.partial$")


class Toy:
    """The folders of a toy: `corpus`, which is read, and `below`, where all is written.

    Args:
        folder: Where both lie.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.corpus = self.folder / "corpus"
        self.below = self.folder / "below"
        self.runs = self.below / "models" / "custom"
        self.output = self.below / "out.de"

    def lay_corpus(self) -> None:
        """Writes the beginnings of the files of a real corpus."""
        self.corpus.mkdir()
        with tarfile.open(CORPUS) as archive:
            for (split, count), side in itertools.product(LINES.items(), ("en", "de")):
                content = archive.extractfile(f"./{split}.{side}")
                lines = content.read().decode().splitlines(keepends=True) if content else []
                text = "".join(lines[:count])
                (self.corpus / f"{split}.{side}").write_text(text, encoding="utf-8")

    def arguments(self, command: str) -> list[str]:
        """Returns the arguments of a command."""
        files = {"train": "train", "validation": "dev", "test": "test"}
        settings = [
            f"data.{split}_{name}={self.corpus / file}.{side}"
            for split, file in files.items()
            for name, side in (("source", "en"), ("target", "de"))
        ]
        place = ["--task", "custom", "--output-dir", str(self.below / "models")]
        run = [*place, "--name", "toy"]
        made = ["--model", "transformer_tiny", "--set", *SETTINGS, *settings]
        return {
            "prepare": [*run, *made],
            "train": [*run, *made],
            "evaluate": run,
            "export": run,
            "ensemble": ["toy", "other", *place, "--name", "both"],
            "translate": [*run, "-o", str(self.output), str(self.corpus / "dev.en")],
        }[command]

    def run(self, command: str) -> None:
        """Runs a command in this process; training ends before it scores and exports."""
        from dtmt_tf.commands import common

        module = importlib.import_module(f"dtmt_tf.commands.{command}")
        if command == "train":
            module.finish = lambda run, start: None  # `evaluate` and `export` are on their own
        arguments = self.arguments(command)
        sys.argv = ["dtmt", command, *arguments]
        common.main(functools.partial(module.command, arguments))

    def keep(self, name: str) -> None:
        """Keeps the state under a name."""
        shutil.copytree(self.below, self.folder / name)

    def lay(self, name: str) -> None:
        """Lays a state that was kept."""
        shutil.rmtree(self.below, ignore_errors=True)
        shutil.copytree(self.folder / name, self.below)


BEFORE = {  # the state that a command begins with
    "prepare": "nothing",
    "train": "prepared",
    "evaluate": "trained",
    "export": "trained",
    "ensemble": "two",
    "translate": "exported",
}


def make_states(toy: Toy, wanted: set[str]) -> None:
    """Makes states that commands begin with, by the commands before."""

    def run(command: str) -> None:
        ended = faults.forked(lambda: toy.run(command), None, toy.below)
        if ended.code:
            raise RuntimeError(ended.said)

    def copy_run() -> None:
        shutil.copytree(toy.runs / "toy", toy.runs / "other")

    toy.lay_corpus()
    toy.below.mkdir()
    toy.keep("nothing")
    steps = [
        ("prepared", lambda: run("prepare")),
        ("trained", lambda: run("train")),
        ("two", copy_run),
        ("exported", lambda: run("export")),
    ]
    last = max([0, *(k for k, (name, _) in enumerate(steps, 1) if name in wanted)])
    for name, make in steps[:last]:
        make()
        toy.keep(name)


class State(NamedTuple):
    """What a folder holds that counts.

    Args:
        found: What is sound: texts of files, hashes of weights, files of versions, by path.
        problems: What is not as it should be.
    """

    found: dict[str, Any]
    problems: list[str]


def state_of(toy: Toy) -> State:
    """Reads all that a command may have written."""
    from dtmt_tf.errors import UserError
    from dtmt_tf.training import CheckpointFolder

    found: dict[str, Any] = {}
    problems = []
    for path in sorted(toy.below.rglob("*")):
        name = str(path.relative_to(toy.below))
        if TEMPORARY.search(name) or "/tensorboard/" in name or path.name == ".lock":
            continue
        if path.name.endswith(".damaged"):
            problems.append(f"{name}: a sound checkpoint was put aside")
        elif path.suffix == ".json" and path.is_file():
            try:
                found[name] = _without_time(json.loads(path.read_text("utf-8")))
            except ValueError as error:
                problems.append(f"{name}: {error}")
        elif path.suffix == ".npz":
            folder = CheckpointFolder(path.parent, 2, 5)
            try:
                checkpoint = folder.load(int(path.stem.removeprefix("step-")))
                found[name] = _digest(checkpoint)
            except UserError as error:
                problems.append(f"{name}: {error}")
        elif path.name.isdigit() and path.is_dir():
            files = sorted(str(each.relative_to(path)) for each in path.rglob("*"))
            found[name] = files
        elif path.suffix in (".txt", ".de", ".spm"):
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return State(found, problems)


def _without_time(value: Any) -> Any:
    """Returns what JSON holds but for times, which differ from run to run."""
    if isinstance(value, dict):
        return {
            name: _without_time(each)
            for name, each in value.items()
            if not re.search(r"seconds|minutes|date|created|sha256|size", name)
        }
    return [_without_time(each) for each in value] if isinstance(value, list) else value


def _digest(checkpoint: Any) -> str:
    digest = hashlib.sha256()
    for name, array in sorted(checkpoint.weights.items()):
        digest.update(name.encode() + np.ascontiguousarray(array).tobytes())
    for array in checkpoint.optimizer:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def differences(state: State, expected: State) -> list[str]:
    """Lists what a state lacks of another one, or has otherwise."""
    names = [name for name in expected.found if state.found.get(name) != expected.found[name]]
    return [f"{name} is {'otherwise' if name in state.found else 'missing'}" for name in names]


def fail_everywhere(
    toy: Toy, command: str, error: str, most: int | None, tell: Callable[[str], None]
) -> Counter:
    """Lets a command fail at every call, or at `most` calls.

    Returns:
        How many calls there are, how many failed, and how that ended: `calls`, `failed`, `well`,
        `told`, `killed`, `problems`.
    """
    before = BEFORE[command]
    work = functools.partial(toy.run, command)
    toy.lay(before)
    at_first = state_of(toy)
    whole = faults.forked(work, Fault(error), toy.below)
    expected = state_of(toy)
    if whole.code or expected.problems:
        raise RuntimeError(f"{command} fails alone: {whole.said}{expected.problems}")
    counts = Counter(calls=whole.calls, failed=0, well=0, told=0, killed=0, problems=0)
    step = math.ceil(whole.calls / most) if most else 1
    for number, ended in faults.each(work, error, toy.below, lambda: toy.lay(before), step):
        counts["failed"] += 1
        after = state_of(toy)
        problems = [*after.problems, *_lost(command, after, at_first), *_end(ended, error, counts)]
        again = faults.forked(work, None, toy.below)
        at_last = state_of(toy)
        if again.code:
            problems.append(f"the same command then ends with {again.code}: {again.said[-600:]}")
        problems += [*at_last.problems, *differences(at_last, expected)]
        if problems:
            counts["problems"] += 1
            tell(f"{command}, {error} at call {number}: " + "; ".join(dict.fromkeys(problems)))
    return counts


def _lost(command: str, after: State, at_first: State) -> list[str]:
    """Lists what was there before the command and is gone, or changed though it is done."""
    kept = {name: value for name, value in at_first.found.items() if _is_work(name)}
    return differences(after, State(kept, []))


def _is_work(name: str) -> bool:
    """Whether a file took work that a failure must not lose."""
    return name.endswith((".npz", ".spm")) or Path(name).name.isdigit()


def _end(ended: Ended, error: str, counts: Counter) -> list[str]:
    """Counts how a command that failed ended; lists what is wrong about it."""
    if error == KILL:
        counts["killed"] += 1
        return [] if ended.code == -9 else [f"it ended with {ended.code} in place of a kill"]
    if "Traceback" in ended.said or ended.code not in (0, 2):
        return [f"it ended with {ended.code}: {ended.said[-600:]}"]
    if ended.code == 2:
        counts["told"] += 1
        return [] if "error: " in ended.said else ["it said nothing of the error"]
    counts["well"] += 1
    return []


def main() -> int:
    """Prints a row for each command and error."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--commands", nargs="+", choices=BEFORE, default=list(BEFORE))
    parser.add_argument("--errors", nargs="+", choices=ERRORS, default=list(ERRORS))
    parser.add_argument("--most", type=int, help="calls that fail, of each command and error")
    args = parser.parse_args()
    if "faults.so" not in os.environ.get("LD_PRELOAD", ""):  # begin anew, where calls can fail
        return subprocess.run([sys.executable, "-m", __spec__.name, *sys.argv[1:]],
                              cwd=ROOT, env=faults.environment()).returncode  # fmt: skip
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        toy = Toy(Path(folder))
        os.environ |= {"XDG_CACHE_HOME": str(toy.below / "cache"), "MPLCONFIGDIR": folder}
        from dtmt_tf import startup  # noqa: F401
        from dtmt_tf.quiet import quiet_stderr

        with quiet_stderr():
            import tensorflow_text  # noqa: F401

            import dtmt_tf.runs  # noqa: F401  # forks have it then
        make_states(toy, {BEFORE[command] for command in args.commands})
        names = ("calls", "failed", "well", "told", "killed", "problems")
        print("command    error  ", *(f"{name:>8}" for name in (*names, "seconds")), flush=True)
        total: Counter = Counter()
        for command, error in itertools.product(args.commands, args.errors):
            began = time.monotonic()
            counts = fail_everywhere(toy, command, error, args.most, _say)
            total += counts
            row = [*(counts[name] for name in names), round(time.monotonic() - began)]
            print(f"{command:<10} {error:<7}", *(f"{number:>8}" for number in row), flush=True)
    print(
        f"\n{total['failed']} of {total['calls']} calls failed, {total['problems']} with problems"
    )
    return int(total["problems"] > 0)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
