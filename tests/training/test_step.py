"""The update: equal to the twin's Adam, however the batch is divided."""

import dataclasses
import functools
import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from dtmt_tf.config import TrainingConfig
from dtmt_tf.errors import UserError
from dtmt_tf.models import DTMTConfig, TransformerConfig
from dtmt_tf.training import TrainingStep, make_strategy
from dtmt_tf.training import loss as loss_module
from dtmt_tf.training import step as step_module
from tests.reference import numpy_dtmt as ref

CLIPPING = 0.05  # far below the gradients' norm, about 0.2
SMOOTHING = 0.3  # of labels; not the default
PLAIN = TrainingConfig(
    learning_rate=1e-3,
    schedule_replicas=1,
    clip_norm=CLIPPING,
    embedding_dropout_rate=0.0,
    output_dropout_rate=0.0,
    candidate_dropout_rate=0.0,
)
DROPPING = dataclasses.replace(
    PLAIN, embedding_dropout_rate=0.2, output_dropout_rate=0.3, candidate_dropout_rate=0.1
)
DTMT = DTMTConfig(16, 16, 4, encoder_depth=0, query_depth=0, decoder_depth=1)
TRANSFORMER = TransformerConfig(16, 16, 4, 1, 1)  # to trace; where the step alone is tested
without_graphs = pytest.mark.usefixtures("without_graphs")
ROWS = (5, 3, 1, 4)  # ragged: fewer rows than slices, odd numbers


def batches():
    rng = np.random.default_rng(0)
    for rows in ROWS:
        source = rng.integers(3, 40, (rows, 7)).astype("int32")
        target = rng.integers(3, 40, (rows, 6)).astype("int32")
        source[0, 4:] = 0
        target[0, 3:] = 0  # slices differ in their number of words, too
        yield source, target


@functools.cache  # several tests compare with the same
def train(devices, training, repeats=1, config=TRANSFORMER):
    strategy = make_strategy(multiworker=False, devices=list(devices))
    with strategy.scope():
        model = config.build(40, 40, training)
    step = TrainingStep(model, training, strategy)
    updates = [step(*batch) for _ in range(repeats) for batch in batches()]
    weights = np.concatenate([v.numpy().ravel() for v in model.trainable_variables])
    return weights, updates


@without_graphs
def test_accumulation_makes_the_update_of_a_whole_batch():
    alone, _ = train(("CPU:0",), PLAIN)
    weights, updates = train(("CPU:0",), dataclasses.replace(PLAIN, accumulation_steps=2))
    np.testing.assert_allclose(weights, alone, atol=2e-5)
    assert all(float(np.linalg.norm(update.gradient_norms)) > CLIPPING for update in updates)


@pytest.mark.parametrize(("config", "slices"), [(DTMT, 1), (TRANSFORMER, 2)])
def test_two_devices_make_the_updates_of_one(config, slices):
    """Each of them in so many slices."""
    (reference, updates), (weights, others) = (
        train(devices, dataclasses.replace(DROPPING, accumulation_steps=steps), 5, config)
        for devices, steps in ((("CPU:0",), 2 * slices), (("CPU:0", "CPU:1"), slices))
    )
    assert len(others) == 20
    np.testing.assert_allclose(weights, reference, atol=2e-5)
    for update, other in zip(updates, others, strict=True):
        assert float(np.linalg.norm(other.gradient_norms)) > CLIPPING
        assert float(other.tokens) == float(update.tokens)
        assert float(other.loss) == pytest.approx(float(update.loss), abs=1e-5)


def test_all_replicas_call_one_graph(monkeypatch):
    made, plain = [], TrainingStep.slice_sums

    def count(self, *arguments):
        made.append(arguments)
        return plain(self, *arguments)

    monkeypatch.setattr(TrainingStep, "slice_sums", count)
    devices = "CPU:0", "CPU:1", "CPU:2"
    with (strategy := make_strategy(multiworker=False, devices=list(devices))).scope():
        model = TRANSFORMER.build(40, 40, DROPPING)
    step = TrainingStep(model, DROPPING, strategy)
    step(*next(batches()))
    assert len(made) == 1
    whole = step._function.get_concrete_function().graph
    calls = [
        node.get_attr("f").name for node in whole.get_operations() if "f" in node.node_def.attr
    ]
    shared = step._replica_sums.get_concrete_function().function_def.signature.name
    assert calls.count(shared) == len(devices)
    assert step._replica_sums.get_concrete_function().function_def.attr["_noinline"].b


