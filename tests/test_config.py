import dataclasses

import pytest

from dtmt_tf.config import EOS_ID, PAD_ID, UNK_ID, DataConfig, DecodingConfig, TrainingConfig
from dtmt_tf.experiment import SECTIONS, parse_override
from tests.toy_experiment import TASK, ToyConfig, message, resolved

# Overrides.


@pytest.mark.parametrize(
    "override, value",
    [
        ("model.units=512", 512),
        ("training.max_steps=50_000", 50_000),
        ("training.seed=12", 12),
        ("model.context_dim=32", 32),
        ("model.context_dim=none", None),
        ("model.context_dim=None", None),
        ("model.initializer_range=0.5", 0.5),
        ("training.learning_rate=1e-3", 0.001),
        ("training.clip_norm=5", 5.0),
        ("model.cell=gru", "gru"),
        ("data.test_source=a=b", ("a=b",)),
        ("data.source_language=pt-BR", "pt-BR"),
        ("data.source_language=", ""),
        ("data.train_source=a.en", ("a.en",)),
        ("data.train_source=b.en,a=1.en", ("b.en", "a=1.en")),
        ("data.train_source=", ()),
        ("data.extra_tests=wmt/newstest2013", ("wmt/newstest2013",)),
        ("evaluation.tokenize=none", "none"),  # a text, not None
        ("model.use_layer_norm=false", False),
        ("model.use_layer_norm=False", False),
        ("model.use_layer_norm=0", False),
        ("evaluation.lowercase=true", True),
        ("evaluation.lowercase=TRUE", True),
        ("evaluation.lowercase=1", True),
    ],
)
def test_an_override_is_read_by_the_type_of_its_setting(override, value):
    sections = {name: getattr(TASK, name) for name in SECTIONS[1:]} | {"model": ToyConfig()}
    key, read = parse_override(override, sections)
    assert key == override.partition("=")[0]
    assert read == value and type(read) is type(value)
    experiment, origins = resolved(override)
    section, name = key.split(".")
    assert getattr(getattr(experiment, section), name) == value
    assert origins[key] == "--set"


@pytest.mark.parametrize(
    "override, kind",
    [
        ("model.units=many", "int"),
        ("model.units=1.5", "int"),
        ("model.units=", "int"),
        ("model.units=none", "int"),
        ("model.context_dim=wide", "int"),
        ("training.learning_rate=fast", "float"),
        ("model.use_layer_norm=yes", "bool"),
        ("model.use_layer_norm=", "bool"),
    ],
)
def test_a_value_of_another_type_is_refused_by_name(override, kind):
    key, _, value = override.partition("=")
    assert message(override) == f"`{key}` should be of type {kind}. Received: {value!r}."


@pytest.mark.parametrize(
    "override, hint",
    [
        ("model.unit=5", "Did you mean 'model.units'?"),
        ("training.learningrate=5", "Did you mean 'training.learning_rate'?"),
        ("modle.units=5", "Did you mean 'model.units'?"),
        ("beam_size=5", "Did you mean 'decoding.beam_size'?"),
        ("xyzzy=5", "--show-config lists them all."),
    ],
)
def test_an_unknown_setting_stops_the_run_and_gets_a_suggestion(override, hint):
    key = override.partition("=")[0]
    assert message(override) == f"Unknown setting {key!r}. {hint}"


@pytest.mark.parametrize(
    ("override", "architectures"),
    [
        ("model.fusion=stack", "RecurrenceTransformer"),
        ("model.filter_dim=8", "Transformer and RecurrenceTransformer"),
    ],
)
def test_a_setting_of_another_architecture_is_told_so(override, architectures):
    key = override.partition("=")[0]
    advice = "not of this model. --model names another."
    assert message(override) == f"{key} is a setting of {architectures}, {advice}"


def test_sections_are_no_settings():
    assert message("model=x").startswith("Unknown setting 'model'.")
    assert message("task=x").startswith("Unknown setting 'task'.")


