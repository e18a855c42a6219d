"""Fails or kills each command at each call that touches its files, then gives the command again.

    python -m tests.end_to_end.crashes
    python -m tests.end_to_end.crashes --commands train evaluate --errors KILL EIO --step 3
    python -m tests.end_to_end.crashes --first-and-last

A command is run in a fork of a process that has the libraries loaded, on a copy of a folder that is
as it should be before, with one call of `tests/faults.py` failing. Asked of each:

- It ends well, or by the kill, or with exit code 2 and a message that is no traceback.
- No checkpoint that was sound before is lost to what failed.
- The same command, given again, ends well, and its result is what it is where nothing fails.

The model is tiny and TensorFlow's functions are not compiled, so that a command takes seconds. With
`--first-and-last`, of calls in a row that do the same to one file (a checkpoint is written in 329)
the first and the last fail alone.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from tests.end_to_end import starting  # noqa: F401 - before what imports TensorFlow

# isort: split
from dtmt_tf.commands import ensemble, evaluate, export, prepare, process, train, translate
from dtmt_tf.data.beam import write_shards  # noqa: F401 - all that commands import, once
from dtmt_tf.runs import Session  # noqa: F401
from dtmt_tf.training import OUT_OF_TIME, CheckpointFolder, summaries
from dtmt_tf.translator import Translator  # noqa: F401
from tests import faults
from tests.end_to_end.conftest import ROOT, picture, write_digits
from tests.faults import ERRORS, Ended, Fault

SETTINGS = [
    *("data.source_language=en", "data.target_language=de", "data.joint_vocabulary=false"),
    *("data.source_vocab_size=14", "data.target_vocab_size=30", "data.split_digits=true"),
    *("data.max_length=40", "data.max_tokens_per_batch=160", "decoding.extra_length=1"),
    *("decoding.beam_size=1", "training.max_steps=2", "training.validation_steps=1"),
    *("training.log_steps=1", "training.patience=0", "training.ema_decay=0.9"),
    *("model.model_dim=4", "model.filter_dim=4", "model.num_heads=1"),
    *("model.encoder_layers=1", "model.decoder_layers=1"),
]
RANDOM = re.compile(r"\.[0-9a-f]{16}\.partial$|incomplete\.[^/]*|-[0-9]{10}\.[^/]*$")


@dataclass(frozen=True)
class Command:
    """A command under test.

    Args:
        command: What runs it.
        arguments: Its arguments, in the folder.
        after: The commands that have to be run before it, by name.
        result: Returns what it made, to be compared; from the folder.
    """

    command: Callable[[list[str]], int]
    arguments: list[str]
    after: tuple[str, ...]
    result: Callable[[Path], Any]


def place(name: str = "run") -> list[str]:
    """Arguments that name a run."""
    return ["--task", "custom", "--output-dir", "models", "--data-dir", ".", "--name", name]


def trained(folder: Path, name: str = "run") -> Any:
    """What a training made: weights and optimiser of its last checkpoint."""
    checkpoints = CheckpointFolder(folder / f"models/custom/{name}/train/checkpoints", 1, 1)
    last = checkpoints.load(checkpoints.steps()[-1])
    weights = [last.weights[path].tobytes() for path in sorted(last.weights)]
    return last.step, weights, [value.tobytes() for value in last.optimizer]


def scored(folder: Path) -> Any:
    """What an evaluation made: scores and translations."""
    work = folder / "models/custom/run/train"
    return json.loads((work / "scores.json").read_text())["test"], (work / "test.txt").read_bytes()


def exported(folder: Path) -> Any:
    """What an export made: whether there is a version, and what is wrong with its files."""
    versions = [path for path in folder.glob("models/custom/run/*") if path.name.isdigit()]
    return bool(versions), [text for version in versions for text in faulty(version)]


def faulty(version: Path) -> list[str]:
    """Lists what is wrong with the files of an exported version."""
    from dtmt_tf.export.manifest import problems

    return problems(version)


def prepared(folder: Path) -> Any:
    """What a preparation made: sub-words and records, by their hashes."""
    files = [*folder.glob("models/custom/run/train/*.spm"), *folder.glob("cache/**/*array_record*")]
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(files)
        if path.is_file()
    }


def _settings() -> list[str]:
    files = [
        f"data.{split}_{side}={split}.{side}"
        for split in ("train", "validation", "test")
        for side in ("source", "target")
    ]
    return [*SETTINGS, *files]


_NEW = ["--model", "transformer_tiny", "--set", *_settings()]
COMMANDS = {
    "prepare": Command(prepare.command, [*place(), *_NEW], (), prepared),
    "train": Command(train.command, [*place(), *_NEW], (), trained),
    "evaluate": Command(evaluate.command, place(), ("train",), scored),
    "ensemble": Command(
        ensemble.command,
        ["--task", "custom", "--output-dir", "models", "--name", "both", "run", "other"],
        ("train", "train other"),
        lambda folder: json.loads(
            (folder / "models/custom/both/train/experiment.json").read_text()
        )["members"],
    ),
    # forced, as a model of two updates translates nothing
    "export": Command(export.command, [*place(), "--force"], ("train",), exported),
    "translate": Command(
        translate.command,
        [*place(), "test.source", "-o", "out"],
        ("train", "export"),
        lambda folder: (folder / "out").read_bytes(),
    ),
}
OTHERS = {
    "train other": Command(
        train.command,
        [*place("other"), *_NEW, "training.seed=2"],
        (),
        lambda folder: trained(folder, "other"),
    ),
    "train some": Command(train.command, [*place(), "--max-seconds", "0", *_NEW], (), trained),
}


@dataclass
class Found:
    """What came of one command.

    Args:
        calls: How many calls each error could befall, as far as that is known.
        tried: How many of them failed, by error.
        codes: How the command ended, by error and code.
        wrong: What should not have been: error, call and what.
    """

    calls: dict[str, int] = field(default_factory=dict)
    tried: Counter = field(default_factory=Counter)
    codes: Counter = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def run_it(name: str, folder: Path) -> NoReturn:
    """Runs a command in a folder; ends the process, which should be a fork."""
    import tensorflow as tf

    command = (COMMANDS | OTHERS)[name]
    os.chdir(folder)
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
    sys.argv = ["dtmt", name, *command.arguments]
    if name != "export":
        tf.config.run_functions_eagerly(True)
    train.finish = lambda *_: None  # type: ignore[assignment]
    summaries.attention_image = picture
    process.main(lambda: command.command(command.arguments))


def ended(name: str, folder: Path, fault: Fault | None = None) -> Ended:
    """Runs a command in a fork, in a folder."""
    return faults.forked(lambda: run_it(name, folder), fault, folder)


def snapshots(top: Path, wanted: Mapping[str, tuple[str, ...]]) -> dict[str, Path]:
    """Makes folders in which commands have been run.

    Args:
        top: Where they are made.
        wanted: The commands of each, by name.
    """
    made = {(): top / "corpus"}
    corpus = made[()]
    corpus.mkdir()
    write_digits(corpus, {"test": 3, "validation": 2, "train": 40})

    def make(names: tuple[str, ...]) -> Path:
        if names not in made:
            *before, last = names
            folder = top / "-".join(names).replace(" ", "-")
            shutil.copytree(make(tuple(before)), folder, symlinks=True)
            end = ended(last, folder)
            if end.code not in (0, OUT_OF_TIME):
                raise RuntimeError(f"{last}: {end.said}")
            made[names] = folder
        return made[names]

    return {name: make(commands) for name, commands in wanted.items()}


def sound(folder: Path) -> set[str]:
    """Returns the checkpoints that can be read, but for their steps that a training replaces."""
    found = set()
    for path in folder.glob("models/custom/*/train/checkpoints/step-*.npz"):
        checkpoints = CheckpointFolder(path.parent, 1, 1)
        try:
            checkpoints.load(int(path.stem.removeprefix("step-")))
            found.add(path.relative_to(folder).as_posix())
        except Exception:  # whatever is wrong with it
            logging.info("%s is not sound", path)
    return found


def is_beyond(end: Ended, fault: Fault) -> bool:
    """Whether a command ended before the call that was to fail."""
    return 0 <= end.calls < fault.number


def check(name: str, before: Path, folder: Path, fault: Fault, expected: Any) -> tuple[Ended, str]:
    """Runs a command with a fault, then without; returns how it ended, and what is wrong."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(before, folder, symlinks=True)
    had = sound(folder)
    first = ended(name, folder, fault)
    if is_beyond(first, fault):
        return first, ""
    if first.code not in (0, 2, -9):
        return first, f"exit code {first.code}: {first.said[-600:]}"
    if "Traceback" in first.said:
        return first, f"a traceback: {first.said[-600:]}"
    if first.code == 2 and "error: " not in first.said:
        return first, f"no message: {first.said[-600:]}"
    if lost := had - sound(folder):
        return first, f"lost {sorted(lost)}"
    again = ended(name, folder)
    if again.code:
        return first, f"again: exit code {again.code}: {again.said[-600:]}"
    if "is damaged" in again.said and fault.error != "KILL":
        return first, f"told of damage: {again.said[-600:]}"
    try:
        made = COMMANDS[name].result(folder)
    except Exception as error:
        return first, f"no result: {type(error).__name__}: {error}"
    if made != expected:
        return first, f"another result: {str(made)[:300]} instead of {str(expected)[:300]}"
    return first, ""


