"""One small run through the pipelines, as a user makes it; shared by the tests of this folder."""

import random
import runpy
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from dtmt_tf import startup
from dtmt_tf.export import Canary
from dtmt_tf.export.signatures import SIGNATURES

ROOT = Path(__file__).resolve().parents[2]
LONG = 3600  # seconds; no command takes so long, however busy the machine
WORDS = "null eins zwei drei vier fünf sechs sieben acht neun".split()
SETTINGS = [
    *("data.source_language=en", "data.target_language=de", "data.joint_vocabulary=false"),
    *("data.source_vocab_size=14", "data.target_vocab_size=40", "data.max_length=40"),
    *("data.max_tokens_per_batch=640", "data.split_digits=true", "training.deterministic=true"),
    *("training.embedding_dropout_rate=0", "training.output_dropout_rate=0"),
    "training.log_steps=20",
]
MODEL = "transformer_tiny"  # it starts in half the time of a DTMT
LEARNING = [
    *("training.max_steps=640", "training.validation_steps=320"),
    *("training.candidate_dropout_rate=0", "training.precision=float32"),
    *("training.schedule=peak", "training.peak_learning_rate=0.01", "training.warmup_updates=20"),
    *("training.decay_start_updates=213", "training.decay_end_updates=640"),
    *("model.model_dim=32", "model.filter_dim=64", "model.num_heads=2"),
    *("model.encoder_layers=1", "model.decoder_layers=1"),
]
# the graph optimiser takes a third of the time of a graph that runs a few times
QUICKLY = """
import runpy, sys
from dtmt_tf import startup
start = startup.start_tensorflow
def start_without_optimiser(*arguments, **options):
    start(*arguments, **options)
    import tensorflow as tf
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
startup.start_tensorflow = start_without_optimiser
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def without_trial(patch):
    """Lets versions be published without a process that tries them; `workshop` has one tried."""
    patch.setattr(Canary, "translate", lambda self, _, pairs, *__: [target for _, target in pairs])


def with_few_signatures(patch):
    """Lets versions only translate and tell of themselves; other tests ask the other signatures."""
    for name in "translate_nbest", "align", "score", "complete":
        patch.delitem(SIGNATURES, name)


def run(script, *arguments, stdin=None):
    """Runs a pipeline to its end."""
    return subprocess.run(
        [sys.executable, "-c", QUICKLY, f"pipelines/{script}.py", *map(str, arguments)],
        cwd=ROOT,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=LONG,
    )


def tags_of(run_folder):
    """Names of what TensorBoard shows of a run."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(run_folder))
    events.Reload()
    return {tag for tags in events.Tags().values() if isinstance(tags, list) for tag in tags}


@pytest.fixture
def here(monkeypatch, capsys):
    """Runs a pipeline in this process, at once, up to where it would start TensorFlow."""

    def run_here(script, *arguments):
        monkeypatch.setattr(sys, "path", [*sys.path])
        monkeypatch.setattr(sys, "argv", [f"pipelines/{script}.py", *map(str, arguments)])
        monkeypatch.setattr(startup, "start_tensorflow", lambda *_, **__: None)  # it has started
        with pytest.raises(SystemExit) as end:
            runpy.run_path(str(ROOT / "pipelines" / f"{script}.py"), run_name="__main__")
        return subprocess.CompletedProcess(sys.argv, end.value.code, *capsys.readouterr())

    return run_here


def numbers(count, seed, seen):
    """Sentences of digits in blocks, and the same in words: "31 4" and "drei eins , vier"."""
    random_ = random.Random(seed)
    pairs = []
    while len(pairs) < count:
        blocks = ["".join(random_.choices("0123456789", k=random_.randint(1, 3)))
                  for _ in range(random_.randint(1, 3))]  # fmt: skip
        source = " ".join(blocks)
        if source not in seen:
            seen.add(source)
            words = [" ".join(WORDS[int(digit)] for digit in block) for block in blocks]
            pairs.append((source, ", ".join(words)))
    return pairs


def write_digits(folder, sizes, first_seed=0):
    """Writes a corpus of `numbers`, parts of these sizes; returns the settings that name it."""
    seen, settings = set(), []
    for seed, (split, count) in enumerate(sizes.items(), first_seed):
        pairs = numbers(count, seed, seen)
        for side, lines in zip(("source", "target"), zip(*pairs, strict=True), strict=True):
            path = folder / f"{split}.{side}"
            path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            settings.append(f"data.{split}_{side}={path}")
    return settings


def picture(*_):
    """A point; to draw attention takes most of the time of a small validation."""
    return np.zeros((1, 1, 4), np.uint8)


@dataclass(frozen=True)
class Workshop:
    """Where the run is, and what its commands said."""

    folder: Path
    arguments: list[str]
    stopped: subprocess.CompletedProcess
    finished: subprocess.CompletedProcess

    @property
    def run_folder(self):
        return self.folder / "models" / "custom" / "digits"


@pytest.fixture(scope="session")
def workshop(tmp_path_factory):
    """Trains on digits in two parts: stopped by Ctrl-C, then to the end."""
    folder = tmp_path_factory.mktemp("workshop")
    settings = [*SETTINGS, *LEARNING]
    settings += write_digits(folder, {"test": 200, "validation": 100, "train": 4000})
    arguments = ["--task", "custom", "--name", "digits", "--output-dir", str(folder / "models")]
    with_settings = [*arguments, "--model", MODEL, "--set", *settings]
    errors = folder / "stopped.stderr"
    with errors.open("w") as stream:
        process = subprocess.Popen(
            [sys.executable, "-c", QUICKLY, "pipelines/train.py", *with_settings],
            cwd=ROOT,
            stderr=stream,
        )
        # the bar appears when the loop, and with it the signal handler, is there
        while "train   0%" not in errors.read_text() and process.poll() is None:
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        process.wait(timeout=LONG)
    stopped = subprocess.CompletedProcess(
        process.args, process.returncode, "", errors.read_text(encoding="utf-8")
    )
    finished = run("train", *with_settings)
    return Workshop(folder, arguments, stopped, finished)
