"""Settings files: any part of what `--show-config` prints, and nothing else."""

import json
import re
from pathlib import Path

import pytest
import yaml

from dtmt_tf.errors import UserError
from dtmt_tf.experiment import SECTIONS, resolve, show, to_dict
from dtmt_tf.files import write_json
from dtmt_tf.settings_file import SettingsFile, as_yaml, read_settings_file
from tests.toy_experiment import TASK, ToyConfig, resolved


@pytest.fixture
def read(tmp_path):
    """Reads a settings file of a text or of bytes."""

    def from_text(text):
        path = tmp_path / "run.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_settings_file(path, SECTIONS)

    return from_text


def applied(file, *overrides):
    return resolve(TASK, "toy8", ToyConfig(), overrides, file)


def message(call):
    with pytest.raises(UserError) as error:
        call()
    return re.sub(r"\S*/run\.yaml", "run.yaml", str(error.value))


def test_a_file_may_set_any_part_with_comments_and_whole_names(read):
    file = read(
        "# mine\ntask: toy  # a task\n"
        "model:\n  units: 16\n  context_dim: null\n  use_layer_norm: false\n"
        "training: {learning_rate: 3e-5, seed: 1_000}\n"
        "data.train_source: [a.en, 'b,c.en']\n"
        "data:\n  train_target: a.de,b.de\n  source_language: no\n"
        "decoding:\n"
    )
    assert file.names == {"task": "toy"}
    assert file.places == {"task": f"{file.path}:2"}
    experiment, origins = applied(file)
    assert experiment.model == ToyConfig(units=16, context_dim=None, use_layer_norm=False)
    assert (experiment.training.learning_rate, experiment.training.seed) == (3e-5, 1000)
    assert experiment.data.train_source == ("a.en", "b,c.en")
    assert experiment.data.train_target == ("a.de", "b.de")
    assert experiment.data.source_language == "no"  # Norwegian, not false
    assert origins["model.units"] == origins["training.seed"] == "run.yaml"
    assert origins["data.max_length"] == "task toy"


def test_set_comes_after_the_file(read):
    experiment, origins = applied(read("model: {units: 16, num_heads: 4}"), "model.units=32")
    assert (experiment.model.units, experiment.model.num_heads) == (32, 4)
    assert (origins["model.units"], origins["model.num_heads"]) == ("--set", "run.yaml")


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "model:\ndata:\n"])
def test_an_empty_file_changes_nothing(read, text):
    assert applied(read(text)) == resolved()


@pytest.mark.parametrize(
    "overrides",
    [
        (),
        ("model.context_dim=5", "model.use_layer_norm=false", "training.adam_epsilon=1e-9"),
        ("data.train_source=a.en,b.en", "data.train_target=a.de,b.de", "data.test_source=c: d"),
        ("data.reverse=true", "data.train_source=a.en", "data.train_target=a.de"),
        ("data.tfds_name=null", "data.source_language=no", "data.test_source=#x,y z"),
    ],
)
def test_what_is_shown_can_be_read_again(read, overrides):
    experiment, origins = resolved(*overrides)
    again, _ = applied(read(show(experiment, origins)))
    assert again == experiment


@pytest.fixture
def run(tmp_path):
    """Returns a run's folder with the settings that some overrides lead to."""

    def of(*overrides):
        experiment, origins = resolved(*overrides)
        saved = {"origins": origins, "settings": to_dict(experiment), "versions": {}}
        write_json(tmp_path / "base" / "train" / "experiment.json", saved)
        return tmp_path / "base", experiment

    return of


@pytest.mark.parametrize(
    "overrides",
    [
        ("model.units=12", "model.context_dim=5", "training.adam_epsilon=1e-9"),
        ("data.train_source=\U0001f415 a.en,b.en", "data.train_target=a.de,b.de"),
        ("data.reverse=true", "data.train_source=a.en", "data.train_target=a.de",
         "data.source_vocab_size=300", "data.joint_vocabulary=false"),
        ("data.reverse=true", "data.source_vocab_size=300", "data.joint_vocabulary=true"),
    ],
)  # fmt: skip
def test_a_run_is_trained_again_by_its_folder_or_its_file(run, overrides, monkeypatch):
    folder, experiment = run(*overrides)
    for place in folder, folder / "train" / "experiment.json":
        file = read_settings_file(place, SECTIONS)
        assert file.names == {"task": "toy", "model_name": "toy8"}
        again, origins = applied(file)
        assert again == experiment
        assert set(origins.values()) == {"run base"}
    for within, place in (("train", "experiment.json"), ("", ".")):
        monkeypatch.chdir(folder / within)
        assert read_settings_file(Path(place), SECTIONS).origin == "run base"
    copy = folder / "copy.json"
    copy.write_bytes((folder / "train" / "experiment.json").read_bytes())
    assert read_settings_file(copy, SECTIONS).origin == "copy.json"
    at_the_root = SettingsFile(Path("/experiment.json"), {}, (), {}, of_run=True)
    assert at_the_root.origin == "experiment.json"
    changed, origins = applied(file, "model.units=16")
    assert (changed.model.units, origins["model.units"]) == (16, "--set")


def test_json_may_be_indented_by_tabs(tmp_path):
    path = tmp_path / "tabs.json"
    path.write_text(json.dumps({"model": {"units": 12}}, indent="\t"))
    (setting,) = read_settings_file(path, SECTIONS).entries
    assert (setting.key, setting.value) == ("model.units", "12")


