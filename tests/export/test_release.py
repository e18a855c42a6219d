"""A version is published whole, tried, once, or not at all."""

import json
import logging
import os
import shutil
import subprocess
import sys
from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf

from dtmt_tf.config import DataConfig, DecodingConfig, ExportConfig, TrainingConfig
from dtmt_tf.errors import UserError
from dtmt_tf.export import Canary, Endpoints, release
from dtmt_tf.export.manifest import problems, read_manifest
from dtmt_tf.export.release import weights_hash
from dtmt_tf.export.unknown import UnknownWords
from dtmt_tf.models import DTMTConfig, TransformerConfig
from dtmt_tf.text import Vocabulary
from dtmt_tf.translator import Translator, latest_version
from tests.cells.twin import randomise
from tests.export.test_model_card import SCORE, experiment_of

RELEASE = sys.modules["dtmt_tf.export.release"]  # the package has the function of that name
LINES = ["a small dog runs", "two dogs run in the grass", "the cat sleeps on a mat"]
PAIRS = [(line, line) for line in LINES]


def make(seed):
    """A model with random weights."""
    vocabulary = Vocabulary.train(LINES * 9, LINES * 9, DataConfig(source_vocab_size=60))
    size = vocabulary.source.size
    config = TransformerConfig(8, 12, 2, 1, 1)
    model = randomise(config.build(size, size, TrainingConfig()), np.random.default_rng(seed), 1.0)
    decoding = DecodingConfig(beam_size=2, extra_length=5)
    return Endpoints(model, vocabulary, decoding, 20, "de", ExportConfig(max_lines=2))


@pytest.fixture(scope="module")
def endpoints():
    return make(1)


class Scores:
    """Gives what it is told to, and keeps what it was asked."""

    def __init__(self, *values):
        self.values = list(values)
        self.asked = []

    def __call__(self, translations, references):
        self.asked.append(translations)
        return self.values.pop(0)


def published(
    endpoints, folder, canary=None, scores=None, experiment=None, pairs=PAIRS, older=False
):
    return release(
        endpoints,
        folder,
        experiment or experiment_of(),
        scores or {},
        description="toys",
        checkpoints=[7],
        pairs=pairs,
        canary=canary,
        older=older,
    )


@pytest.fixture
def quick(monkeypatch):
    """Versions of a single file, whose translations are as good as the references."""

    def export(endpoints, folder, card, warmup):
        (folder / "saved_model.pb").write_bytes(b"graph")
        return folder

    monkeypatch.setattr(RELEASE, "export_saved_model", export)
    monkeypatch.setattr(Canary, "translate", lambda self, _, pairs, size: [t for _, t in pairs])


def names(folder):
    return sorted(path.name for path in folder.iterdir() if path.name != ".lock")


def test_a_version_is_tried_in_a_fresh_process_and_published_whole(endpoints, tmp_path):
    scores = Scores(12.5)
    version = published(endpoints, tmp_path, Canary(scores))
    assert version == tmp_path / "1" == latest_version(tmp_path)
    assert names(tmp_path) == ["1"] and problems(version) == []
    manifest = read_manifest(version)
    assert {"saved_model.pb", "experiment.json", "scores.json", "MODEL_CARD.md"} < set(
        manifest["files"]
    )
    assert manifest["checkpoints"] == [7] and manifest["canary"]["bleu"] == 12.5
    assert manifest["vocabulary"] == endpoints.vocabulary.fingerprint
    translations = Translator(version)(LINES)  # more lines than it takes at once
    assert scores.asked == [[translation.text for translation in translations]]
    assert os.stat(version).st_mode & 0o777 == 0o755  # a server may be another user


def test_a_model_that_answers_nothing_is_not_published(endpoints, tmp_path, quick, monkeypatch):
    monkeypatch.setattr(Canary, "translate", lambda self, _, pairs, size: [""] * len(pairs))
    with pytest.raises(UserError, match="3 of 3 samples are translated as nothing") as error:
        published(endpoints, tmp_path, Canary(Scores(0.0)))
    refused = tmp_path / "refused-1"
    assert f"lies in {refused}" in str(error.value)
    assert f"dtmt export {tmp_path} --force, with the same" in str(error.value)
    assert names(tmp_path) == ["refused-1"] and problems(refused) == []
    with pytest.raises(UserError, match="holds no exported model"):
        latest_version(tmp_path)


def test_a_model_that_a_fresh_process_can_not_load_is_not_published(tmp_path):
    (tmp_path / "saved_model.pb").write_bytes(b"graph")
    with pytest.raises(UserError, match="does not work in a fresh process") as error:
        Canary(Scores()).translate(tmp_path, PAIRS)
    assert len(str(error.value).splitlines()) <= 4


