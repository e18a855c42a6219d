"""Runs pairs of commands at once on one run, and looks at what they leave.

    python -m tests.end_to_end.isolation --pairs 200

Two commands are drawn, and what there is of the run before: nothing, a training that was stopped,
or one that is done and exported. Both run in forks of this process, on one folder. Asked of each
pair:

- Each ends well, or with exit code 2 because the run is in use or not trained yet. One ends well.
- Every JSON file can be read. Every checkpoint is sound, and none that was there is lost.
- Each exported version is as its manifest says, and of the run's weights and settings.
- The training, given again, comes to the weights of one that was alone.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.end_to_end import starting  # noqa: F401 - before what imports TensorFlow

# isort: split
from dtmt_tf.export.manifest import read_manifest
from tests import faults
from tests.end_to_end.conftest import ROOT
from tests.end_to_end.crashes import COMMANDS, faulty, run_it, snapshots, sound, trained

STATES = {"nothing": (), "stopped": ("train some",), "done": ("train", "train other", "export")}
FIRST = "step-00000000.npz"
EXPECTED = (  # of what a command may say that is refused
    *("is in use by", "holds no checkpoint", "holds no run", "holds no exported model"),
    *("has made 0 of", "no SavedModel", "Another process writes"),
)


def pair(folder: Path, names: list[str]) -> list[tuple[int, str]]:
    """Runs commands at once; returns how each ended and what it said."""
    children = []
    for k, name in enumerate(names):
        output = folder.with_name(f"output-{k}")
        child = os.fork()
        if not child:
            code = 1
            try:
                with output.open("wb") as file:
                    os.dup2(file.fileno(), 1)
                    os.dup2(file.fileno(), 2)
                run_it(name, folder)
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else 1
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        children.append((child, output))
    return [
        (os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), output.read_text("utf-8", "replace"))
        for child, output in children
    ]


def left_wrong(folder: Path, had: set[str]) -> list[str]:
    """Lists what is wrong with the folder that commands left."""
    now = sound(folder)
    wrong = [f"lost {name}" for name in had - now if not _is_replaced(name, now)]
    for path in folder.rglob("*.json"):
        try:
            json.loads(path.read_text("utf-8"))
        except ValueError as error:
            wrong.append(f"{path.relative_to(folder)}: {error}")
    for path in folder.glob("models/custom/*/train/checkpoints/step-*.npz"):
        if path.relative_to(folder).as_posix() not in now:
            wrong.append(f"{path.name} is not sound")
    for version in folder.glob("models/custom/*/[0-9]*"):
        wrong += [f"{version.name}: {text}" for text in faulty(version)]
        manifest = read_manifest(version)
        settings = json.loads((version / "experiment.json").read_text())
        own = json.loads((version.parent / "train" / "experiment.json").read_text())
        if settings["settings"] != own["settings"]:
            wrong.append(f"{version.name} has other settings than the run")
        if "vocabulary" in own and manifest["vocabulary"] != own["vocabulary"]:
            wrong.append(f"{version.name} has other sub-words than the run")
    return wrong


def _is_replaced(name: str, now: set[str]) -> bool:
    """Whether a checkpoint is what training began with, which goes once there is a later one."""
    folder = name.removesuffix(FIRST)
    return folder != name and any(other.startswith(folder) for other in now)


def isolate(pairs: int, seed: int, top: Path) -> tuple[Counter, list[str]]:
    """Runs so many random pairs; returns how they ended, and what was wrong."""
    draw = random.Random(seed)
    drawn = [(draw.choice(list(STATES)), draw.choices(list(COMMANDS), k=2)) for _ in range(pairs)]
    needed = {name: STATES[name] for name, _ in drawn} | {"trained": ("train",)}
    starts = snapshots(top, needed)
    reference = trained(starts["trained"])
    codes: Counter = Counter()
    wrong = []
    for k, (state, names) in enumerate(drawn):
        folder = top / "work"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(starts[state], folder, symlinks=True)
        had = sound(folder)
        ends = pair(folder, names)
        what = []
        for name, (code, said) in zip(names, ends, strict=True):
            codes[f"{name} {code}"] += 1
            if code not in (0, 2) or "Traceback" in said:
                what.append(f"{name} ended with {code}: {said[-600:]}")
            elif code == 2 and not any(text in said for text in EXPECTED):
                what.append(f"{name} said: {said[-300:]}")
        what += left_wrong(folder, had)
        ((code, said),) = pair(folder, ["train"])
        if code:
            what.append(f"train, given again, ended with {code}: {said[-300:]}")
        elif trained(folder) != reference:
            what.append("the training has other weights than one that was alone")
        for text in what:
            wrong.append(f"{' and '.join(names)} on {state}: {text}")
            print(wrong[-1], file=sys.stderr, flush=True)
        if (k + 1) % 10 == 0:
            print(f"{k + 1} pairs, {len(wrong)} wrong", flush=True)
    return codes, wrong


def main() -> int:
    """Prints how pairs ended; returns 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if "faults.so" not in os.environ.get("LD_PRELOAD", ""):  # forks of `crashes` are made with it
        command = [sys.executable, "-m", "tests.end_to_end.isolation", *sys.argv[1:]]
        return subprocess.run(command, env=faults.environment(), cwd=ROOT).returncode
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="isolation-") as folder:
        codes, wrong = isolate(options.pairs, options.seed, Path(folder).resolve())
    for ending, count in sorted(codes.items()):
        print(f"{ending:<14} {count:>4}")
    print(f"{options.pairs} pairs in {time.monotonic() - began:.0f} s, {len(wrong)} wrong")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