def ends_of_rows(lines: list[str]) -> list[int]:
    """Returns the numbers of the first and the last of calls in a row that do the same to a file.

    Args:
        lines: Of the log of `faults`: number, call, path. Parts of a name that are drawn are the
            same to it.
    """
    split = [line.split(" ", 2) for line in lines]
    same = [(call, RANDOM.sub("", path)) for _, call, path in split]
    edges = [k for k in range(1, len(same)) if same[k] != same[k - 1]]
    return sorted({int(split[k][0]) for edge in [0, *edges, len(same)]
                   for k in (edge - 1, edge) if 0 <= k < len(same)})  # fmt: skip


def crash(
    names: list[str],
    errors: list[str],
    step: int,
    first: int,
    most: int,
    top: Path,
    log: Path | None = None,
) -> dict[str, Found]:
    """Runs commands with faults; returns what was found of each.

    Args:
        names: Of the commands.
        errors: Those that befall them.
        step: Calls between those that fail.
        first: The first call that fails.
        most: Calls of each command and error that fail, at most.
        top: A folder for all.
        log: With it, the first and the last of calls in a row fail: where calls are logged.
    """
    starts = snapshots(top, {name: COMMANDS[name].after for name in names})
    found = {}
    for name in names:
        folder, seen = top / "work", Found()
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(starts[name], folder, symlinks=True)
        plain = ended(name, folder)
        if plain.code:
            raise RuntimeError(f"{name}: {plain.said}")
        expected = COMMANDS[name].result(folder)
        for error in errors:
            numbers: Iterable[int] = itertools.count(1)
            if log:
                shutil.rmtree(folder)
                shutil.copytree(starts[name], folder, symlinks=True)
                os.truncate(log, 0)
                seen.calls[error] = ended(name, folder, Fault(error)).calls
                numbers = ends_of_rows(log.read_text("utf-8").splitlines())
            last = first - 1 + step * most
            for number in itertools.islice(numbers, first - 1, last, step):
                fault = Fault(error, number)
                end, wrong = check(name, starts[name], folder, fault, expected)
                if is_beyond(end, fault):
                    seen.calls[error] = end.calls
                    break
                seen.tried[error] += 1
                seen.codes[f"{error} {end.code}"] += 1
                if wrong:
                    seen.wrong.append(f"{name}, {error} at {number}: {wrong}")
                    print(seen.wrong[-1], file=sys.stderr, flush=True)
        found[name] = seen
        print(summary(name, seen), flush=True)
    return found


