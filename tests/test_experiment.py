import dataclasses
import json

import pytest

from dtmt_tf.config import DecodingConfig, EvaluationConfig
from dtmt_tf.errors import UserError
from dtmt_tf.experiment import LATER, SECTIONS, defaults, from_dict, presets, show, to_dict
from dtmt_tf.settings import as_lines, differences
from tests.toy_experiment import TASK, ToyConfig, resolved

# The other direction.


def test_reverse_exchanges_the_sides_and_nothing_else():
    files = ["data.train_source=a.en,b.en", "data.train_target=a.de,b.de",
             "data.validation_source=v.en", "data.validation_target=v.de",
             "data.test_source=t.en", "data.test_target=t.de",
             "data.source_vocab_size=11", "data.target_vocab_size=22",
             "data.joint_vocabulary=false", "data.extra_tests=news"]  # fmt: skip
    forward, _ = resolved(*files)
    backward, _ = resolved(*files, "data.reverse=true")
    assert as_lines(differences(to_dict(forward), to_dict(backward))) == [
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
    assert differences(json.loads(text), to_dict(experiment)) == {}


def test_settings_of_another_version_are_refused():
    values = to_dict(resolved()[0])
    values["training"]["momentum"] = 0.9
    with pytest.raises(UserError, match=r"do not fit this version.*momentum"):
        from_dict(values, ToyConfig)


@pytest.mark.parametrize("missing", sorted({*SECTIONS, "task", "model_name"} - set(LATER)))
def test_a_missing_section_is_refused_by_name(missing):
    values = to_dict(resolved()[0])
    del values[missing]
    with pytest.raises(UserError, match=f"do not fit this version.*{missing}"):
        from_dict(values, ToyConfig)


def test_a_setting_that_an_earlier_version_did_not_have_is_its_default():
    experiment = resolved("training.seed=7")[0]
    values = to_dict(experiment)
    del values["training"]["adam_beta_1"]
    assert from_dict(values, ToyConfig) == experiment
    del values["export"]
    assert from_dict(values, ToyConfig) == experiment
    del values["training"]["seed"]
    assert from_dict(values, ToyConfig).training.seed == 1
    assert defaults(ToyConfig)["training"]["seed"] == 1


def test_saved_values_out_of_range_are_refused():
    values = to_dict(resolved()[0])
    values["decoding"]["beam_size"] = 0
    with pytest.raises(UserError, match=r"`decoding.beam_size` should be at least 1"):
        from_dict(values, ToyConfig)


def test_differences_are_listed_by_name():
    old = to_dict(resolved()[0])
    new = to_dict(resolved("model.units=16", "model.context_dim=4", "data.max_length=8")[0])
    assert differences(old, old) == {}
    assert as_lines(differences(old, new)) == [
        "model.units: 8 -> 16",
        "model.context_dim: None -> 4",
        "data.max_length: 64 -> 8",
    ]
    assert differences(new, old)["model.units"] == "16 -> 8"


def test_differences_include_settings_of_one_side_only():
    old, new = to_dict(resolved()[0]), to_dict(resolved()[0])
    del old["decoding"]["beam_size"]
    new["evaluation"]["extra"] = True
    assert as_lines(differences(old, new)) == [
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
    assert lines[2:4] == ["task: toy", "model_name: toy8"]
    assert len([line for line in lines if "  # " in line[2:]]) == len(origins)
    for line in (
        "model:",
        "  units: 8  # default",
        "  context_dim: 4  # --set",
        "  max_length: 64  # task toy",
        "  source_language: en  # task toy",
        "  lowercase: true  # --set",
        "  length_penalty: 0.6  # default",
        "  test_source: []  # default",
    ):
        assert line in lines


def test_presets_are_listed_with_what_is_not_their_default():
    models = {"plain": ToyConfig(), "wide_and_long": ToyConfig(units=16, use_layer_norm=False)}
    assert presets(models).splitlines() == [
        "An architecture with a setting of every type.",
        "  plain          the defaults",
        "  wide_and_long  units=16 use_layer_norm=false",
    ]


def test_show_says_what_each_setting_means_above_it():
    lines = show(*resolved("data.train_source=a.en,b.en")).splitlines()
    assert lines[lines.index("  label_smoothing: 0.1  # default") - 1].startswith("  # share of")
    place = lines.index("  train_source:  # --set")
    assert lines[place - 1].startswith("  # plain, .gz or .xz")
    assert lines[place + 1 : place + 3] == ["    - a.en", "    - b.en"]
    assert max(map(len, lines)) <= 80


def test_a_task_has_the_usual_decoding_and_evaluation():
    assert (TASK.decoding, TASK.evaluation) == (DecodingConfig(), EvaluationConfig())
    assert (TASK.files, TASK.unavailable) == ((), "")


@pytest.mark.parametrize("nothing", ["", "none", "null", "~"])
def test_a_list_of_nothing_is_empty(nothing):
    found, _ = resolved("data.reserved_symbols=a", f"data.reserved_symbols={nothing}")
    assert found.data.reserved_symbols == ()
