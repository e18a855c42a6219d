"""Settings sized from a text: sound over all sizes, and around what the user set."""

import dataclasses
import math
import re

import numpy as np
import pytest

from dtmt_tf.config import DataConfig, DecodingConfig, TrainingConfig
from dtmt_tf.data.batch import BatchPlan
from dtmt_tf.errors import UserError
from dtmt_tf.experiment import SECTIONS, resolve
from dtmt_tf.models import MODELS
from dtmt_tf.sizing import RULES, TextFacts, preset, size
from dtmt_tf.tasks import TASKS
from dtmt_tf.text import train_subwords

PAIRS = [1, 3, 10, 100, 300, 1000, 3000, 10_000, 29_000, 162_190, 10**6, 4_500_000, 36 * 10**6]


def facts(pairs, **changes):
    found = TextFacts(pairs, words=7 * pairs, alphabet=90, longest=24, has_validation=True,
                      has_bfloat16=True, replicas=1)  # fmt: skip
    return dataclasses.replace(found, **changes)


def sized(found, *given):
    """The settings that come of sizes and `--set`, and which of them are sized."""
    task, base = TASKS["custom"], MODELS["dtmt_tiny"]
    experiment, origins = resolve(task, "dtmt_tiny", base, given)
    values = {
        f"{name}.{item.name}": getattr(getattr(experiment, name), item.name)
        for name in SECTIONS
        for item in dataclasses.fields(getattr(experiment, name))
    }
    sizes = size(found, values, frozenset(text.partition("=")[0] for text in given))
    changes = [(name, one.value, one.reason) for name, one in sizes.items()]
    experiment, origins = resolve(task, "dtmt_tiny", base, given, sized=changes)
    assert all(origins[name] == one.reason and one.reason for name, one in sizes.items())
    return experiment, sizes


@pytest.mark.parametrize("pairs", PAIRS)
def test_of_a_text_of_any_size_the_settings_are_sound(pairs):
    experiment, sizes = sized(facts(pairs))  # in their ranges, or resolving raises
    data, training = experiment.data, experiment.training
    assert training.warmup_updates <= max(1, training.max_steps / 10)
    assert training.warmup_updates <= training.decay_start_updates < training.max_steps
    assert training.decay_end_updates == training.max_steps
    assert training.final_learning_rate < training.peak_learning_rate
    updates_an_epoch = 1.75 * 7 * pairs / data.max_tokens_per_batch + 12
    assert 3.9 <= training.max_steps / updates_an_epoch <= 33
    validations = training.max_steps / training.validation_steps
    assert 3 < validations <= 10 or training.validation_steps == 5000
    assert training.validation_steps >= 350 or validations <= 4 < training.max_steps
    assert 2 * training.patience >= training.max_steps / training.validation_steps
    assert 1 / (1 - training.ema_decay) <= training.max_steps / 4
    assert data.source_vocab_size <= 32_000
    assert set(sizes) == set(RULES) - {"data.held_out", "data.character_coverage"}


@pytest.mark.parametrize(
    ("source", "target", "names"),
    [
        ("en", "de", ("identical", "length_ratio", "script")),
        ("en", "en", ("length_ratio", "script")),
        ("en-US", "en_GB", ("length_ratio", "script")),
        ("deu", "de", ("length_ratio", "script")),
        ("", "", ("identical", "length_ratio")),
        ("en", "", ("identical", "length_ratio")),
    ],
)
def test_equal_sides_are_kept_within_one_language(source, target, names):
    languages = f"data.source_language={source}", f"data.target_language={target}"
    assert sized(facts(3000), *languages)[0].data.filters == names


def test_what_should_grow_with_the_text_does():
    found = [sized(facts(pairs))[0] for pairs in PAIRS]
    for grows in (
        lambda e: e.data.source_vocab_size,
        lambda e: e.data.max_tokens_per_batch,
        lambda e: e.training.max_steps,
        lambda e: e.training.warmup_updates,
        lambda e: e.training.validation_steps,
        lambda e: e.training.ema_decay,
        lambda e: -e.training.embedding_dropout_rate,
        lambda e: -e.training.label_smoothing,
    ):
        values = [grows(experiment) for experiment in found]
        assert values == sorted(values) and values[0] < values[-1]
    units = [MODELS[preset(facts(pairs)).value].units for pairs in PAIRS]
    assert units == sorted(units) and units[0] < units[-1]