def summary(name: str, found: Found) -> str:
    """Returns a line about a command."""
    tried = ", ".join(
        f"{error} {count}" + (f" of {found.calls[error]}" if error in found.calls else "")
        for error, count in found.tried.items()
    )
    codes = ", ".join(f"{key}: {count}" for key, count in sorted(found.codes.items()))
    return f"{name:<10} {tried}; ended {codes}; {len(found.wrong)} wrong"


def main() -> int:
    """Prints what was found; returns 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--commands", nargs="+", choices=COMMANDS, default=list(COMMANDS))
    parser.add_argument("--errors", nargs="+", choices=ERRORS, default=list(ERRORS))
    parser.add_argument("--step", type=int, default=1, help="calls between those that fail")
    parser.add_argument("--first", type=int, default=1, help="the first that fails")
    parser.add_argument("--most", type=int, default=10**6, help="calls of each, at most")
    parser.add_argument("--first-and-last", action="store_true", help="of calls in a row")
    parser.add_argument("--json", type=Path, help="write what was found there")
    options = parser.parse_args()
    if "faults.so" not in os.environ.get("LD_PRELOAD", ""):
        command = [sys.executable, "-m", "tests.end_to_end.crashes", *sys.argv[1:]]
        with tempfile.NamedTemporaryFile() as file:
            log = Path(file.name) if options.first_and_last else None
            environment = faults.environment(log=log)
            return subprocess.run(command, env=environment, cwd=ROOT).returncode
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="crashes-") as folder:
        found = crash(
            options.commands,
            options.errors,
            options.step,
            options.first,
            options.most,
            Path(folder).resolve(),
            Path(os.environ["DTMT_FAULTS_LOG"]) if options.first_and_last else None,
        )
    tried = sum(sum(each.tried.values()) for each in found.values())
    wrong = [line for each in found.values() for line in each.wrong]
    print(
        f"{tried} failures in {time.monotonic() - began:.0f} s, {len(wrong)} left something wrong"
    )
    if options.json:
        options.json.write_text(
            json.dumps({name: [dict(each.tried), each.wrong] for name, each in found.items()})
        )
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
