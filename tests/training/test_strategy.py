"""Which of several workers a process is, and what they share."""

import signal
from types import SimpleNamespace

import pytest
import tensorflow as tf

from dtmt_tf.errors import UserError
from dtmt_tf.training import agree, make_strategy, strategy
from dtmt_tf.training.strategy import of_chief, worker_number

HOSTS = ["a:1", "b:1", "c:1"]
WORKERS = {"worker": HOSTS}
WITH_CHIEF = {"chief": HOSTS[:1], "worker": HOSTS[1:]}


@pytest.mark.parametrize(
    "jobs, task, index, number",
    [
        (WORKERS, "worker", 0, 0),
        (WORKERS, "worker", 2, 2),
        (WITH_CHIEF, "chief", 0, 0),
        (WITH_CHIEF, "worker", 0, 1),
        (WITH_CHIEF, "worker", 1, 2),
    ],
)
def test_a_chief_comes_before_the_workers(jobs, task, index, number):
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(jobs), task_type=task, task_id=index
    )
    assert worker_number(SimpleNamespace(cluster_resolver=resolver)) == number


def test_a_process_alone_is_the_first():
    assert worker_number(make_strategy(multiworker=False, devices=["CPU:0"])) == 0


def test_the_chiefs_values_are_taken_as_they_are():
    strategy = make_strategy(multiworker=False, devices=["CPU:0", "CPU:1"])
    values = {"bleu": 40.01, "perplexity": 1e200}
    assert of_chief(strategy, values) == values


def test_workers_that_differ_are_told_in_what(monkeypatch):
    told = {}

    def of_first(_, values):
        told.setdefault(frozenset(values), dict(values))
        return told[frozenset(values)]

    monkeypatch.setattr(strategy, "of_chief", of_first)
    monkeypatch.setattr(strategy, "worker_number", lambda _: 1)
    several = SimpleNamespace(extended=SimpleNamespace(_in_multi_worker_mode=lambda: True))
    values = {"settings of data": {"filters": (), "max_length": 50}, "their text": "a1"}
    agree(several, values)
    agree(several, {"settings of data": {"max_length": 50, "filters": ()}, "their text": "a1"})
    with pytest.raises(UserError, match="Worker 1 and the first one differ in their text"):
        agree(several, values | {"their text": "a2"})
    with pytest.raises(UserError, match="differ in settings of data"):
        agree(several, values | {"settings of data": {"filters": (), "max_length": 60}})


def test_sigterm_still_ends_a_worker(monkeypatch):
    """TensorFlow's strategy of several workers takes it to itself, and does nothing."""
    make = lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN)  # noqa: E731
    monkeypatch.setattr(tf.distribute, "MultiWorkerMirroredStrategy", make)
    former = signal.getsignal(signal.SIGTERM)
    make_strategy(multiworker=True)
    assert signal.getsignal(signal.SIGTERM) is former != signal.SIG_IGN
