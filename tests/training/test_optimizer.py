"""Adadelta, the other epsilon of Adam, and what a loss is divided by, by hand; see test_step."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from dtmt_tf.training import TrainingStep
from tests.reference import numpy_dtmt as ref
from tests.training.test_step import PLAIN, TRANSFORMER, batches, forced_gradients
from tests.training.toy_trainer import TRAINING, make_trainer, weights_of

pytestmark = pytest.mark.usefixtures("without_graphs")
ADADELTA = dataclasses.replace(
    PLAIN,
    optimizer="adadelta",
    schedule="constant",
    learning_rate=0.5,
    adadelta_rho=0.9,
    adadelta_epsilon=1e-5,
)


def step_of(training):
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    with strategy.scope():
        model = TRANSFORMER.build(40, 40, training)
    return TrainingStep(model, training, strategy)


def test_updates_are_adadeltas_of_the_clipped_gradient():
    step = step_of(ADADELTA)
    model = step.model
    weights = [variable.numpy().astype(float) for variable in model.trainable_variables]
    squares = [np.zeros_like(w) for w in weights]  # decaying means of squared gradients
    moves = [np.zeros_like(w) for w in weights]  # and of squared updates
    for source, target in batches():
        gradients = [g.numpy() for g in forced_gradients(model, source, target)]
        clipped, _ = ref.clip_by_global_norm(gradients, ADADELTA.clip_norm)
        step(source, target)
        for k, gradient in enumerate(clipped):
            squares[k] = 0.9 * squares[k] + 0.1 * gradient**2
            move = np.sqrt(moves[k] + 1e-5) / np.sqrt(squares[k] + 1e-5) * gradient
            moves[k] = 0.9 * moves[k] + 0.1 * move**2
            weights[k] = weights[k] - 0.5 * move
    for weight, variable in zip(weights, model.trainable_variables, strict=True):
        np.testing.assert_allclose(variable.numpy(), weight, atol=2e-6)


def test_epsilon_can_be_that_of_adams_authors():
    rates = {"adam_beta_1": 0.8, "adam_beta_2": 0.95, "adam_epsilon": 1e-3}
    step = step_of(dataclasses.replace(PLAIN, **rates, adam_epsilon_corrected=True))
    variables = step.model.trainable_variables
    weights = [variable.numpy().astype(float) for variable in variables]
    m, v = ([np.zeros_like(w) for w in weights] for _ in range(2))
    for t, (source, target) in enumerate(batches(), start=1):
        gradients = [g.numpy() for g in forced_gradients(step.model, source, target)]
        clipped, _ = ref.clip_by_global_norm(gradients, PLAIN.clip_norm)
        step(source, target)
        for k, gradient in enumerate(clipped):
            m[k] = 0.8 * m[k] + 0.2 * gradient
            v[k] = 0.95 * v[k] + 0.05 * gradient**2
            root = np.sqrt(v[k] / (1 - 0.95**t))
            weights[k] = weights[k] - 1e-3 * m[k] / (1 - 0.8**t) / (root + 1e-3)
    for weight, variable in zip(weights, variables, strict=True):
        np.testing.assert_allclose(variable.numpy(), weight, atol=2e-6)


def test_an_update_at_rate_0_leaves_adadelta_as_it_was():
    step = step_of(dataclasses.replace(ADADELTA, ema_decay=0.9))
    first, second, *_ = batches()
    step(*first)
    before = [value.copy() for value in (*step.state, *step.translating_weights.values())]
    step.rehearse(*second)
    after = [*step.state, *step.translating_weights.values()]
    assert any(np.any(value) for value in before)
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(new, old)


def test_a_loss_by_sentences_is_as_many_times_larger_as_they_are_long():
    tokens, sentences = (
        step_of(dataclasses.replace(PLAIN, loss_unit=unit, clip_norm=1e9))
        for unit in ("tokens", "sentences")
    )
    for source, target in batches():
        length = np.count_nonzero(target) / len(target)
        gradients = [g.numpy() for g in forced_gradients(sentences.model, source, target)]
        norm = np.sqrt(sum(np.sum(g**2) for g in gradients))
        update = sentences(source, target, rate_factor=0.0)
        plain = tokens(source, target, rate_factor=0.0)
        assert np.linalg.norm(update.gradient_norms) == pytest.approx(norm * length, rel=1e-4)
        assert np.linalg.norm(plain.gradient_norms) == pytest.approx(norm, rel=1e-4)
        assert float(update.loss) == pytest.approx(float(plain.loss))  # told per token all the same


def test_what_is_clipped_is_the_gradient_by_sentences():
    clipped, scaled = (
        step_of(dataclasses.replace(ADADELTA, loss_unit=unit, clip_norm=norm))
        for unit, norm in (("sentences", 0.05), ("tokens", 0.05))
    )
    source, target = next(batches())
    for step in (clipped, scaled):
        assert np.linalg.norm(step(source, target).gradient_norms) > 0.05
    for own, other in zip(clipped.weights, scaled.weights, strict=True):  # both at the norm
        np.testing.assert_allclose(own.numpy(), other.numpy(), atol=1e-6)


@pytest.mark.parametrize("accumulation_steps", [2])
def test_sentences_are_counted_over_all_slices(accumulation_steps):
    whole = step_of(dataclasses.replace(PLAIN, loss_unit="sentences"))
    parts = step_of(
        dataclasses.replace(
            PLAIN, loss_unit="sentences", accumulation_steps=accumulation_steps, r_drop_alpha=1e-9
        )
    )
    source, target = next(batches())
    one, other = whole(source, target), parts(source, target)
    np.testing.assert_allclose(other.gradient_norms, one.gradient_norms, rtol=1e-3)


@pytest.mark.parametrize(
    "change",
    [
        {"optimizer": "adadelta", "schedule": "constant", "learning_rate": 1.0},
        {"schedule": "inverse_sqrt", "warmup_updates": 5, "loss_unit": "sentences"},
    ],
    ids=["adadelta", "inverse_sqrt by sentences"],
)
def test_a_run_that_is_stopped_goes_on_bit_for_bit(tmp_path, change):
    training = dataclasses.replace(TRAINING, max_steps=6, **change)
    whole = make_trainer(tmp_path / "whole", training)
    whole.run()
    first = make_trainer(tmp_path / "parts", training, stop_after=4)
    assert first.run().step == 4
    second = make_trainer(tmp_path / "parts", training)
    assert second.restore() == 4
    second.run()
    assert first.training_step.losses + second.training_step.losses == whole.training_step.losses
    assert weights_of(second) == weights_of(whole)
    for own, other in zip(second.training_step.state, whole.training_step.state, strict=True):
        np.testing.assert_array_equal(own, other)
