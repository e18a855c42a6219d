"""Which of several workers a process is, and what they share."""

from types import SimpleNamespace

import pytest
import tensorflow as tf

from dtmt_tf.training import make_strategy
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