@without_graphs
def test_under_a_policy_of_less_precision_updates_stay_near(dtype_policy):
    alpha = dataclasses.replace(PLAIN, r_drop_alpha=1.0)
    exact = train.__wrapped__(("CPU:0",), alpha, config=DTMT)
    dtype_policy("mixed_bfloat16")
    rounded = train.__wrapped__(("CPU:0",), alpha, config=DTMT)
    for low, high in zip(rounded[1], exact[1], strict=True):
        assert low.loss.dtype == "float32" and low.finite
        np.testing.assert_allclose(low.loss, high.loss, rtol=0.02)
        largest = np.max(high.gradient_norms)
        np.testing.assert_allclose(low.gradient_norms, high.gradient_norms, atol=0.1 * largest)


def test_workers_share_out_the_rows_of_a_batch():
    step = object.__new__(TrainingStep)
    step.slices, step.own_slices = 6, 2
    for size in (1, 5, 6, 13):
        rows, shares = np.arange(size), []
        for step.first_slice in (0, 2, 4):
            own = step.take(rows)
            for k in range(2):  # slice k of all, and where `slice_sums` looks for it
                np.testing.assert_array_equal(own[k::2], rows[step.first_slice + k :: 6])
            shares += own.tolist()
        assert sorted(shares) == rows.tolist()


@without_graphs
def test_updates_are_the_twins_clipped_adam():
    adam = {"adam_beta_1": 0.8, "adam_beta_2": 0.95, "adam_epsilon": 1e-4}
    training = dataclasses.replace(PLAIN, label_smoothing=SMOOTHING, **adam)
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    with strategy.scope():
        model = DTMT.build(40, 40, training)
    step = TrainingStep(model, training, strategy)
    weights = [variable.numpy().astype(float) for variable in model.trainable_variables]
    moments = [(np.zeros_like(w), np.zeros_like(w)) for w in weights]
    for t, (source, target) in enumerate(batches(), start=1):
        gradients = [g.numpy() for g in forced_gradients(model, source, target, SMOOTHING)]
        clipped, norm = ref.clip_by_global_norm(gradients, CLIPPING)
        log_probs = ref.log_softmax(model(source, target).numpy().astype(float))
        plain = -np.take_along_axis(log_probs, target[..., None], axis=-1)[target != 0].mean()
        update = step(source, target)
        assert float(update.cross_entropy) == pytest.approx(plain, rel=1e-5)
        assert float(np.linalg.norm(update.gradient_norms)) == pytest.approx(norm, rel=1e-4)
        for k, gradient in enumerate(clipped):
            weights[k], *moments[k] = ref.adam_step(
                *(weights[k], gradient, *moments[k], t, 1e-3), *adam.values()
            )
    for weight, variable in zip(weights, model.trainable_variables, strict=True):
        np.testing.assert_allclose(variable.numpy(), weight, atol=2e-6)


def forced_gradients(model, source, target, smoothing=0.1):
    """Gradients by the plainest road: full logits, one-hot targets, mean over real words."""
    with tf.GradientTape() as tape:
        logits = model(source, target)
        real = tf.cast(target != 0, tf.float32)
        q = smoothing / 39
        wanted = tf.one_hot(target, 40) * (1 - smoothing - q) + q
        losses = -tf.reduce_sum(wanted * tf.nn.log_softmax(logits), axis=-1)
        loss = tf.reduce_sum(losses * real) / tf.reduce_sum(real)
    return map(
        tf.convert_to_tensor, tape.gradient(loss, [v.value for v in model.trainable_variables])
    )


@without_graphs
def test_frozen_weights_stay_and_do_not_count_towards_the_norm():
    frozen = dataclasses.replace(PLAIN, frozen=("encoder/*", "*embedding*"), ema_decay=0.9)
    strategy = make_strategy(multiworker=False, devices=["CPU:0"])
    with strategy.scope():
        model = TRANSFORMER.build(40, 40, frozen)
    step = TrainingStep(model, frozen, strategy)
    before = [variable.numpy() for variable in model.trainable_variables]
    for batch in batches():
        norms = step(*batch).gradient_norms.numpy()
    stayed = [
        np.array_equal(old, new.numpy())
        for old, new in zip(before, model.trainable_variables, strict=True)
    ]
    names = [variable.path.partition("/")[2] for variable in model.trainable_variables]
    expected = [name.startswith("encoder/") or "embedding" in name for name in names]
    assert stayed == expected == step.frozen and 0 < sum(expected) < len(expected)
    np.testing.assert_array_equal(norms == 0, expected)


