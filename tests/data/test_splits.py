from pathlib import Path

import pytest

from dtmt_tf.config import DataConfig, Task, TrainingConfig
from dtmt_tf.data.splits import load_splits, named_files
from dtmt_tf.errors import UserError
from dtmt_tf.experiment import resolve
from tests.test_config import ToyConfig

FILES = {
    "a.en": "one\ntwo\n",
    "a.de": "eins\nzwei\n",
    "b.en": "three\nfour\nfive\n",
    "b.de": "drei\nvier\nfünf\n",
    "c.en": "six\n",
    "c.de": "sechs\n",
    "tests/news.en": "ten\neleven\n",
    "tests/news.de": "zehn\nelf\n",
}
SETTINGS = [
    "data.source_language=en",
    "data.target_language=de",
    "data.train_source=b.en,a.en",
    "data.train_target=b.de,a.de",
    "data.validation_source=c.en",
    "data.validation_target=c.de",
    "data.extra_tests=tests/news",
]
TASK = Task("toy", "Nothing", "toy8", DataConfig(), TrainingConfig(), unavailable="Ask the owner.")


@pytest.fixture
def load(tmp_path):
    """Reads splits from files below a data directory; settings come after `SETTINGS`."""
    (tmp_path / "tests").mkdir()
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")

    def read(*settings):
        experiment, _ = resolve(TASK, "toy8", ToyConfig(), [*SETTINGS, *settings])
        return load_splits(experiment.data, TASK, tmp_path, tmp_path / "cache")[0]

    read.folder = tmp_path
    return read


def message(load, *settings):
    with pytest.raises(UserError) as error:
        load(*settings)
    return str(error.value)


def test_several_files_follow_each_other_in_the_order_given(load):
    assert load() == {
        "train": (
            ["three", "four", "five", "one", "two"],
            ["drei", "vier", "fünf", "eins", "zwei"],
        ),
        "validation": (["six"], ["sechs"]),
        "news": (["ten", "eleven"], ["zehn", "elf"]),
    }


def test_reverse_reads_what_swapped_files_give(load):
    swapped = load(
        "data.source_language=de",
        "data.target_language=en",
        *("data.train_source=b.de,a.de", "data.train_target=b.en,a.en"),
        *("data.validation_source=c.de", "data.validation_target=c.en"),
    )
    assert load("data.reverse=true") == swapped
    assert swapped["news"] == (["zehn", "elf"], ["ten", "eleven"])


def test_each_file_is_as_long_as_its_translation(load):
    # the sums agree: 5 lines on both sides, but b.en and a.de are not translations
    text = message(load, "data.train_target=a.de,b.de")
    assert f"{load.folder}/b.en:3: lines beyond the 2 of {load.folder}/a.de (1)" in text
    assert f"{load.folder}/b.de:3: lines beyond the 2 of {load.folder}/a.en (1)" in text


def test_a_fault_in_a_later_file_is_named_by_that_file_and_its_line(load):
    (load.folder / "a.en").write_bytes(b"one\ntw\xffo\n")
    assert message(load).splitlines()[1] == f"{load.folder}/a.en:2: not UTF-8 (1)"


@pytest.mark.parametrize(
    "setting, received",
    [
        ("data.train_source=a.en", "a.en and b.de, a.de"),
        ("data.train_target=", "b.en, a.en and none"),
        ("data.validation_source=", "none and c.de"),
        ("data.test_target=c.de", "none and c.de"),
    ],
)
def test_a_split_names_as_many_sources_as_targets(load, setting, received):
    split = setting.partition(".")[2].partition("_")[0]
    assert message(load, setting) == (
        f"data.{split}_source and data.{split}_target should both name a file, or as many files. "
        f"Received: {received}.\nAsk the owner."
    )


def test_training_files_are_needed(load):
    text = message(load, "data.train_source=", "data.train_target=")
    assert "data.train_source" in text and "none and none" in text


def test_a_missing_file_of_several_is_named(load):
    text = message(load, "data.train_source=b.en,x.en")
    assert text.startswith("x.en was not found") and text.endswith("Ask the owner.")


@pytest.mark.parametrize("stems", ["tests/news,other/news", "tests/test", "train"])
def test_two_parts_of_one_name_are_refused(stems):
    data = DataConfig(source_language="en", target_language="de", extra_tests=(*stems.split(","),))
    with pytest.raises(UserError, match=f"already called {Path(stems).name}"):
        named_files(data)