def test_the_recipes_it_is_drawn_from_are_near():
    """Multi30k: 29,000 pairs of 11.5 words. Tatoeba: 162,190 of 6.5."""
    captions = sized(facts(29_000, words=334_000))[0]
    assert captions.data.source_vocab_size == pytest.approx(6000, rel=0.05)
    assert captions.data.max_tokens_per_batch == 1280
    assert captions.training.max_steps == pytest.approx(7800, rel=0.25)  # recipe gold
    assert captions.training.peak_learning_rate == 2.4e-3
    everyday = sized(facts(162_190, words=1_048_000))[0]
    assert everyday.data.max_tokens_per_batch == pytest.approx(2560, rel=0.15)
    assert everyday.training.max_steps == pytest.approx(10_000, rel=0.3)


def test_what_is_set_stays_and_the_rest_is_sized_to_fit():
    experiment, sizes = sized(
        facts(3000), "training.max_steps=600", "data.max_tokens_per_batch=2000"
    )
    training = experiment.training
    assert training.max_steps == 600 and experiment.data.max_tokens_per_batch == 2000
    assert not {"training.max_steps", "data.max_tokens_per_batch"} & set(sizes)
    assert training.warmup_updates == 30 and training.decay_end_updates == 600
    assert training.validation_steps == 150 and training.peak_learning_rate == 2.4e-3
    long = sized(facts(3000), "training.warmup_updates=9000")[0].training
    assert long.warmup_updates == long.decay_start_updates == 9000 < long.decay_end_updates


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        ("training.decay_end_updates=100", "decay_start_updates", 99),
        ("training.decay_end_updates=10", "warmup_updates", 9),
        ("training.decay_start_updates=8", "warmup_updates", 8),
        ("training.final_learning_rate=0.01", "peak_learning_rate", 0.01),
    ],
)
def test_sizes_keep_within_what_is_set(given, name, value):
    experiment, sizes = sized(facts(3000), given)  # or resolving raises
    plain = sized(facts(3000))[1]
    assert getattr(experiment.training, name) == value
    assert sizes[f"training.{name}"].reason != plain[f"training.{name}"].reason


@pytest.mark.parametrize(("sentences", "rate"), [(16, 2.7e-3), (100, 2.4e-3)])
def test_the_rate_is_that_of_the_sentences_of_a_batch(sentences, rate):
    experiment, sizes = sized(facts(29_000), f"data.sentences_per_batch={sentences}")
    assert experiment.training.peak_learning_rate == rate
    tokens = f"{round(sentences * 1.75 * 7):,} tokens"
    assert sizes["training.peak_learning_rate"].reason == f"updates of {tokens}"


def test_a_schedule_that_is_set_gets_the_sizes_that_it_reads():
    fall = {"decay_start_updates", "decay_end_updates", "final_learning_rate"}
    rise = {"warmup_updates", "peak_learning_rate"}
    for schedule, expected in {
        "peak": rise | fall, "inverse_sqrt": rise, "dtmt": set(), "constant": set(),
    }.items():  # fmt: skip
        experiment, sizes = sized(facts(3000), f"training.schedule={schedule}")
        assert experiment.training.schedule == schedule
        assert {name for name in rise | fall if f"training.{name}" in sizes} == expected
    training = sized(facts(3000), "training.schedule=inverse_sqrt")[0].training
    assert training.warmup_updates <= training.max_steps / 10
    assert training.peak_learning_rate == sized(facts(3000))[0].training.peak_learning_rate


def test_batches_of_sentences_and_accumulation_count():
    plain = sized(facts(100_000))[0].training
    four = sized(facts(100_000), "training.accumulation_steps=4")[0].training
    assert four.max_steps == pytest.approx(plain.max_steps / 4, rel=0.1)
    sentences = sized(facts(100_000), "data.sentences_per_batch=100")[0].training
    epochs = 480 / 700_000**0.25
    assert sentences.max_steps == pytest.approx(1000 * epochs, rel=0.1)