@without_graphs
def test_the_average_of_a_weight_that_is_frozen_later_is_that_weight():
    moving = dataclasses.replace(PLAIN, ema_decay=0.9)
    strategy = make_strategy(multiworker=False, devices=["CPU:0"])

    def make(training):
        with strategy.scope():
            return TrainingStep(TRANSFORMER.build(40, 40, training), training, strategy)

    step = make(moving)
    for batch in batches():
        step(*batch)
    raw = {v.path: v.numpy() for v in step.model.trainable_variables}
    later = make(dataclasses.replace(moving, frozen=("encoder/*",)))
    later.restore(step.translating_weights, step.state)
    frozen = [path for path in raw if path.partition("/")[2].startswith("encoder/")]
    for path, average in later.translating_weights.items():
        same = np.array_equal(average, step.translating_weights[path])
        assert np.array_equal(average, raw[path]) if path in frozen else same
    assert any(not np.array_equal(raw[path], step.translating_weights[path]) for path in frozen)


def test_a_frozen_matrix_that_is_shared_with_one_that_moves_is_told(caplog):
    model = DTMTConfig(embedding_dim=8, units=8, num_heads=2, tied_embeddings="all").build(
        40, 40, PLAIN
    )
    told = "%s is target_embedding/table, which moves"
    for pattern, name in (
        ("source_embedding/*", "source_embedding/table"),
        ("readout/*", "readout/logits/kernel"),
    ):
        caplog.clear()
        step_module.frozen_weights(model, [pattern, "encoder/*"])
        assert told % name in caplog.text and caplog.text.count("target_embedding") == 1
    caplog.clear()
    step_module.frozen_weights(model, ["readout/*", "*_embedding/*"])
    assert not caplog.text


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("encodr/*", r"training.frozen` names no weight: 'encodr/\*'(.|\n)*There are:\n  decoder"),
        ("*", "leaves no weight to train"),
    ],
)
def test_a_pattern_that_freezes_nothing_or_all_is_refused(pattern, message):
    model = TRANSFORMER.build(40, 40, PLAIN)
    with pytest.raises(UserError, match=message):
        step_module.frozen_weights(model, [pattern])


@without_graphs
def test_bfloat16_products_train_alike():
    rounded = dataclasses.replace(PLAIN, precision="bfloat16")
    (_, updates), (_, others) = (train(("CPU:0",), each) for each in (PLAIN, rounded))
    for update, other in zip(updates, others, strict=True):
        difference = np.abs(other.gradient_norms - update.gradient_norms)
        assert 0 < difference.max() < 0.05 * np.max(update.gradient_norms)
        assert float(other.loss) == pytest.approx(float(update.loss), abs=0.02)


@without_graphs
def test_r_drop_without_dropout_changes_nothing():
    weights, updates = train(("CPU:0",), PLAIN)
    others, again = train(("CPU:0",), dataclasses.replace(PLAIN, r_drop_alpha=5.0))
    np.testing.assert_allclose(others, weights, atol=1e-5)
    for update, other in zip(updates, again, strict=True):
        assert float(other.tokens) == float(update.tokens)
        assert float(other.loss) == pytest.approx(float(update.loss), abs=1e-6)
        same = pytest.approx(float(update.cross_entropy), abs=1e-6)
        assert float(other.cross_entropy) == same


class OneScale:
    """Stands in for a model: two readings of a batch, whose logits one weight scales."""

    def __init__(self, value):
        self.scale = keras.Variable(np.array([value], "float32"))
        self.trainable_variables = [self.scale]

    def features(self, source_ids, target_ids, training, seeds):
        values = np.random.default_rng(0).normal(size=[*target_ids.shape, 40])
        return tf.constant(values, tf.float32)  # its halves differ

    def readout(self, features, training, seeds):
        return features * self.scale