def test_another_task_or_model_can_not_have_all_settings_of_a_run(run, read):
    file = read_settings_file(run()[0], SECTIONS)
    own = {"task": "toy", "model_name": "toy8"}
    assert file.with_names({}) == file.with_names(own) == own
    for name, value in (("task", "other"), ("model_name", "toy16")):
        with pytest.raises(
            UserError, match=f"settings of run base, whose {name} is .* not {value}"
        ):
            file.with_names({name: value})
    assert read("task: toy").with_names({"task": "other"}) == {"task": "other"}


def test_what_an_older_run_does_not_know_is_its_default_whatever_the_preset_says_now(run):
    folder, _ = run()
    path = folder / "train" / "experiment.json"
    saved = json.loads(path.read_text("utf-8"))
    del saved["settings"]["model"]["num_heads"], saved["settings"]["data"]["reverse"]
    write_json(path, saved)
    now = ToyConfig(num_heads=4)
    again, origins = resolve(TASK, "toy8", now, file=read_settings_file(folder, SECTIONS))
    assert (again.model.num_heads, again.data.reverse) == (ToyConfig().num_heads, False)
    assert origins["model.num_heads"] == "default"


def test_a_folder_without_a_run_and_a_damaged_run_are_told(run, tmp_path):
    with pytest.raises(UserError, match=rf"^{tmp_path} is neither a file of settings nor a run's"):
        read_settings_file(tmp_path, SECTIONS)
    folder, _ = run()
    path = folder / "train" / "experiment.json"
    path.write_text(path.read_text("utf-8").replace('"units": 8', '"units": "x"'), "utf-8")
    with pytest.raises(UserError, match=r"experiment\.json:\d+: `model.units` should be of type"):
        applied(read_settings_file(folder, SECTIONS))
    path.write_text(path.read_text("utf-8")[:99], "utf-8")
    with pytest.raises(UserError, match=r"experiment\.json is damaged: "):
        read_settings_file(folder, SECTIONS)


def test_another_reader_of_yaml_finds_the_same_values():
    values = yaml.safe_load(show(*resolved("training.adam_epsilon=1e-9", "data.tfds_name=1.0")))
    assert values["training"]["adam_epsilon"] == 1e-9
    assert values["data"]["tfds_name"] == "1.0"
    assert values["model"] == {
        "units": 8, "num_heads": 2, "context_dim": None, "cell": "lgru", "use_layer_norm": True,
        "initializer_range": 0.08,
    }  # fmt: skip


@pytest.mark.parametrize(
    "text, told",
    [
        ("model: {unit: 5}", "run.yaml:1: Unknown setting 'model.unit'. Did you mean"),
        ("\n\nmodel:\n  units: many\n", "run.yaml:4: `model.units` should be of type int."),
        ("model:\n  units: [1, 2]\n", "run.yaml:2: `model.units` should be one value."),
        ("model:\n  units:\n    a: 1\n", "run.yaml:2: a value or a list of them should stand"),
        ("modle:\n  units: 5\n", "run.yaml:1: unknown section 'modle'. Did you mean 'model'?"),
        ("xyzzy: 5\n", "run.yaml:1: unknown section 'xyzzy'. There are model, data"),
        ("model: 5\n", "run.yaml:1: `name: value` should stand here."),
        ("model: dtmt_small\n", "run.yaml:1: `name: value` should stand here. A preset's name"),
        ("data: dtmt_small\n", "run.yaml:1: `name: value` should stand here."),
        ("- model\n", "run.yaml:1: `name: value` should stand here."),
        ("model:\n  units: 5\n  units: 6\n", "run.yaml:3: model.units is set twice."),
        ("model.units: 5\nmodel:\n  units: 6\n", "run.yaml:3: model.units is set twice."),
        ("task: a\ntask: b\n", "run.yaml:2: task is named twice."),
        ("task: [a]\n", "run.yaml:1: task should be a name."),
        ("[a]: b\n", "run.yaml:1: a name should stand here."),
        ("model: {units: 5\n", "run.yaml is no YAML: "),
        ("a: b: c\n", "run.yaml is no YAML: mapping values are not allowed here in line 1."),
        (b"\xff\xfe\xff", "run.yaml is no YAML: "),
        (b"model:\n  cell: \xff\n", "run.yaml is no YAML: "),
        (r'a: "\U00110000"', "run.yaml is no YAML: "),
        (r'a: "\UFFFFFFFF"', "run.yaml is no YAML: "),
        ("decoding:\n  beam_size: 0\n", "`decoding.beam_size` should be at least 1"),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "bytes",
)
def test_what_is_wrong_is_named_with_its_line(read, text, told):
    assert message(lambda: applied(read(text))).startswith(told)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UserError, match=r"Cannot read .*none\.yaml: No such file"):
        read_settings_file(tmp_path / "none.yaml", SECTIONS)
    with pytest.raises(
        UserError, match=r"none: No such file .*\. To name a run, give its folder\."
    ):
        read_settings_file(tmp_path / "none", SECTIONS)


@pytest.mark.parametrize(
    "value, text",
    [
        *((1, "1"), (1e-6, "1.0e-06"), (0.1, "0.1"), (True, "true"), (None, "null")),
        *(("a b", "a b"), ("no", "'no'"), ("", "''"), ("ä: b", "'ä: b'")),
        (["a", "b c"], "[a, b c]"),
        *(([], "[]"), ("x" * 200, "x" * 200)),
    ],
)  # fmt: skip
def test_values_stand_in_one_line(value, text):
    assert as_yaml(value) == text
    assert yaml.safe_load(text) == value
