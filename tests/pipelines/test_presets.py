"""What the benchmark's presets fix, whatever the task recommends."""

import pytest

from dtmt_tf.commands import common
from pipelines.benchmark import command as benchmark


@pytest.mark.parametrize(
    ("preset", "rates"),
    [
        *(("small", (0, 0, 0)), ("small+", (0.3, 0.4, 0.25))),
        *(("medium", (0.3, 0.3, 0.1)), ("paper", (0.3, 0.3, 0.1))),
    ],
)
def test_a_preset_keeps_what_its_records_were_measured_with(preset, rates):
    experiment, _ = common.experiment(benchmark.parse(["train", "--preset", preset]))
    training = experiment.training
    dropout = (training.embedding_dropout_rate, training.output_dropout_rate)
    assert (*dropout, training.candidate_dropout_rate) == rates
    assert (training.r_drop_alpha, training.label_smoothing, training.ema_decay) == (0, 0.1, 0)
    assert (training.word_dropout_rate, training.subword_dropout_rate) == (0, 0)