@pytest.mark.parametrize("override", ["model.units", "", "model.units:5"])
def test_an_override_needs_an_equals_sign(override):
    assert message(override) == f"--set takes section.name=value. Received: {override!r}."


def test_the_last_override_wins():
    experiment, _ = resolved("model.units=16", "model.num_heads=4", "model.units=32")
    assert (experiment.model.units, experiment.model.num_heads) == (32, 4)


def test_overrides_leave_task_and_preset_alone():
    model = ToyConfig()
    resolved("model.units=16", "data.max_length=8", model=model)
    assert (model.units, TASK.data.max_length) == (8, 64)


def test_without_overrides_the_experiment_is_task_and_preset():
    experiment, _ = resolved()
    assert (experiment.task, experiment.model_name) == ("toy", "toy8")
    assert experiment.model == ToyConfig()
    for section in SECTIONS[1:]:
        assert getattr(experiment, section) == getattr(TASK, section)


# Ranges.


@pytest.mark.parametrize(
    "override, limit",
    [
        ("data.corpus=web", "files, cldr or tfds"),
        ("data.source_vocab_size=3", "at least 4"),
        ("data.target_vocab_size=0", "at least 4"),
        ("data.max_length=3", "at least 4"),
        ("data.normalization=nfc", "identity, nfkc, nfkc_cf, nmt_nfkc or nmt_nfkc_cf"),
        ("data.max_tokens_per_batch=7", "at least 8"),
        ("training.label_smoothing=1", "[0, 1)"),
        ("training.label_smoothing=-0.1", "[0, 1)"),
        ("training.embedding_dropout_rate=1.0", "[0, 1)"),
        ("training.output_dropout_rate=2", "[0, 1)"),
        ("training.candidate_dropout_rate=nan", "[0, 1)"),
        ("training.max_steps=0", "at least 1"),
        ("training.accumulation_steps=0", "at least 1"),
        ("training.schedule_replicas=0", "at least 1"),
        ("training.schedule_warmup=0", "at least 1"),
        ("training.validation_steps=0", "at least 1"),
        ("training.keep_last=0", "at least 1"),
        ("training.keep_best=0", "at least 1"),
        ("training.average_count=0", "at least 1"),
        ("training.log_steps=-1", "at least 1"),
        ("training.average=worst", "best, last or none"),
        ("decoding.beam_size=0", "at least 1"),
        ("decoding.batch_size=0", "at least 1"),
        ("decoding.length_penalty=-0.1", "at least 0 and at most 10"),
        ("decoding.extra_length=-1", "at least 0"),
        ("decoding.extra_length=2147483648", "at most 10,000"),
        ("decoding.length_penalty=inf", "at most 10"),
        ("data.max_length=1000000000", "at most 10,000"),
        ("data.max_tokens_per_batch=99999999999", "at most 10,000,000"),
        ("training.seed=-1", "at least 0"),
        ("training.seed=2147483648", "at least 0 and at most 2,147,483,647"),
        ("training.seed=99999999999999999999999", "at most 2,147,483,647"),
        ("training.max_steps=9223372036854775808", "at least 1 and at most 2,147,483,647"),
        ("training.r_drop_alpha=inf", "at least 0 and at most 1,000"),
        ("training.clip_norm=inf", "above 0 and finite"),
        ("training.clip_norm=0", "above 0"),
        ("training.learning_rate=0", "above 0 and at most 1,000"),
        ("training.learning_rate=nan", "above 0 and at most 1,000"),
        ("decoding.precision=float16", "float32 or bfloat16"),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(override, limit):
    key, _, value = override.partition("=")
    text = message(override)
    assert text.startswith(f"`{key}` should ") and limit in text
    received = text.split("Received: ")[1].strip(".'")
    assert received == value or float(received) == float(value) or value == "nan"


@pytest.mark.parametrize(
    "missing", ["data.tfds_name=", "data.source_language=", "data.target_language="]
)
def test_a_public_corpus_needs_a_name_and_languages(missing):
    public = [
        *("data.corpus=tfds", "data.tfds_name=wmt14_translate/de-en"),
        *("data.source_language=en", "data.target_language=de"),
    ]
    assert resolved(*public)[0].data.tfds_name == "wmt14_translate/de-en"
    text = message(*public, missing)
    assert text.startswith("`data.corpus=tfds` needs `data.tfds_name`") and "''" in text


@pytest.mark.parametrize(
    "override",
    [
        "data.source_vocab_size=4",
        "data.max_length=4",
        "data.max_tokens_per_batch=8",
        "training.label_smoothing=0",
        "training.label_smoothing=0.999",
        "training.max_steps=1",
        "training.schedule_decay_start=0",
        "decoding.beam_size=1",
        "decoding.length_penalty=0",
        "decoding.extra_length=0",
    ],
)
def test_the_edges_of_a_range_are_allowed(override):
    resolved(override)


def test_decay_ends_after_it_starts():
    text = message("training.schedule_decay_start=10", "training.schedule_decay_end=10")
    assert "`training.schedule_decay_start` should be below `training.schedule_decay_end`" in text
    assert text.endswith("Received: 10 and 10.")
    # Together they fit, whatever they were before, in either order.
    for values in (("3000000", "4000000"), ("1", "2")):
        pair = [f"training.schedule_decay_{end}={v}" for end, v in zip(("start", "end"), values,
                                                                       strict=True)]  # fmt: skip
        resolved(*pair)
        resolved(*pair[::-1])


@pytest.mark.parametrize("average", ["best", "last"])
def test_no_more_checkpoints_are_averaged_than_kept(average):
    keep, count = f"training.keep_{average}=3", "training.average_count=4"
    text = message(f"training.average={average}", keep, count)
    assert f"`training.average_count` should be at most `training.keep_{average}`" in text
    assert text.endswith("Received: 4 and 3.")
    resolved(f"training.average={average}", keep, "training.average_count=3")
    resolved("training.average=none", keep, count)


def test_pairs_are_held_out_of_named_files():
    text = message("data.held_out=9", "data.corpus=tfds", "data.tfds_name=a/b")
    assert text.endswith("data.corpus=tfds has validation pairs of its own.")
    resolved("data.held_out=9", "data.train_source=a.en", "data.train_target=a.de")


def test_extra_tests_need_the_languages_their_files_end_on():
    text = message("data.extra_tests=news", "data.target_language=")
    assert text.endswith("two codes to end in. Received: 'en' and ''.")
    text = message("data.extra_tests=news", "data.target_language=en")
    assert text.endswith("two codes to end in. Received: 'en' and 'en'.")
    assert resolved("data.extra_tests=news")[0].data.extra_tests == ("news",)


def test_settings_can_not_be_assigned():
    experiment, _ = resolved()
    for target, name in ((experiment, "task"), (experiment.model, "units")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(target, name, 1)


# Defaults that the paper and the notes give.


def test_special_ids_are_those_of_the_notes():
    assert (PAD_ID, EOS_ID, UNK_ID) == (0, 1, 2)


def test_defaults_of_the_paper():
    decoding, training, data = DecodingConfig(), TrainingConfig(), DataConfig()
    assert (decoding.beam_size, decoding.length_penalty, decoding.extra_length) == (4, 0.6, 50)
    assert decoding.batch_size == 32
    assert (data.max_length, data.max_tokens_per_batch) == (256, 4096)
    assert (training.label_smoothing, training.clip_norm) == (0.1, 5.0)
    assert (training.adam_beta_1, training.adam_beta_2, training.adam_epsilon) == (
        0.9, 0.999, 1e-6,
    )  # fmt: skip
    assert (  # WMT En-De: peak 8e-4 after 400 updates, decay from 25,000, halved at 150,000
        training.learning_rate,
        training.schedule_replicas,
        training.schedule_warmup,
        training.schedule_decay_start,
        training.schedule_decay_end,
    ) == (1e-4, 8, 50, 200_000, 1_200_000)
