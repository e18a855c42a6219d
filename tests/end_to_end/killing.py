"""Kills a training again and again, and compares what comes of it with one that is left alone.

    python -m tests.end_to_end.killing --kills 20

Dropout, accumulation and the moving average of the weights are on. Both run through
pipelines/train.py, in processes that get SIGKILL: while they start, while they train, and in the
middle of writing a checkpoint. What comes after training, the export, is not waited for.
"""

import argparse
import contextlib
import hashlib
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from dtmt_tf.training import CheckpointFolder
from tests.end_to_end.conftest import ROOT, numbers

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
UPDATES = 10  # and `EVERY` for each kill, so that the last is still one


class Kill(NamedTuple):
    """When a process gets SIGKILL.

    Args:
        where: "starting"; "training", when there is a new checkpoint; or "writing", when one is
            half written.
        seconds: Not before so long after its beginning, that checkpoint, or the beginning of the
            updates.
    """

    where: str
    seconds: float


@dataclass
class Start:
    """What was seen of a process.

    Args:
        found: Update of the newest checkpoint when it began.
        kill: When it was to be killed, if it was.
        resumed: Update after which it said it went on; none if it did not come so far.
        killed: Whether it was killed before its end.
        torn: Whether that left a half-written checkpoint.
        loop: Seconds until the updates began.
        update: Seconds until there was a new checkpoint.
        seconds: In all.
    """

    found: int
    kill: Kill | None
    resumed: int | None = None
    killed: bool = False
    torn: bool = False
    loop: float | None = None
    update: float | None = None
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
        self.steps = steps
        self.checkpoints = CheckpointFolder(
            folder / "models" / "custom" / "killed" / "train" / "checkpoints", 2, 5
        )
        self.errors = folder / "stderr"
        self.starts: list[Start] = []
        settings = [*SETTINGS, *MODELS[model], f"training.max_steps={steps}"]
        pairs = numbers(400, 1, set())
        for side, lines in zip(("source", "target"), zip(*pairs, strict=True), strict=True):
            path = folder / f"train.{side}"
            path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            settings.append(f"data.train_{side}={path}")
        self.command = [
            *(sys.executable, "pipelines/train.py", "--task", "custom", "--model", model),
            *("--name", "killed", "--output-dir", str(folder / "models"), "--set", *settings),
        ]

    @property
    def step(self) -> int:
        """Update of the newest checkpoint."""
        return max(self.checkpoints.steps(), default=0)

    def partial(self) -> set[tuple[str, int]]:
        """Half-written checkpoints, by name and time."""
        found = set()
        for path in self.checkpoints.folder.glob("*.partial"):
            with contextlib.suppress(FileNotFoundError):  # by now it is whole
                found.add((path.name, path.stat().st_mtime_ns))
        return found

    @property
    def said(self) -> str:
        """What the process wrote to standard error."""
        return self.errors.read_text(encoding="utf-8")

    def run(self, kill: Kill | None = None) -> Start:
        """Starts the training, and kills it at its last checkpoint or before."""
        start, before = Start(self.step, kill), self.partial()
        began = time.monotonic()
        with self.errors.open("w") as stream:
            process = subprocess.Popen(
                self.command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=stream
            )
        try:
            while self.step < self.steps and not start.killed:
                if process.poll() is not None:
                    raise RuntimeError(self.said)
                now = time.monotonic() - began
                if start.loop is None and re.search(r"train +\d+%", self.said):
                    start.loop = now
                if start.update is None and self.step > start.found:
                    start.update = now
                if kill:
                    since = {"starting": 0.0, "training": start.update, "writing": start.loop}[
                        kill.where
                    ]
                    due = since is not None and now - since >= kill.seconds
                    start.killed = due and (kill.where != "writing" or not self.partial() <= before)
                if not start.killed:
                    time.sleep(0.0005)
        finally:
            process.kill()
            process.wait()
        start.seconds = time.monotonic() - began
        start.torn = not self.partial() <= before
        if said := re.search(r"(?:resuming after update ([\d,]+)|starting)\n", self.said):
            start.resumed = int((said[1] or "0").replace(",", ""))
        self.starts.append(start)
        return start

    def digest(self) -> str:
        """SHA-256 of what the last checkpoint holds for going on and for translating."""
        checkpoint = self.checkpoints.load(self.steps)
        digest = hashlib.sha256()
        for name, array in sorted(checkpoint.weights.items()):
            digest.update(name.encode() + array.tobytes())
        for array in checkpoint.optimizer:
            digest.update(array.tobytes())
        return digest.hexdigest()


def moments(count: int, whole: Start, seed: int) -> list[Kill]:
    """Draws moments over the duration of the run that was left alone.

    Every fifth lies before its first checkpoint. Of the others, every second is in the middle of
    writing. None is so late that the run would be done.
    """
    draw = random.Random(seed)
    share = (whole.seconds - whole.update) / count
    kills = []
    for k in range(count):
        if k % 5 == 3:
            kills.append(Kill("starting", draw.uniform(0, whole.update)))
        else:
            kills.append(Kill("training" if k % 2 else "writing", draw.uniform(0, share)))
    return kills


def kill_and_compare(folder: Path, model: str, count: int, seed: int) -> tuple[Training, Training]:
    """Returns a training that was left alone, and one that was killed so often until it was done.

    Args:
        folder: Where both lie.
        model: One of `MODELS`.
        count: How often.
        seed: Of the moments.
    """
    steps = UPDATES + EVERY * count
    alone, killed = (Training(folder / name, model, steps) for name in ("alone", "killed"))
    whole = alone.run()
    for kill in moments(count, whole, seed):
        killed.run(kill)
    killed.run()
    return alone, killed


def main() -> int:
    """Prints the starts, and whether both trainings are the same."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--model", choices=MODELS, default="dtmt_tiny")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        alone, killed = kill_and_compare(Path(folder), options.model, options.kills, options.seed)
        print("killed while  after s  half-written  resumed after  first update s", flush=True)
        for start in killed.starts:
            where = start.kill.where if start.killed and start.kill else "-"
            torn = "yes" if start.torn else "-"
            resumed = "-" if start.resumed is None else start.resumed
            first = "-" if start.update is None else f"{start.update:.1f}"
            print(f"{where:<12} {start.seconds:>8.1f} {torn:>13} {resumed:>14} {first:>15}")
        digests = [training.digest() for training in (alone, killed)]
    seconds = [start.update for start in killed.starts if start.update is not None]
    print(
        f"\n{sum(start.killed for start in killed.starts)} kills, "
        f"{sum(start.torn for start in killed.starts)} left a half-written checkpoint\n"
        f"from a restart to a new checkpoint, {EVERY} updates on: median "
        f"{statistics.median(seconds):.1f} s, at most {max(seconds):.1f} s\n"
        f"SHA-256 of the last state, left alone:   {digests[0]}\n"
        f"                           and killed:   {digests[1]}"
    )
    return int(digests[0] != digests[1])


if __name__ == "__main__":
    sys.exit(main())