@pytest.mark.parametrize("replicas", [1, 2, 8])
@pytest.mark.parametrize("given", [(), ("training.accumulation_steps=3",)])
@pytest.mark.parametrize("pairs", [3000, 30_000, 300_000])
def test_updates_an_epoch_are_those_of_the_plan(replicas, given, pairs):
    found = facts(pairs, replicas=replicas)
    experiment, sizes = sized(found, *given)
    lengths = 1 + np.random.default_rng(1).gamma(3, 1.55 * found.words / pairs / 3, pairs)
    lengths = np.clip(lengths, 3, experiment.data.max_length).astype(int)
    slices = replicas * experiment.training.accumulation_steps
    plan = BatchPlan(experiment.data, lengths, slices, 1)
    said = re.search("about ([0-9,]+) updates", sizes["training.max_steps"].reason)
    assert int(said[1].replace(",", "")) == pytest.approx(plan.batches_per_epoch, rel=0.05, abs=5)


def test_several_devices_share_an_update_and_half_the_tokens_a_device_keep_it():
    captions = facts(29_000, words=334_000)
    alone = sized(captions)[0]
    for given in (), (f"data.max_tokens_per_batch={alone.data.max_tokens_per_batch // 2}",):
        both = sized(dataclasses.replace(captions, replicas=2), *given)[0]
        assert both.data.max_tokens_per_batch == 640 == alone.data.max_tokens_per_batch / 2
        assert both.training == alone.training
    for replicas in (8, 100):
        many = sized(dataclasses.replace(captions, replicas=replicas))[0]
        assert many.data.max_tokens_per_batch == 640
        assert many.training.max_steps < alone.training.max_steps / 2


def test_another_schedule_is_left_alone_and_settings_of_one_are_not_ignored():
    experiment, sizes = sized(facts(3000), "training.schedule=dtmt", "training.learning_rate=2e-4")
    assert experiment.training.schedule == "dtmt"
    assert "training.warmup_updates" not in sizes and "training.max_steps" in sizes
    with pytest.raises(UserError, match=r"training.learning_rate .* training.schedule=dtmt"):
        sized(facts(3000), "training.learning_rate=2e-4")


def test_pairs_are_held_out_if_none_are_for_validation():
    for pairs, held_out in ((1, 0), (2, 1), (9, 1), (3000, 300), (10**6, 1000)):
        assert sized(facts(pairs, has_validation=False))[0].data.held_out == held_out
    assert sized(facts(3000))[0].data.held_out == DataConfig().held_out == 0


def test_alphabet_length_and_processor_count():
    chinese, sizes = sized(facts(23_000, alphabet=3000))
    assert chinese.data.character_coverage == 1 and "data.character_coverage" not in sizes
    apart = "data.joint_vocabulary=false"
    for alphabet, given in (
        (2000, ()),
        (1000, ("data.source_vocab_size=1900",)),
        (1000, ("data.target_vocab_size=1900", apart)),
    ):
        found, sizes = sized(facts(3000, alphabet=alphabet), *given)
        assert found.data.character_coverage == 0.9995
        assert f"{alphabet:,} different" in sizes["data.character_coverage"].reason
    unused = sized(facts(3000, alphabet=1000), "data.target_vocab_size=1900")[0]
    assert unused.data.character_coverage == 1
    others = sized(facts(23_000))[0].data.source_vocab_size
    assert math.isclose(chinese.data.source_vocab_size, others + 2910, abs_tol=50)
    for longest, most in ((3, 40), (24, 50), (70, 140), (900, 256)):
        assert sized(facts(3000, longest=longest))[0].data.max_length == most
    for has, precision in ((True, "bfloat16"), (False, "float32")):
        assert sized(facts(3000, has_bfloat16=has))[0].training.precision == precision


def test_each_rule_says_where_it_comes_from_and_names_a_setting():
    kinds = DataConfig, TrainingConfig, DecodingConfig
    fields = {f"{kind.section}.{item.name}" for kind in kinds for item in dataclasses.fields(kind)}
    assert set(RULES) <= fields
    assert sized(facts(3000))[0].decoding.min_length == 1  # no line is left out


def test_a_small_text_has_room_for_its_characters_bytes_and_reserved_symbols():
    given = "data.byte_fallback=true", "data.reserved_symbols=<a>,<b>"
    experiment, _ = sized(facts(1, alphabet=1), *given)
    assert experiment.data.source_vocab_size == 3 + 1 + 1 + 2 + 256
    assert train_subwords(["-"] * 9, experiment.data.source_vocab_size, experiment.data)
