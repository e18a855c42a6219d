"""A corpus of small files, which settings change."""

import pytest

from dtmt_tf.config import DataConfig, Task, TrainingConfig
from dtmt_tf.data.corpus import load_corpus
from dtmt_tf.experiment import resolve
from tests.toy_experiment import ToyConfig

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
SIDES = "source", "target"
TASK = Task("toy", "Nothing", "toy8", DataConfig(), TrainingConfig(), unavailable="Ask the owner.")


@pytest.fixture
def load(tmp_path):
    """Loads a corpus from files below a data directory; settings come after `SETTINGS`."""
    (tmp_path / "tests").mkdir()
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")

    def read(*settings, task=TASK):
        experiment, _ = resolve(task, "toy8", ToyConfig(), [*SETTINGS, *settings])
        return load_corpus(experiment.data, task, tmp_path, tmp_path / "cache")

    read.folder = tmp_path
    return read
