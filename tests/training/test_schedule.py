"""Learning-rate schedule (17): golden values and phases."""

import pytest

from dtmt_tf.config import TrainingConfig
from dtmt_tf.tasks import TASKS
from dtmt_tf.training import DTMTSchedule
from tests.reference import numpy_dtmt as ref

ZH_EN = TrainingConfig(
    learning_rate=1e-3,
    schedule_replicas=2,
    schedule_warmup=500,
    schedule_decay_start=8_000,
    schedule_decay_end=64_000,
)


@pytest.mark.parametrize(
    ("step", "rate"),
    [(0, 1e-3), (500, 1.5e-3), (1000, 2e-3), (4000, 2e-3), (8000, 1.641e-3), (16000, 1.104e-3),
     (32000, 5e-4), (48000, 2.264e-4)],
)  # fmt: skip
def test_paper_zh_en_has_the_golden_values(step, rate):
    assert float(DTMTSchedule(ZH_EN)(step)) == pytest.approx(rate, rel=3e-4)


@pytest.mark.parametrize(
    ("step", "rate"), [(0, 1e-4), (200, 4.5e-4), (400, 8e-4), (25_000, 8e-4), (50_000, 4.595e-4),
                       (100_000, 1.516e-4), (150_000, 5e-5)],
)  # fmt: skip
def test_wmt14_ende_has_the_papers_rates(step, rate):
    assert float(DTMTSchedule(TASKS["wmt14_ende"].training)(step)) == pytest.approx(rate, rel=3e-4)


@pytest.mark.parametrize("step", [0, 7, 499, 1001, 5000, 70_000])
def test_every_phase_equals_the_twin(step):
    expected = ref.learning_rate(step, 1e-3, 2, 500, 8_000, 64_000)
    assert float(DTMTSchedule(ZH_EN)(step)) == pytest.approx(expected, rel=1e-5)


def test_one_replica_has_no_warmup_and_the_floor_holds():
    training = TrainingConfig(
        learning_rate=1e-3,
        schedule_replicas=1,
        schedule_decay_start=100,
        schedule_decay_end=200,
        learning_rate_floor=2e-4,
    )
    rates = [float(DTMTSchedule(training)(step)) for step in (0, 100, 200, 10_000)]
    assert rates == pytest.approx([1e-3, 1e-3, 5e-4, 2e-4], rel=1e-5)
