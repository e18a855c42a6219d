"""DTMT against the twin, and what padding, order, search and the future may not change."""

import numpy as np
import pytest
import tensorflow as tf

from dtmt_tf.config import DecodingConfig, TrainingConfig
from dtmt_tf.decoding import make_search
from dtmt_tf.errors import UserError
from dtmt_tf.models import DTMTConfig
from tests.cells.twin import assert_gradients_match, randomise, relative_error, weights_of
from tests.models.contract import (
    REAL,
    SOURCE,
    TARGET,
    WORDS_S,
    WORDS_T,
    check_translation_model_contract,
    loss_of,
    step_through,
)
from tests.reference import numpy_dtmt as ref

SMALL = {"embedding_dim": 6, "units": 8, "num_heads": 4}


def make_model(kind="lgru", depths=(1, 1, 1), rates=0.0, **options):
    names = ("encoder", "query", "decoder")
    settings = {f"{name}_cell": kind for name in names}
    settings |= {f"{name}_depth": depth for name, depth in zip(names, depths, strict=True)}
    training = TrainingConfig(
        embedding_dropout_rate=rates, output_dropout_rate=rates, candidate_dropout_rate=rates
    )
    config = DTMTConfig(**{**SMALL, **settings, **options})
    return randomise(config.build(WORDS_S, WORDS_T, training), np.random.default_rng(7), 0.5)


@pytest.fixture(scope="module")
def model():
    """A DTMT#1 in float32."""
    return make_model()


def twin_config(model):
    config = model.config
    return ref.make_config(
        WORDS_S,
        WORDS_T,
        config.embedding_dim,
        config.units,
        config.num_heads,
        None,  # the weights know
        config.context_dim,
        config.encoder_cell,
        use_layer_norm=config.use_layer_norm,
        use_position=config.use_positional_signal,
    )


@pytest.mark.parametrize("kind", ["gru", "lgru"])
@pytest.mark.parametrize(
    ("depths", "context_dim"),
    [((0, 0, 0), None), ((1, 1, 1), 8), ((2, 2, 2), None), ((2, 0, 1), 5)],
)
def test_logits_equal_the_twin(kind, depths, context_dim):
    model = make_model(kind, depths, context_dim=context_dim)
    expected = ref.forward(weights_of(model), SOURCE, TARGET, twin_config(model))
    logits = model(SOURCE, TARGET)
    assert logits.shape == (3, 4, WORDS_T)
    assert relative_error(logits[REAL], expected[REAL]) <= 1e-5


@pytest.mark.parametrize(
    "options",
    [
        {"use_layer_norm": False},
        {"use_positional_signal": False},
        {"kind": "gru", "use_gru_candidate_bias": True},
        {"kind": "lau"},
        {"embedding_dim": 5, "units": 9, "num_heads": 3},
        {"num_heads": 1},
        {"num_heads": 8},
    ],
)
def test_every_switch_equals_the_twin(options):
    model = make_model(**options)
    expected = ref.forward(weights_of(model), SOURCE, TARGET, twin_config(model))
    assert relative_error(model(SOURCE, TARGET)[REAL], expected[REAL]) <= 1e-5


@pytest.mark.parametrize(
    ("kind", "depths", "policy", "tolerance"),
    [
        ("lgru", (1, 1, 1), "float32", 1e-3),
        ("lgru", (1, 1, 1), "float64", 1e-6),
        ("gru", (0, 2, 0), "float64", 1e-6),
    ],
)
def test_gradient_of_the_loss_equals_central_differences_of_the_twin(
    dtype_policy, kind, depths, policy, tolerance
):
    dtype_policy(policy)
    model = make_model(kind, depths, context_dim=10)
    assert model(SOURCE, TARGET).dtype == policy

    def twin_loss(value):
        logits = ref.forward(weights_of(model, value), SOURCE, TARGET, twin_config(model))
        return -float(np.sum(ref.sentence_log_probs(logits, TARGET)))

    variables = model.trainable_variables
    first = {"lgru": 5, "gru": 4}[kind]
    encoder, query, decoder = (first + 4 * depth for depth in depths)
    in_cells = 2 * encoder + query + decoder
    assert len(variables) == len(model.weights) == 2 + 2 + in_cells + 2 + 5 + 4
    assert_gradients_match(
        lambda: loss_of(model), twin_loss, [], variables, tolerance=tolerance, samples=4
    )


def test_it_does_what_every_translation_model_must(model):
    check_translation_model_contract(model)


def test_stepwise_equals_the_twin(model):
    logits = step_through(model, model.encode(SOURCE[:1]), np.array([[[3, 2, 6, 1]]]))
    log_probs = tf.nn.log_softmax(logits)[0, 0]
    for t, prefix in enumerate([(), (3,), (3, 2), (3, 2, 6)]):
        weights, config = weights_of(model), twin_config(model)
        expected = ref.next_log_probs(weights, SOURCE[0], prefix, config)
        assert relative_error(log_probs[t], expected) <= 1e-5