def test_a_model_that_python_alone_can_load_is_not_published(tmp_path):
    """The function reads a Keras variable, and the checkpoint restores its copy."""
    layer = keras.layers.Dense(1)
    layer.build([None, 1])
    module = tf.Module()
    module.layer = layer

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def translate(text):
        lengths = tf.cast(tf.strings.length(text), tf.float32)
        return {"translation": tf.strings.as_string(layer(lengths[:, None])[:, 0])}

    tf.saved_model.save(module, str(tmp_path), signatures=translate)
    answer = tf.saved_model.load(str(tmp_path)).signatures["serving_default"](tf.constant(["a"]))
    assert answer["translation"].shape == [1]
    with pytest.raises(UserError, match="(?s)fresh process.*Could not find variable"):
        Canary(Scores()).translate(tmp_path, PAIRS)


def test_a_fresh_process_that_is_killed_is_told_of_memory(tmp_path, monkeypatch):
    killed = [sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"]
    run = subprocess.run
    monkeypatch.setattr(subprocess, "run", lambda _, **options: run(killed, **options))
    with pytest.raises(UserError, match=r"(?s)fresh process:\n  SIGKILL ended it: memory may have"):
        Canary(Scores()).translate(tmp_path, PAIRS)


def test_the_same_weights_settings_and_program_make_no_new_version(
    endpoints, tmp_path, quick, caplog, monkeypatch
):
    caplog.set_level(logging.INFO)
    first = published(endpoints, tmp_path)
    assert published(endpoints, tmp_path) == first
    assert f"No new version: {first} is of the same weights" in caplog.text
    assert names(tmp_path) == ["1"]
    monkeypatch.setattr(RELEASE, "program_hash", lambda: "of a later program")
    assert published(endpoints, tmp_path) == tmp_path / "2"
    forced = Canary(Scores(1.0, 1.0), force=True)  # and the version before is tried
    assert published(endpoints, tmp_path, forced) == tmp_path / "3"
    later = {"validation": SCORE}  # scored after it was exported
    assert published(endpoints, tmp_path, scores=later) == tmp_path / "3"


def test_an_older_version_that_is_the_same_counts_where_nothing_was_trained(
    endpoints, tmp_path, quick
):
    published(endpoints, tmp_path)
    other = experiment_of("decoding.beam_size=3")
    assert published(endpoints, tmp_path, experiment=other) == tmp_path / "2"
    assert published(endpoints, tmp_path, older=True) == tmp_path / "1"
    assert names(tmp_path) == ["1", "2"]
    (tmp_path / "1" / "saved_model.pb").write_bytes(b"damaged")
    assert published(endpoints, tmp_path, older=True) == tmp_path / "3"


def test_a_refused_version_does_not_take_the_place_of_something_else(
    endpoints, tmp_path, quick, monkeypatch
):
    monkeypatch.setattr(Canary, "translate", lambda self, _, pairs, size: [""] * len(pairs))
    (tmp_path / "refused-1").mkdir()
    (tmp_path / "refused-1" / "mine").touch()
    told = "(?s)are translated as nothing.*was not kept: .*refused-1 is something else"
    with pytest.raises(UserError, match=told):
        published(endpoints, tmp_path, Canary(Scores(0.0)))
    assert names(tmp_path) == ["refused-1"] and names(tmp_path / "refused-1") == ["mine"]


def test_a_model_that_is_built_again_has_the_same_weights():
    config = DTMTConfig(8, 8, 2, encoder_depth=0, query_depth=0, decoder_depth=0)
    first, again, other = (config.build(9, 9, TrainingConfig(seed=seed)) for seed in (1, 1, 2))
    assert weights_hash(first) == weights_hash(again) != weights_hash(other)
    again.trainable_variables[-1].assign_add(1e-6 * tf.ones_like(again.trainable_variables[-1]))
    assert weights_hash(first) != weights_hash(again)


def test_a_version_tells_which_settings_differ_from_the_one_before(
    endpoints, tmp_path, quick, caplog
):
    caplog.set_level(logging.INFO)
    published(endpoints, tmp_path)
    published(make(2), tmp_path)
    assert "Settings that differ" not in caplog.text
    published(endpoints, tmp_path, experiment=experiment_of("decoding.beam_size=3"))
    assert f"differ from those of {tmp_path / '2'}:\n  decoding.beam_size: 4 -> 3" in caplog.text
    (tmp_path / "3" / "experiment.json").write_text("[]")
    assert published(endpoints, tmp_path).name == "4"  # a damaged one tells nothing


def test_a_version_tells_nobody_where_its_texts_lie(endpoints, tmp_path, quick, caplog):
    caplog.set_level(logging.INFO)
    mine = experiment_of("data.train_source=/home/me/a.en,b.en") | {
        "texts": {"/home/me/a.en": "5e"}
    }
    version = published(endpoints, tmp_path, experiment=mine)
    found = json.loads((version / "experiment.json").read_text())
    assert found["settings"]["data"]["train_source"] == ["a.en", "b.en"]
    assert found["texts"] == {"a.en": "5e"}
    assert not [path for path in version.iterdir() if b"/home/me" in path.read_bytes()]
    published(make(2), tmp_path, experiment=mine)
    assert "Settings that differ" not in caplog.text


def test_other_weights_settings_or_limits_make_one(endpoints, tmp_path, quick):
    published(endpoints, tmp_path)
    limits, endpoints.limits = endpoints.limits, replace(endpoints.limits, max_lines=3)
    try:
        assert published(endpoints, tmp_path).name == "2"
    finally:
        endpoints.limits = limits
    assert published(make(2), tmp_path).name == "3"
    other = experiment_of("decoding.beam_size=3")
    assert published(make(2), tmp_path, experiment=other).name == "4"


@pytest.mark.parametrize(
    ("limits", "samples", "at_once"),
    [
        ({}, 4, 8),
        ({"max_bytes": 25}, 3, 8),
        ({"max_bytes": 1}, 1, 1),  # which the model refuses, too
        ({"max_tokens": 45}, 4, 2),
        ({"max_tokens": 20}, 3, 1),
        ({"max_lines": 3}, 4, 2),
    ],
    ids=str,
)
def test_samples_and_requests_are_within_the_limits(
    endpoints, tmp_path, quick, monkeypatch, limits, samples, at_once
):
    tried, warm = [], []
    export = RELEASE.export_saved_model
    monkeypatch.setattr(RELEASE, "export_saved_model",
                        lambda *args: warm.extend(args[3]) or export(*args))  # fmt: skip
    monkeypatch.setattr(
        Canary, "translate", lambda self, _, pairs, size: tried.extend([pairs, size]) or ["x"]
    )
    monkeypatch.setattr(endpoints, "limits", ExportConfig(**limits))
    pairs = sorted([*PAIRS, ("the cat " * 9, "die Katze")], key=lambda pair: len(pair[0]))
    published(endpoints, tmp_path, Canary(Scores(9.0)), pairs=pairs)
    assert tried == [pairs[:samples], at_once]
    assert all(endpoints.accepts(name, *inputs.values()) for name, inputs in warm)
    assert bool(warm) == (limits != {"max_bytes": 1})


def test_other_contents_of_the_dictionary_make_a_version(endpoints, tmp_path, quick, monkeypatch):
    for number, words in enumerate(({"a": "b"}, {"a": "c"}, {"a": "c"}), 1):
        monkeypatch.setattr(endpoints, "unknown", UnknownWords(words))
        assert published(endpoints, tmp_path).name == str(min(number, 2))


def test_a_damaged_version_is_replaced_by_a_new_one(endpoints, tmp_path, quick):
    version = published(endpoints, tmp_path)
    (version / "saved_model.pb").write_bytes(b"grap")
    assert published(endpoints, tmp_path).name == "2"


def test_a_worse_version_is_refused_unless_forced(endpoints, tmp_path, quick, caplog):
    published(make(2), tmp_path, Canary(Scores(40.0)))
    for _ in range(2):  # the refused one makes room for its like
        with pytest.raises(UserError, match="BLEU 34.00 on 3 samples; the version before has 40"):
            published(endpoints, tmp_path, Canary(Scores(34.0)))
    assert names(tmp_path) == ["1", "refused-2"]
    version = published(endpoints, tmp_path, Canary(Scores(34.0), force=True))
    assert version == latest_version(tmp_path) == tmp_path / "2"
    assert "Published all the same: BLEU 34.00" in caplog.text


def test_a_version_before_that_was_not_tried_on_the_samples_is_tried_now(
    endpoints, tmp_path, quick
):
    published(make(2), tmp_path)
    scores = Scores(20.0, 40.0)  # the new one is tried first
    with pytest.raises(UserError, match="BLEU 20.00 on 3 samples; the version before has 40.00"):
        published(endpoints, tmp_path, Canary(scores))


def test_going_back_is_moving_a_version_away(endpoints, tmp_path, quick):
    first = published(endpoints, tmp_path)
    second = published(make(2), tmp_path)
    second.rename(tmp_path / "withdrawn-2")
    assert latest_version(tmp_path) == first
    assert published(make(3), tmp_path).name == "3"  # a number stands for one model only


def test_a_failed_or_killed_export_leaves_the_versions_alone(endpoints, tmp_path, monkeypatch):
    left = tmp_path / ".export-of-a-killed-process"
    left.mkdir()
    (left / "saved_model.pb").touch()

    def fail(endpoints, folder, card, warmup):
        assert not left.exists()
        (folder / "saved_model.pb").touch()
        raise OSError("no room")

    monkeypatch.setattr(RELEASE, "export_saved_model", fail)
    with pytest.raises(OSError, match="no room"):
        published(endpoints, tmp_path)
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    "name", ["²", "1.partial", "refused-9", "withdrawn-1", ".export-3", "-4", "٣"]
)
def test_other_names_are_no_versions(tmp_path, name):
    (tmp_path / name).mkdir()
    (tmp_path / "7").touch()  # a file
    with pytest.raises(UserError, match="holds no exported model"):
        latest_version(tmp_path)
    (tmp_path / "3").mkdir()
    assert latest_version(tmp_path) == tmp_path / "3"
    shutil.rmtree(tmp_path / "3")
