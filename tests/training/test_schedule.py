"""Learning-rate schedules: golden values and phases."""

import dataclasses

import pytest

from dtmt_tf.config import TrainingConfig
from dtmt_tf.errors import UserError
from dtmt_tf.tasks import TASKS
from dtmt_tf.training import make_schedule, unread
from dtmt_tf.training.schedule import SCHEDULES, DTMTSchedule
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


def rates_of(steps, **settings):
    schedule = make_schedule(TrainingConfig(**settings))
    return [float(schedule(step)) for step in steps], schedule.phases()


def test_formula_17_is_the_default():
    assert type(make_schedule(TrainingConfig())) is DTMTSchedule


def test_phases_of_formula_17_are_its_rates():
    """Though it falls before it is warm, and no further than its floor."""
    rates, phases = rates_of(
        (0, 50, 200, 400),
        learning_rate=1e-3,
        learning_rate_floor=8e-4,
        schedule_replicas=2,
        schedule_warmup=200,
        schedule_decay_start=100,
        schedule_decay_end=400,
    )
    assert rates == pytest.approx([1e-3, 1.125e-3, 8e-4, 8e-4], rel=1e-4)
    assert phases == "1.0e-03 at 0, 1.1e-03 at 50, 8.0e-04 at 200, 8.0e-04 at 400"


def test_a_constant_rate_stays():
    rates, phases = rates_of((0, 7, 10**6), schedule="constant", learning_rate=3e-4)
    assert rates == pytest.approx([3e-4] * 3)
    assert phases == "3.0e-04"


def test_inverse_sqrt_is_that_of_vaswani_et_al():
    d, w = 512, 4000
    steps = (0, 99, 3999, 4000, 15_999, 99_999)
    expected = [d**-0.5 * min((t + 1) ** -0.5, (t + 1) * w**-1.5) for t in steps]
    rates, phases = rates_of(
        steps, schedule="inverse_sqrt", peak_learning_rate=(d * w) ** -0.5, warmup_updates=w
    )
    assert rates == pytest.approx(expected, rel=1e-5)
    assert phases == "7.0e-04 at 4,000, 3.5e-04 at 16,000"


PEAK = {
    "schedule": "peak",
    "peak_learning_rate": 1e-2,
    "warmup_updates": 10,
    "decay_start_updates": 100,
    "decay_end_updates": 300,
    "final_learning_rate": 1e-4,
}


def test_peak_rises_stays_falls_and_stays():
    steps = (0, 4, 9, 50, 100, 200, 300, 10**6)
    rates, phases = rates_of(steps, **PEAK)
    assert rates == pytest.approx([1e-3, 5e-3, *[1e-2] * 3, 1e-3, *[1e-4] * 2], rel=1e-4)
    assert phases == "1.0e-02 at 10, 1.0e-02 at 100, 1.0e-04 at 300"


def test_peak_can_say_what_formula_17_says():
    (*rates,), _ = rates_of(
        (1000, 4000, 8000, 16_000, 32_000),
        schedule="peak",
        peak_learning_rate=2e-3,
        warmup_updates=1000,
        decay_start_updates=4000,
        decay_end_updates=32_000,
        final_learning_rate=5e-4,
    )
    assert rates == pytest.approx([2e-3, 2e-3, 1.641e-3, 1.104e-3, 5e-4], rel=3e-4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"warmup_updates": 101}, "`training.warmup_updates` should be at most"),
        ({"decay_end_updates": 100}, "below `training.decay_end_updates`"),
        ({"final_learning_rate": 2e-2}, "`training.final_learning_rate` should be at most"),
        ({"schedule": "cosine"}, "`training.schedule` should be dtmt, constant"),
        ({"optimizer": "sgd"}, "`training.optimizer` should be adam or adadelta"),
        ({"loss_unit": "words"}, "`training.loss_unit` should be tokens or sentences"),
        ({"stop_on": "chrf"}, "`training.stop_on` should be bleu or cross_entropy"),
    ],
)
def test_settings_that_make_no_sense_are_refused(change, message):
    with pytest.raises(UserError, match=message):
        TrainingConfig(**PEAK | change)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_each_schedule_reads_what_it_says_and_nothing_else(schedule):
    options = {"learning_rate_floor": 1e-4, "schedule_replicas": 2, "decay_start_updates": 3_000}
    training = TrainingConfig(schedule=schedule, **options)
    steps = (0, 100, 2_500, 40_000, 160_000, 10**7)

    def rates(training):
        made = make_schedule(training)
        return [float(made(step)) for step in steps]

    names = {name for each in SCHEDULES.values() for name in each.reads}
    moved = {
        name
        for name in names
        if rates(training)
        != rates(dataclasses.replace(training, **{name: getattr(training, name) * 2}))
    }
    assert moved == {*SCHEDULES[schedule].reads}
    assert set(unread(training, [*names, "clip_norm", "schedule"])) == names - moved


def test_r_drop_of_nothing_that_is_dropped_is_told():
    none = {f"{each}_dropout_rate": 0.0 for each in ("embedding", "output", "candidate")}
    still = TrainingConfig(r_drop_alpha=0.5, subword_dropout_rate=0.1, **none)
    assert "both readings" in unread(still, ["r_drop_alpha"])["r_drop_alpha"]
    assert not unread(dataclasses.replace(still, word_dropout_rate=0.1), ["r_drop_alpha"])
    assert not unread(dataclasses.replace(still, r_drop_alpha=0.0), ["r_drop_alpha"])


@pytest.mark.parametrize(
    ("optimizer", "told"), [("adam", {"adadelta_rho"}), ("adadelta", {"adam_beta_2"})]
)
def test_settings_of_another_optimiser_are_told(optimizer, told):
    names = ["adam_beta_2", "adadelta_rho", "ema_decay"]
    assert unread(TrainingConfig(optimizer=optimizer), names).keys() == told


@pytest.mark.parametrize(("average", "told"), [("none", True), ("best", False), ("last", False)])
def test_how_many_are_averaged_changes_nothing_where_none_are(average, told):
    assert ("average_count" in unread(TrainingConfig(average=average), ["average_count"])) is told


def test_settings_of_a_schedule_that_is_not_used_are_not_looked_at():
    assert TrainingConfig(warmup_updates=10**9).schedule == "dtmt"
