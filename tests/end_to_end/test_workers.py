"""Two worker processes train like one with two devices; one that is killed is missed."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

from dtmt_tf.training import CheckpointFolder
from tests.end_to_end.conftest import QUICKLY, ROOT, write_digits
from tests.end_to_end.killing import MODELS, SETTINGS

STEPS = 20
MODEL = "transformer_tiny"
TINY = [
    *SETTINGS,
    *MODELS[MODEL],
    *(f"training.max_steps={STEPS}", "training.validation_steps=10"),
    "training.accumulation_steps=1",
]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Settings that name a small corpus, with batches that no number of devices divides."""
    folder = tmp_path_factory.mktemp("corpus")
    return [*TINY, *write_digits(folder, {"validation": 20, "train": 301})]


IMPORTING = """
from dtmt_tf import startup
with startup.without(startup.UNUSED), startup.kept():
    import tensorflow
from dtmt_tf import training
from tests.end_to_end.conftest import picture
training.summaries.attention_image = picture
"""
DOOMED = """
import os, signal
TrainingStep = training.TrainingStep
call = TrainingStep.__call__
def die(step, *arguments, **options):
    if int(step.optimizer.iterations.numpy()) == 13:
        os.kill(os.getpid(), signal.SIGKILL)
    return call(step, *arguments, **options)
TrainingStep.__call__ = die
"""  # dies after its 13th update, at once; a busy test would kill it late
SCORED = """
from dtmt_tf.runs.validator import RunValidator
RunValidator.validate = lambda _: training.Validation({"bleu": 1.0}, [], [])
"""  # without translating; nothing follows from it
MARKING = """
from dtmt_tf.commands import train
def mark(run, start):
    with (run.folder / "finished").open("a") as file:
        print("once", file=file)
train.finish = mark
"""  # other tests score and export
UNLIKE = """
import json, os
from dtmt_tf.errors import UserError
from dtmt_tf.runs import session
from dtmt_tf.runs.validator import RunValidator
validate, run, agree = RunValidator.validate, training.Trainer.run, session.agree
def validate_otherwise(validator):
    found = validate(validator)
    found.scores["bleu"] += json.loads(os.environ["TF_CONFIG"])["task"]["type"] == "worker"
    return found
def tell(trainer):
    outcome = run(trainer)
    print("history", json.dumps(trainer.history), flush=True)
    return outcome
def agree_then_not(strategy, values):
    agree(strategy, values)
    try:
        agree(strategy, dict.fromkeys(values, os.environ["TF_CONFIG"]))
    except UserError as error:
        print("told:", error, flush=True)
RunValidator.validate, training.Trainer.run = validate_otherwise, tell
session.agree = agree_then_not
"""  # its validations score what no chief's do; it tells what follows where workers differ


def start(folder, settings, *arguments, worker=None, ports=(), with_chief=False, program=""):
    """Starts a training; as one of two workers, if told so, the first of which may be a chief."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
    environment.pop("TF_CONFIG", None)
    if worker is not None:
        first, second = (f"localhost:{port}" for port in ports)
        jobs = {"worker": [first, second]}
        task = {"type": "worker", "index": worker}
        if with_chief:
            jobs = {"chief": [first], "worker": [second]}
            task = {"type": ("chief", "worker")[worker], "index": 0}
        environment["TF_CONFIG"] = json.dumps({"cluster": jobs, "task": task})
    command = [
        *(sys.executable, "-c", IMPORTING + program + QUICKLY, "pipelines/train.py"),
        *("--task", "custom", "--model", MODEL, "--name", "toy"),
        *("--output-dir", str(folder / "models"), *arguments),
        *("--set", *settings),
    ]
    with (folder / f"log-{worker}").open("w") as log:
        return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)


def free_ports():
    sockets = [socket.socket() for _ in range(2)]
    for each in sockets:
        each.bind(("localhost", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def start_both(folder, settings, programs, with_chief=False):
    options = {"ports": free_ports(), "with_chief": with_chief}
    return [
        start(folder, settings, worker=k, program=program, **options)
        for k, program in enumerate(programs)
    ]


def weights(folder):
    checkpoints = CheckpointFolder(folder / "models/custom/toy/train/checkpoints", 5, 5)
    checkpoint = checkpoints.load(checkpoints.steps()[-1])
    assert checkpoint.step == STEPS
    return np.concatenate([checkpoint.weights[name].ravel() for name in sorted(checkpoint.weights)])


@pytest.fixture(scope="module")
def alone(corpus, tmp_path_factory):
    """The weights of one process with two logical devices."""
    folder = tmp_path_factory.mktemp("alone")
    process = start(folder, corpus, "--devices", "CPU:0", "CPU:1", program=SCORED)
    last = folder / f"models/custom/toy/train/checkpoints/step-{STEPS:08}.npz"
    while not last.exists() and process.poll() is None:
        time.sleep(0.05)
    process.kill()  # its export is not waited for
    process.wait()
    assert last.exists(), (folder / "log-None").read_text()
    return weights(folder)


@pytest.fixture(scope="module")
def missed(corpus, tmp_path_factory):
    """Where two workers trained, one of them was killed, and what the other one said."""
    folder = tmp_path_factory.mktemp("workers")
    processes = start_both(folder, corpus, [SCORED, SCORED + DOOMED])
    assert processes[1].wait(timeout=1800) == -signal.SIGKILL, (folder / "log-1").read_text()
    assert processes[0].wait(timeout=1800) == 2
    return folder, (folder / "log-0").read_text()


def test_a_worker_that_is_killed_is_missed(missed):
    folder, said = missed
    assert "Another worker is gone" in said
    assert "Start the same command on all workers again" in said


def test_started_again_two_workers_end_like_one_with_two_devices(corpus, alone, missed):
    folder, _ = missed
    processes = start_both(folder, corpus, [MARKING + UNLIKE] * 2, with_chief=True)
    for worker, process in enumerate(processes):
        assert process.wait(timeout=1800) == 0, (folder / f"log-{worker}").read_text()
    assert "resuming after update 10" in (folder / "log-0").read_text()
    logs = [(folder / f"log-{worker}").read_text() for worker in range(2)]
    first, second = (re.findall("^history .*", log, re.MULTILINE) for log in logs)
    assert first == second and len(first) == 1  # both go by the chief's scores
    told = [re.findall(r"^told: Worker 1 .* differ in -*(\w+)", log, re.MULTILINE) for log in logs]
    # --init-from; ... of data, training text, checkpoint, sub-words, weights
    assert told == [[], ["init", "settings", "their", "the", "their", "the"]]
    assert np.abs(alone).max() > 0.1
    np.testing.assert_allclose(weights(folder), alone, atol=2e-5)
    run = folder / "models/custom/toy"
    assert (run / "finished").read_text() == "once\n"
    assert len(list(run.glob("events.out.tfevents.*"))) == 2  # the chief alone wrote, twice
