"""Ends a training again and again, and compares what comes of it with one that is left alone.

    python -m tests.end_to_end.killing --ends 20 --signal KILL
    python -m tests.end_to_end.killing --ends 20 --signal HUP
    python -m tests.end_to_end.killing --ends 20 --signal KILL HUP      one after the other

Dropout, accumulation and the moving average of the weights are on. Each start is the command
`train` in a process of its own, a fork of this one, which has the libraries loaded. It sends itself
the signal at a place that is drawn: while it starts, before an update, or in the middle of writing
a checkpoint. So nothing depends on how fast the machine is. Scores and export are left out.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import os
import random
import re
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tests.end_to_end import starting  # noqa: F401 - before what imports TensorFlow

# isort: split
from dtmt_tf import startup
from dtmt_tf.commands import process, train
from dtmt_tf.training import CheckpointFolder, Trainer, TrainingStep, summaries
from tests.end_to_end.conftest import ROOT, picture, write_digits

EVERY = 4  # updates between checkpoints
SETTINGS = [
    *("data.source_language=en", "data.target_language=de", "data.joint_vocabulary=false"),
    *("data.source_vocab_size=14", "data.target_vocab_size=40", "data.split_digits=true"),
    *("data.max_length=40", "data.max_tokens_per_batch=160", "training.accumulation_steps=2"),
    *("training.embedding_dropout_rate=0.2", "training.output_dropout_rate=0.2"),
    *("training.candidate_dropout_rate=0.1", "training.ema_decay=0.9"),
    *(f"training.validation_steps={EVERY}", "training.log_steps=10", "training.keep_last=2"),
]
MODELS = {
    "dtmt_tiny": ["model.embedding_dim=64", "model.units=64"],
    "transformer_tiny": [  # starts in half the time
        *("model.model_dim=64", "model.filter_dim=128"),
        *("model.encoder_layers=1", "model.decoder_layers=1"),
    ],
}
UPDATES = 10  # and `EVERY` for each end, so that the last is still one
PLACES = ("starting", "training", "writing")


class End(NamedTuple):
    """Where a process sends itself a signal.

    Args:
        where: One of `PLACES`.
        count: Before which of its updates, or in the writing of which of its checkpoints, from 1.
        number: The signal's.
    """

    where: str
    count: int
    number: int


@dataclass
class Start:
    """What was seen of a process.

    Args:
        found: Update of the newest checkpoint when it began.
        end: Where it was to end, if it was.
        code: How it ended: exit code, or minus the number of the signal that ended it.
        resumed: Update after which it said it went on; none if it did not come so far.
        torn: Whether it left a half-written checkpoint.
        reached: Update of the newest checkpoint afterwards.
        seconds: How long it took.
    """

    found: int
    end: End | None
    code: int = 0
    resumed: int | None = None
    torn: bool = False
    reached: int = 0
    seconds: float = 0.0


class Training:
    """A small training in a folder of its own.

    Args:
        folder: Where all lies.
        model: One of `MODELS`.
        steps: Updates.
    """

    def __init__(self, folder: Path, model: str, steps: int) -> None:
        folder.mkdir()
        self.folder = folder
        self.steps = steps
        self.run = folder / "models" / "custom" / "ended"
        self.checkpoints = CheckpointFolder(self.run / "train" / "checkpoints", 2, 5)
        self.starts: list[Start] = []
        settings = [*SETTINGS, *MODELS[model], f"training.max_steps={steps}"]
        settings += write_digits(folder, {"train": 400}, first_seed=1)
        self.arguments = [
            *("--task", "custom", "--model", model, "--name", "ended"),
            *("--output-dir", str(folder / "models"), "--set", *settings),
        ]

    @property
    def step(self) -> int:
        """Update of the newest checkpoint."""
        return max(self.checkpoints.steps(), default=0)

    def start(self, end: End | None = None) -> Start:
        """Starts the training, which ends where it is told to, or comes to its end."""
        seen, before = Start(self.step, end), self._partial()
        began = time.monotonic()
        output = self.folder / "output"
        child = os.fork()
        if not child:
            _be_the_command(self.arguments, output, self.folder / "cache", end)
        seen.code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        seen.seconds = time.monotonic() - began
        said = output.read_text(encoding="utf-8")
        if seen.code not in (0, *(() if end is None else (-end.number, 128 + end.number))):
            raise RuntimeError(said)
        seen.torn = not self._partial() <= before
        seen.reached = self.step
        if found := re.search(r"(?:resuming after update ([\d,]+)|starting)\n", said):
            seen.resumed = int((found[1] or "0").replace(",", ""))
        self.starts.append(seen)
        return seen

    def _partial(self) -> set[str]:
        return {path.name for path in self.checkpoints.folder.glob("*.partial")}

    def digest(self) -> str:
        """SHA-256 of what the last checkpoint holds for going on and for translating."""
        checkpoint = self.checkpoints.load(self.steps)
        digest = hashlib.sha256()
        for name, array in sorted(checkpoint.weights.items()):
            digest.update(name.encode() + array.tobytes())
        for array in checkpoint.optimizer:
            digest.update(array.tobytes())
        return digest.hexdigest()


def _be_the_command(arguments: list[str], output: Path, cache: Path, end: End | None) -> None:
    """Runs `train` in place of this process, which ends."""
    os.environ["XDG_CACHE_HOME"] = str(cache)
    with output.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    code = 1
    try:
        import tensorflow as tf

        # the graph optimiser takes a third of the time of a graph that runs a few times
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
        if end:
            _prepare(end)
        train.finish = lambda *_: None  # type: ignore[assignment]
        summaries.attention_image = picture
        process.main(lambda: train.command(arguments))
    except SystemExit as exit_:
        code = exit_.code if isinstance(exit_.code, int) else 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _prepare(end: End) -> None:
    """Makes this process send itself the signal where it is to."""
    calls = 0

    def reached() -> bool:
        nonlocal calls
        calls += 1
        return calls == end.count

    rehearse, update, save = Trainer.rehearse, TrainingStep.__call__, np.savez

    def rehearse_or_end(trainer):
        os.kill(os.getpid(), end.number)
        rehearse(trainer)

    def update_or_end(step, source_ids, target_ids, rate_factor=1.0, stop=False):
        if rate_factor and reached():  # at rate 0 it is rehearsed
            os.kill(os.getpid(), end.number)
        return update(step, source_ids, target_ids, rate_factor, stop)

    def save_or_end(file, **arrays):
        if reached():
            if end.number == signal.SIGKILL:
                file.write(b"half of it")
                file.flush()
            os.kill(os.getpid(), end.number)
        save(file, **arrays)

    if end.where == "starting":
        Trainer.rehearse = rehearse_or_end  # type: ignore[method-assign]
    elif end.where == "training":
        TrainingStep.__call__ = update_or_end  # type: ignore[method-assign]
    else:
        np.savez = save_or_end


def draw_ends(count: int, numbers: list[int], seed: int) -> list[End]:
    """Draws where to end. Every fifth is while it starts; none is so late that it would be done."""
    draw = random.Random(seed)
    ends = []
    for k in range(count):
        number = numbers[k % len(numbers)]
        if k % 5 == 3:
            ends.append(End("starting", 1, number))
        elif k % 2:
            ends.append(End("training", draw.randint(EVERY + 1, 2 * EVERY), number))
        else:  # one is saved before a validation, one after it, each time
            ends.append(End("writing", draw.randint(2, 3), number))
    return ends


def end_and_compare(folder: Path, model: str, ends: list[End]) -> tuple[Training, Training]:
    """Returns a training that was left alone, and one that was ended so often until it was done."""
    steps = UPDATES + 2 * EVERY * len(ends)
    alone, ended = (Training(folder / name, model, steps) for name in ("alone", "ended"))
    alone.start()
    for end in ends:
        ended.start(end)
    ended.start()
    return alone, ended


def main() -> int:
    """Prints the starts, and whether both trainings are the same."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ends", type=int, default=20)
    signals = ["KILL", "HUP", "TERM", "INT"]
    parser.add_argument("--signal", nargs="+", choices=signals, default=["KILL"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--model", choices=MODELS, default="dtmt_tiny")
    parser.add_argument("--json", type=Path, help="write what was seen there")
    options = parser.parse_args()
    os.chdir(ROOT)
    startup.start_tensorflow = lambda *_, **__: None  # the environment is set
    numbers = [int(signal.Signals[f"SIG{name}"]) for name in options.signal]
    ends = draw_ends(options.ends, numbers, options.seed)
    with tempfile.TemporaryDirectory() as folder:
        alone, ended = end_and_compare(Path(folder), options.model, ends)
        left = sorted(path.name for path in ended.checkpoints.folder.iterdir())
        digests = [training.digest() for training in (alone, ended)]
    print("ended while  code  half-written  resumed after  newest then  seconds")
    for start in ended.starts:
        where = start.end.where if start.end else "-"
        torn = "yes" if start.torn else "-"
        resumed = "-" if start.resumed is None else start.resumed
        print(
            f"{where:<12} {start.code:>4} {torn:>13} {resumed:>14} {start.reached:>12}"
            f" {start.seconds:>8.1f}"
        )
    print(
        f"\n{len(ends)} ends by SIG{' and SIG'.join(options.signal)}, "
        f"{sum(start.torn for start in ended.starts)} left a half-written checkpoint\n"
        f"SHA-256 of the last state, left alone:   {digests[0]}\n"
        f"                           and ended:    {digests[1]}"
    )
    if options.json:
        starts = [[dataclasses.asdict(each) for each in one.starts] for one in (alone, ended)]
        found = {"alone": starts[0], "ended": starts[1], "digests": digests, "left": left}
        options.json.write_text(json.dumps(found))
    return int(digests[0] != digests[1])


if __name__ == "__main__":
    sys.exit(main())