@without_graphs
def test_the_gradient_is_that_of_the_loss_with_r_drop():
    training = dataclasses.replace(PLAIN, r_drop_alpha=5.0)

    def update(value):
        with (strategy := make_strategy(multiworker=False, devices=["CPU:0"])).scope():
            model = OneScale(value)
        return TrainingStep(model, training, strategy)(*next(batches()))

    slope = (float(update(1.01).loss) - float(update(0.99).loss)) / 0.02
    assert abs(slope) > 1  # most of it is of the divergence
    assert float(update(1.0).gradient_norms[0]) == pytest.approx(abs(slope), rel=0.01)


def test_a_checkpoint_of_other_shapes_is_named():
    model = TRANSFORMER.build(40, 40, PLAIN)
    weights = {variable.path: variable.numpy() for variable in model.trainable_variables}
    name, value = next(iter(weights.items()))
    weights[name] = np.pad(value, [(0, 1), *[(0, 0)] * (value.ndim - 1)])
    with pytest.raises(UserError, match=rf"another model: {name} has shape .*, the model "):
        step_module.load_weights(model, weights)


@without_graphs  # to see values
def test_r_drop_adds_the_divergence_of_two_passes(monkeypatch):
    seen = []

    def spy(logits, others):
        values = loss_module.r_drop_loss(logits, others)
        seen.append((logits, others, values))
        return values

    monkeypatch.setattr(step_module, "r_drop_loss", spy)
    _, (alone, *_) = train(("CPU:0",), dataclasses.replace(DROPPING, r_drop_alpha=1e-9))
    first, other, _ = seen[0]
    p, q = (ref.log_softmax(logits.numpy().astype(float)) for logits in (first, other))
    divergences = (np.exp(p) * (p - q)).sum(-1), (np.exp(q) * (q - p)).sum(-1)
    assert np.mean(divergences) > 1e-5  # the masks differ
    expected = 1000 / 2 * np.sum(divergences) / 2  # alpha / 2 of their mean
    _, (update, *_) = train(("CPU:0",), dataclasses.replace(DROPPING, r_drop_alpha=1000.0))
    added = (float(update.loss) - float(alone.loss)) * float(update.tokens)
    assert added == pytest.approx(expected, rel=1e-3)
    assert float(update.cross_entropy) == pytest.approx(float(alone.cross_entropy), abs=1e-6)


class OneWeight:
    """A model that notes the seeds of its dropout."""

    def __init__(self):
        self.bias = keras.Variable(np.zeros(40, "float32"))
        self.trainable_variables = [self.bias]
        self.seen = []

    def features(self, source_ids, target_ids, training, seeds):
        self.seen.append(tuple(int(part) for part in seeds.base))
        return tf.zeros([*target_ids.shape, 40])

    def readout(self, features, training, seeds):
        return features + self.bias


@without_graphs
def test_masks_depend_on_the_seed_and_on_the_number_of_the_slice():
    seen = []
    for seed in (3, 4):
        training = dataclasses.replace(PLAIN, seed=seed, accumulation_steps=2)
        strategy = make_strategy(multiworker=False, devices=["CPU:0"])
        with strategy.scope():
            model = OneWeight()
        step = TrainingStep(model, training, strategy)
        for batch in itertools.islice(batches(), 2):
            step(*batch)
        seen += model.seen
    assert seen == [(seed, 2 * update + k) for seed in (3, 4) for update in (0, 1) for k in (0, 1)]


@without_graphs
def test_the_clipping_norm_may_change_between_updates():
    with (strategy := make_strategy(multiworker=False, devices=["CPU:0"])).scope():
        model = TRANSFORMER.build(40, 40, PLAIN)
    step, batch = TrainingStep(model, PLAIN, strategy), next(batches())
    for bound in (CLIPPING, CLIPPING / 2):
        step.clip_norm = bound
        # Adam's first moment moves by a tenth of the clipped gradient
        before = [value.numpy() for value in step.optimizer._momentums]
        step(*batch)
        after = [value.numpy() for value in step.optimizer._momentums]
        pairs = zip(after, before, strict=True)
        length = sum(np.sum(np.square((new - 0.9 * old) / 0.1)) for new, old in pairs) ** 0.5
        assert length == pytest.approx(bound, rel=1e-3)
