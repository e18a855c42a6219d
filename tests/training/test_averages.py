"""Moving averages of the weights, begun or ended in a run."""

import dataclasses

import pytest

from dtmt_tf.errors import UserError
from dtmt_tf.training import Limits
from tests.training.toy_trainer import TRAINING, make_trainer, weights_of

pytestmark = pytest.mark.usefixtures("without_graphs")


def test_averages_that_begin_or_end_in_a_run_leave_its_weights(tmp_path):
    limits = Limits(allow_changes=["training.max_steps", "training.ema_decay"])
    trained = make_trainer(tmp_path, dataclasses.replace(TRAINING, max_steps=3))
    trained.run()
    moments = len(trained.training_step.state)

    begun = dataclasses.replace(TRAINING, max_steps=6, ema_decay=0.9)
    trainer = make_trainer(tmp_path, begun, limits=limits)
    assert trainer.restore() == 3
    assert weights_of(trainer) == weights_of(trained)
    start = b"".join(v.numpy().tobytes() for v in trainer.training_step.optimizer.averages)
    assert start == weights_of(trained)
    trainer.run()
    averages = b"".join(v.tobytes() for v in trainer.training_step.translating_weights.values())
    assert averages != weights_of(trainer)
    assert len(trainer.training_step.state) > moments

    ended = make_trainer(tmp_path, dataclasses.replace(TRAINING, max_steps=7), limits=limits)
    assert ended.restore() == 6
    assert weights_of(ended) == weights_of(trainer)  # not the averages
    with pytest.raises(UserError, match="of another model: 3 values"):
        ended.training_step.restore(
            ended.training_step.translating_weights, ended.training_step.state[:3]
        )
