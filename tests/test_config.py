import dataclasses
import json
from dataclasses import dataclass

import pytest

from dtmt_tf.config import (
    EOS_ID,
    PAD_ID,
    UNK_ID,
    DataConfig,
    DecodingConfig,
    EvaluationConfig,
    ModelConfig,
    Task,
    TrainingConfig,
    differences,
)
from dtmt_tf.errors import UserError
from dtmt_tf.experiment import SECTIONS, from_dict, parse_override, resolve, show, to_dict


@dataclass(frozen=True)
class ToyConfig(ModelConfig):
    """An architecture with a setting of every type."""

    units: int = 8
    num_heads: int = 2
    context_dim: int | None = None
    cell: str = "lgru"
    use_layer_norm: bool = True
    initializer_range: float = 0.08

    def build(self, source_vocab_size, target_vocab_size, training):
        return None


TASK = Task(
    name="toy",
    description="Nothing",
    model="toy8",
    data=DataConfig(source_language="en", target_language="de", max_length=64),
    training=TrainingConfig(max_steps=100, average="none"),
)


def resolved(*overrides, task=TASK, model=None):
    return resolve(task, "toy8", ToyConfig() if model is None else model, overrides)


def message(*overrides):
    with pytest.raises(UserError) as error:
        resolved(*overrides)
    return str(error.value)


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
        ("data.source_language=a=b", "a=b"),
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
        ("data.corpus=web", "files or cldr"),
        ("data.source_vocab_size=3", "at least 4"),
        ("data.target_vocab_size=0", "at least 4"),
        ("data.max_length=3", "at least 4"),
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
        ("decoding.length_penalty=-0.1", "not be negative"),
        ("decoding.extra_length=-1", "not be negative"),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(override, limit):
    key, _, value = override.partition("=")
    text = message(override)
    assert text.startswith(f"`{key}` should ") and limit in text
    received = text.split("Received: ")[1].strip(".'")
    assert received == value or float(received) == float(value) or value == "nan"


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


def test_extra_tests_need_the_languages_their_files_end_on():
    text = message("data.extra_tests=news", "data.target_language=")
    assert text.endswith("on which its files end. Received: 'en' and ''.")
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


# The other direction.


def test_reverse_exchanges_the_sides_and_nothing_else():
    files = ["data.train_source=a.en,b.en", "data.train_target=a.de,b.de",
             "data.validation_source=v.en", "data.validation_target=v.de",
             "data.test_source=t.en", "data.test_target=t.de",
             "data.source_vocab_size=11", "data.target_vocab_size=22",
             "data.joint_vocabulary=false", "data.extra_tests=news"]  # fmt: skip
    forward, _ = resolved(*files)
    backward, _ = resolved(*files, "data.reverse=true")
    assert differences(to_dict(forward), to_dict(backward)) == [
        "data.source_language: en -> de",
        "data.target_language: de -> en",
        "data.reverse: False -> True",
        "data.train_source: ['a.en', 'b.en'] -> ['a.de', 'b.de']",
        "data.train_target: ['a.de', 'b.de'] -> ['a.en', 'b.en']",
        "data.validation_source: ['v.en'] -> ['v.de']",
        "data.validation_target: ['v.de'] -> ['v.en']",
        "data.test_source: ['t.en'] -> ['t.de']",
        "data.test_target: ['t.de'] -> ['t.en']",
        "data.source_vocab_size: 11 -> 22",
        "data.target_vocab_size: 22 -> 11",
    ]


def test_a_joint_vocabulary_keeps_its_size_when_reversed():
    data = resolved("data.reverse=true", "data.source_vocab_size=11")[0].data
    assert (data.joint_vocabulary, data.source_vocab_size) == (True, 11)


def test_a_reversed_setting_brings_its_origin():
    _, origins = resolved("data.reverse=true", "data.train_source=a.en")
    assert origins["data.train_target"] == "--set"
    assert origins["data.train_source"] == "default"
    assert origins["data.source_language"] == "task toy"


def test_a_saved_reversed_experiment_is_not_reversed_again():
    experiment, _ = resolved("data.reverse=true")
    assert from_dict(json.loads(json.dumps(to_dict(experiment))), ToyConfig) == experiment