def test_mixed_precision_stays_near_float32(model, dtype_policy):
    dtype_policy("mixed_bfloat16")
    low = make_model()
    low.set_weights(model.get_weights())
    logits = low(SOURCE, TARGET)
    assert logits.dtype == "bfloat16"
    assert relative_error(tf.cast(logits, "float32")[REAL], model(SOURCE, TARGET)[REAL]) <= 0.05
    state = low.encode(SOURCE)
    step, _ = low.decode_step(np.full((3, 1), 1), state)
    assert relative_error(tf.cast(step, "float32")[:, 0], model(SOURCE, TARGET)[:, 0]) <= 0.05
    both = [
        make_search(each.encode, each.decode_step, DecodingConfig())(SOURCE)
        for each in (model, low)
    ]
    np.testing.assert_allclose(both[1].scores[:, 0], both[0].scores[:, 0], rtol=0.02)
    assert both[1].scores.dtype == "float32"


def test_inspection_shows_the_weights_and_gates_of_the_twin(model):
    gates, attended = model.inspect(SOURCE, TARGET)
    np.testing.assert_allclose(model.attention(SOURCE, TARGET), attended, atol=1e-6)
    weights, config = weights_of(model), twin_config(model)
    memory, s = ref.run_encoder(weights, SOURCE, config)
    y = ref.shifted_embeddings(TARGET, weights["target"], True)
    updates = []
    for t in range(4):
        cell = weights["query"][0]
        total = y[:, t] @ cell["kernel"][:, 8:16] + s @ cell["recurrent_kernel"][:, 8:16]
        updates.append(ref.sigmoid(ref.layer_norm(total, cell["gain"][1], cell["offset"][1])))
        s, _, _, looked = ref.decoder_step(y[:, t], s, memory, weights, 4)
        assert relative_error(attended[:, t][REAL[:, t]], looked.mean(axis=1)[REAL[:, t]]) <= 1e-5
    expected = np.mean(np.stack(updates, axis=1)[REAL])
    np.testing.assert_allclose(gates["query/lgru/z"], expected, rtol=1e-5)
    cells = ("lgru/r", "lgru/z", "lgru/l", "tgru_1/r", "tgru_1/z")
    modules = ("forward", "backward", "query", "transition")
    assert set(gates) == {f"{module}/{cell}" for module in modules for cell in cells}
    assert all(0 < gate < 1 for gate in gates.values())


def test_inspection_of_an_lau_follows_the_state_past_its_linear_term():
    model = make_model("lau")
    gates, attended = model.inspect(SOURCE, TARGET)
    weights, config = weights_of(model), twin_config(model)
    memory, s = ref.run_encoder(weights, SOURCE, config)
    y = ref.shifted_embeddings(TARGET, weights["target"], True)
    updates = []
    for t in range(4):
        q = ref.lau_step(y[:, t], s, weights["query"][0])  # the T-GRU after it starts from here
        cell = weights["query"][1]
        total = q @ cell["recurrent_kernel"][:, 8:16]
        updates.append(ref.sigmoid(ref.layer_norm(total, cell["gain"][1], cell["offset"][1])))
        s, _, _, looked = ref.decoder_step(y[:, t], s, memory, weights, 4, "lau")
        assert relative_error(attended[:, t][REAL[:, t]], looked.mean(axis=1)[REAL[:, t]]) <= 1e-5
    expected = np.mean(np.stack(updates, axis=1)[REAL])
    np.testing.assert_allclose(gates["query/tgru_1/z"], expected, rtol=1e-5)
    assert {name for name in gates if "/lau/" in name} == {
        f"{module}/lau/{gate}"
        for module in ("forward", "backward", "query", "transition")
        for gate in ("r", "z", "g")
    }


def test_initial_weights_are_uniform_and_fixed_by_the_seed():
    def build(seed):
        return DTMTConfig(**SMALL).build(WORDS_S, WORDS_T, TrainingConfig(seed=seed))

    model, same, other = build(1), build(1), build(2)
    for ours, equal, unequal in zip(model.weights, same.weights, other.weights, strict=True):
        values = ours.numpy()
        np.testing.assert_array_equal(values, equal.numpy())
        if ours.name == "gain":
            assert np.all(values == 1)
        elif ours.name == "offset":
            assert np.all(values == 0)
        else:
            assert np.all(np.abs(values) <= 0.08) and np.any(values != unequal.numpy())
            if values.size > 200:
                assert np.max(np.abs(values)) > 0.075
                assert abs(np.std(values) - 0.08 / 3**0.5) < 0.006