# JSON, differences, show.


@pytest.mark.parametrize(
    "overrides",
    [
        (),
        ("model.context_dim=5", "model.use_layer_norm=false", "training.learning_rate=3e-5"),
        ("data.train_source=a.en,b.en", "data.test_source=c.en"),
    ],
)
def test_an_experiment_survives_json(overrides):
    experiment, _ = resolved(*overrides)
    text = json.dumps(to_dict(experiment))
    assert from_dict(json.loads(text), ToyConfig) == experiment
    assert differences(json.loads(text), to_dict(experiment)) == []


def test_settings_of_another_version_are_refused():
    values = to_dict(resolved()[0])
    values["training"]["momentum"] = 0.9
    with pytest.raises(UserError, match=r"do not fit this version.*momentum"):
        from_dict(values, ToyConfig)


@pytest.mark.parametrize("missing", [*SECTIONS, "task", "model_name"])
def test_a_missing_section_is_refused_by_name(missing):
    values = to_dict(resolved()[0])
    del values[missing]
    with pytest.raises(UserError, match=f"do not fit this version.*{missing}"):
        from_dict(values, ToyConfig)


def test_a_missing_setting_is_refused():
    values = to_dict(resolved("training.seed=7")[0])
    del values["training"]["seed"]
    with pytest.raises(UserError, match="do not fit this version.*seed"):
        from_dict(values, ToyConfig)


def test_saved_values_out_of_range_are_refused():
    values = to_dict(resolved()[0])
    values["decoding"]["beam_size"] = 0
    with pytest.raises(UserError, match=r"`decoding.beam_size` should be at least 1"):
        from_dict(values, ToyConfig)


def test_differences_are_listed_by_name():
    old = to_dict(resolved()[0])
    new = to_dict(resolved("model.units=16", "model.context_dim=4", "data.max_length=8")[0])
    assert differences(old, old) == []
    assert differences(old, new) == [
        "model.units: 8 -> 16",
        "model.context_dim: None -> 4",
        "data.max_length: 64 -> 8",
    ]
    assert differences(new, old)[0] == "model.units: 16 -> 8"


def test_differences_include_settings_of_one_side_only():
    old, new = to_dict(resolved()[0]), to_dict(resolved()[0])
    del old["decoding"]["beam_size"]
    new["evaluation"]["extra"] = True
    assert differences(old, new) == [
        "decoding.beam_size: None -> 4",
        "evaluation.extra: None -> True",
    ]


def test_origins_say_who_gave_each_setting():
    experiment, origins = resolved("model.num_heads=4", model=ToyConfig(units=16))
    names = {
        f"{section}.{item.name}"
        for section in SECTIONS
        for item in dataclasses.fields(getattr(experiment, section))
    }
    assert set(origins) == names
    given = {name: origin for name, origin in origins.items() if origin != "default"}
    assert given == {
        "model.units": "model toy8",
        "model.num_heads": "--set",
        "data.source_language": "task toy",
        "data.target_language": "task toy",
        "data.max_length": "task toy",
        "training.max_steps": "task toy",
        "training.average": "task toy",
    }


def test_an_override_equal_to_the_default_still_says_so():
    assert resolved("model.units=8")[1]["model.units"] == "--set"


def test_show_lists_every_setting_with_its_origin():
    experiment, origins = resolved("model.context_dim=4", "evaluation.lowercase=true")
    lines = show(experiment, origins).splitlines()
    assert lines[:2] == ["task = toy", "model = toy8"]
    assert len(lines) == 2 + len(origins)
    for line in (
        "model.units = 8  # default",
        "model.context_dim = 4  # --set",
        "data.max_length = 64  # task toy",
        'data.source_language = "en"  # task toy',
        "evaluation.lowercase = true  # --set",
        "decoding.length_penalty = 0.6  # default",
    ):
        assert line in lines


def test_a_task_has_the_usual_decoding_and_evaluation():
    assert (TASK.decoding, TASK.evaluation) == (DecodingConfig(), EvaluationConfig())
    assert (TASK.files, TASK.unavailable) == ((), "")