def test_no_two_weights_start_alike():
    config = DTMTConfig(**{**SMALL, "embedding_dim": 8}, encoder_cell="gru")
    model = config.build(WORDS_S, WORDS_T, TrainingConfig())
    starts = {}
    for weight in model.weights:
        if weight.name not in ("gain", "offset"):
            starts.setdefault(float(weight.numpy().flat[0]), []).append(weight.path)
    assert [paths for paths in starts.values() if len(paths) > 1] == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"units": 10, "num_heads": 4}, "divisible by `model.num_heads`. Received: 10 and 4"),
        ({"units": 0}, "`model.units` should be at least 1 .*Received: 0"),
        ({"encoder_cell": "lstm"}, "encoder_cell` should be gru, lau or lgru. Received: 'lstm'"),
        (
            {"query_depth": -1},
            "`model.query_depth` should be at least 0 .*Received: -1",
        ),
    ],
)
def test_impossible_settings_are_named(options, message):
    with pytest.raises(UserError, match=message):
        DTMTConfig(**options)


@pytest.mark.parametrize("tied", ["target", "all"])
def test_tied_tables_are_one_weight(tied):
    sizes = WORDS_T, WORDS_T
    options = {"embedding_dim": 8, "units": 8, "num_heads": 4, "encoder_depth": 0}
    free, shared = (
        DTMTConfig(**options, tied_embeddings=name).build(*sizes, TrainingConfig())
        for name in ("none", tied)
    )
    saved = WORDS_T * 8 * (2 if tied == "all" else 1)
    count = free.count_params() - saved
    assert shared.count_params() == sum(shared.parameter_counts().values()) == count
    randomise(shared, np.random.default_rng(3), 0.5)
    # a free model with the same numbers in each place says the same ...
    places = {variable.path: variable for variable in shared.trainable_variables}
    table = shared.target_embedding.table
    for variable in free.trainable_variables:
        if variable.path in places:
            variable.assign(places[variable.path])
    free.readout.logits.kernel.assign(tf.transpose(table))
    if tied == "all":
        free.source_embedding.table.assign(table)
    source, target = SOURCE % WORDS_T, TARGET
    np.testing.assert_allclose(shared(source, target), free(source, target), atol=1e-5)
    # ... and the table's gradient is the sum of its places'
    gradients = []
    for model in (shared, free):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(model(source, target)))
        values = [v.value for v in model.trainable_variables]
        found = tape.gradient(loss, values)
        gradients.append(
            {
                v.path: np.asarray(tf.convert_to_tensor(g))
                for v, g in zip(model.trainable_variables, found, strict=True)
            }
        )
    own, apart = gradients
    total = apart[table.path] + apart[free.readout.logits.kernel.path].T
    if tied == "all":
        total = total + apart[free.source_embedding.table.path]
    np.testing.assert_allclose(own[table.path], total, rtol=1e-4, atol=1e-4)


def test_tables_that_can_not_be_tied_are_refused():
    with pytest.raises(UserError, match=r"embedding_dim.*units.*6 and 8"):
        DTMTConfig(**SMALL, tied_embeddings="all")
    with pytest.raises(UserError, match=r"tied_embeddings.*'source'"):
        DTMTConfig(embedding_dim=8, units=8, num_heads=4, tied_embeddings="source")


def test_settings_of_first_weights_reach_every_cell():
    options = {**SMALL, "encoder_depth": 1, "query_depth": 1, "decoder_depth": 1}
    config = DTMTConfig(**options, update_offset=-1.5, embedding_scale=3.0)
    model = config.build(WORDS_S, WORDS_T, TrainingConfig())
    offsets = [v for v in model.trainable_variables if v.path.endswith("gates/offset")]
    assert len(offsets) == 8
    for offset in offsets:
        np.testing.assert_array_equal(offset[1], -1.5)
        assert not np.any(offset[0])
    config = DTMTConfig(**options, update_offset=-1.5, transition_offset=-3.0)
    deep = config.build(WORDS_S, WORDS_T, TrainingConfig())
    offsets = {v.path: v for v in deep.trainable_variables if v.path.endswith("gates/offset")}
    assert sum("tgru" in path for path in offsets) == 4
    for path, offset in offsets.items():  # z's, after r's
        np.testing.assert_array_equal(offset[1], -4.5 if "tgru" in path else -1.5, path)
    steps = DTMTConfig(
        **{**options, "encoder_depth": 3},
        **{"transition_offset": -2.0, "transition_offset_step": -0.5, "transition_scale": 0.25},
    ).build(WORDS_S, WORDS_T, TrainingConfig())
    for k, cell in enumerate(steps.encoder.forward.transition.cells[1:]):
        np.testing.assert_array_equal(cell.gates.offset[1], -2 - 0.5 * k)
        np.testing.assert_array_equal(cell.scale, 0.25)
    plain = DTMTConfig(**options).build(WORDS_S, WORDS_T, TrainingConfig())
    for scaled, once in (
        (model.source_embedding, plain.source_embedding),
        (model.target_embedding, plain.target_embedding),
    ):
        ids, positions = np.array([[3, 4]]), np.array([0, 1])
        expected = 3.0 * (once(ids, positions) - once.bias) + once.bias
        np.testing.assert_allclose(scaled(ids, positions), expected, rtol=1e-5)
    with pytest.raises(UserError, match=r"embedding_scale.*0"):
        DTMTConfig(**SMALL, embedding_scale=0)
