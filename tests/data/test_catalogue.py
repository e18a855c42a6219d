"""Public data sets, by small ones that are in TFDS's catalogue for the length of a test."""

import hashlib
import re
import urllib.error
from pathlib import Path

import pytest
import tensorflow_datasets as tfds
from tensorflow_datasets.core.download.checksums import UrlInfo

from dtmt_tf.config import DataConfig, Task, TrainingConfig
from dtmt_tf.data import catalogue as module
from dtmt_tf.data.catalogue import archives, catalogued_text
from dtmt_tf.data.check import Finding
from dtmt_tf.data.corpus import load_corpus
from dtmt_tf.data.parallel_text import fingerprint
from dtmt_tf.errors import UserError

PAIRS = {
    "train": [(f"line {k}", f"Zeile {k}") for k in range(30)] + [("same", "same")],
    "validation": [("line 3", "Zeile 3"), ("new", "neu\0")],
    "test": [("last", "letzte")],
}
URL = "https://archives.invalid/pairs.tsv"
TSV = "".join(f"{part}\t{en}\t{de}\n" for part, pairs in PAIRS.items() for en, de in pairs).encode()


class ToyTranslate(tfds.core.GeneratorBasedBuilder):
    """What TFDS's own translation data sets are like."""

    BUILDER_CONFIGS = [tfds.core.BuilderConfig(name="de-en", version=tfds.core.Version("1.0.0"))]
    archive = UrlInfo(tfds.core.utils.Size(len(TSV)), hashlib.sha256(TSV).hexdigest(), None)
    url_infos = {URL: archive}

    def _info(self):
        features = tfds.features.Translation(languages=("de", "en"))
        return tfds.core.DatasetInfo(builder=self, features=features)

    def _split_generators(self, dl_manager):
        lines = Path(dl_manager.download(URL)).read_text("utf-8").split("\n")[:-1]
        rows = [line.split("\t") for line in lines]
        return {part: self._generate_examples(part, rows) for part in PAIRS}

    def _generate_examples(self, part, rows):
        for number, (name, en, de) in enumerate(rows):
            if name == part:
                yield str(number), {"de": de, "en": en}


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Returns the toy; its archive lies where the user put it, and the network is cut."""
    ToyTranslate.archive.filename = None
    asked = []

    def urlopen(url, timeout):
        asked.append(url)
        raise urllib.error.URLError("no route to host")

    monkeypatch.setattr(module.urllib.request, "urlopen", urlopen)
    manual = tmp_path / "downloads" / "manual"
    manual.mkdir(parents=True)
    (manual / "pairs.tsv").write_bytes(TSV)

    def text(name="toy_translate/de-en", languages=("en", "de"), data_dir=None):
        return catalogued_text(name, languages, data_dir, tmp_path)

    text.archive, text.asked = manual / "pairs.tsv", asked
    return text


def message(load, *arguments, **options):
    with pytest.raises(UserError) as error:
        load(*arguments, **options)
    return str(error.value)


def test_a_data_set_is_prepared_from_archives_put_there_by_hand(load):
    text = load()
    assert load.asked == []
    assert text.sizes == {"train": 31, "validation": 2, "test": 1}
    train = list(text.stream("train"))
    assert sorted(train) == sorted(PAIRS["train"])  # TFDS shuffles its own
    assert [*text.stream("train", 0, 9), *text.stream("train", 9)] == train
    assert sorted(text.stream("validation")) == PAIRS["validation"]
    turned = load(languages=("de", "en"))
    assert list(turned.stream("train")) == [(de, en) for en, de in train]


def test_it_is_checked_and_hashed_once_when_it_is_prepared(load, monkeypatch):
    facts = load().facts
    train = list(load().stream("train"))
    sides = [[line.encode() for line in side] for side in zip(*train, strict=True)]
    assert facts.fingerprint == fingerprint(*sides)
    kinds = {(finding.kind, finding.file, finding.count) for finding in facts.findings}
    assert kinds == {
        ("copy", "train source", 1),
        ("overlap", "validation source", 1),
        ("NUL", "validation target", 1),  # nobody can mend a public data set
    }
    copy = train.index(("same", "same")) + 1
    told = Finding("copy", "warning", "train source", copy, 1, "source and target are the same")
    assert told in facts.findings
    monkeypatch.setattr(module, "check_pairs", None)
    load.archive.unlink()
    assert load().facts == facts  # neither read nor downloaded again


def test_the_other_direction_has_facts_of_its_own(load):
    assert load().facts.fingerprint != load(languages=("de", "en")).facts.fingerprint


def test_a_copy_below_the_data_directory_is_used(load, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    builder = tfds.builder("toy_translate/de-en", data_dir=elsewhere)
    config = tfds.download.DownloadConfig(
        manual_dir=load.archive.parent, try_download_gcs=False, force_checksums_validation=True
    )
    ToyTranslate.archive.filename = "pairs.tsv"
    builder.download_and_prepare(download_config=config)
    load.archive.unlink()
    text = load(data_dir=elsewhere)
    assert Path(text.builder.data_dir).is_relative_to(elsewhere) and len(text.facts.findings) == 3


def test_without_network_it_says_at_once_what_to_put_where(load, tmp_path):
    load.archive.unlink()
    text = message(load)
    assert text.splitlines() == [
        "toy_translate/de-en/1.0.0 could not be made: <urlopen error no route to host>",
        f"Fetch these on a machine that can, and put them in {load.archive.parent}:",
        f"  pairs.tsv ({ToyTranslate.archive.size}) from {URL}",
        f"Or put the data set itself, prepared by TFDS, at {tmp_path}/toy_translate/de-en/1.0.0.",
    ]
    assert load.asked == [URL]
    load.archive.write_bytes(TSV)
    assert load().sizes["train"] == 31


def test_an_archive_that_is_not_the_right_one_is_refused(load):
    load.archive.write_bytes(TSV[:-1])
    text = message(load)
    assert "could not be made" in text and "pairs.tsv" in text and "checksum" in text.lower()
    load.archive.write_bytes(TSV)
    assert load().sizes["train"] == 31


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        (
            "wmt14_translate/de-en",
            [
                "  training-parallel-europarl-v7.tgz (627.17 MiB) from http://www.statmt.org/wmt13/",
                "  training-parallel-commoncrawl.tgz (875.77 MiB) from http://www.statmt.org/wmt13/",
                "  training-parallel-nc-v9.tgz (76.69 MiB) from http://www.statmt.org/wmt14/",
                "  dev.tgz (36.86 MiB) from http://data.statmt.org/wmt19/translation-task/",
            ],
        ),
        (
            "wmt14_translate/fr-en",
            [
                "  training-parallel-europarl-v7.tgz (627.17 MiB) from http://www.statmt.org/wmt13/",
                "  training-parallel-commoncrawl.tgz (875.77 MiB) from http://www.statmt.org/wmt13/",
                "  training-parallel-un.tgz (2.20 GiB) from http://www.statmt.org/wmt13/",
                "  training-parallel-nc-v9.tgz (76.69 MiB) from http://www.statmt.org/wmt14/",
                "  training-giga-fren.tar (2.42 GiB) from http://www.statmt.org/wmt10/",
                "  dev.tgz (36.86 MiB) from http://data.statmt.org/wmt19/translation-task/",
            ],
        ),
    ],
)
def test_the_papers_archives_are_named(load, task, expected):
    foreign = task[-5:-3]
    lines = message(load, task, ("en", foreign)).splitlines()
    archives = [line for line in lines if line.startswith("  ")]
    assert [line.rpartition("/")[0] + "/" for line in archives] == expected
    assert len(load.asked) == 1  # the others would fail as well


def test_archives_that_tfds_has_no_name_for_get_one(load):
    text = message(load, "wmt17_translate/zh-en", ("zh", "en"))
    assert "  casia2015.zip (93.61 MiB) from ftp://" in text
    builder = tfds.builder("wmt17_translate/zh-en", data_dir=load.archive.parents[2])
    names = {archive.filename for archive in archives(builder).values()}
    assert names >= {"neu2017.zip", "UNv1.0.en-zh.tar.gz", "dev.tgz"} and len(names) == 9


@pytest.mark.parametrize(
    ("name", "languages", "told"),
    [
        ("wmt99_translate/de-en", ("en", "de"), "Dataset wmt99_translate not found"),
        ("toy_translate/xx-en", ("en", "de"), "BuilderConfig xx-en not found"),
        ("no name", ("en", "de"), "Parsing builder name"),
        ("toy_translate/de-en", ("en", "fr"), "has de, en, not .* en and fr"),
        ("toy_translate/de-en", ("source", "target"), "has de, en, not .* source and target"),
    ],
)
def test_a_wrong_name_or_language_is_told(load, name, languages, told):
    text = message(load, name, languages)
    assert re.search(told, text) and f"data.tfds_name={name}" in text
    assert len(text.splitlines()) <= 2


def test_another_format_is_told(load, tmp_path):
    ToyTranslate.archive.filename = "pairs.tsv"
    tfds.builder("toy_translate/de-en", data_dir=tmp_path, file_format="array_record")
    config = tfds.download.DownloadConfig(manual_dir=load.archive.parent, try_download_gcs=False)
    tfds.builder(
        "toy_translate/de-en", data_dir=tmp_path, file_format="array_record"
    ).download_and_prepare(download_config=config)
    assert "is in the format array_record" in message(load)


def test_a_task_reads_it_with_files_of_its_own_besides(load, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    for name, content in {
        "dev.en": "a\nb\n", "dev.de": "c\nd\n", "more.en": "e\n", "more.de": "f\n"
    }.items():  # fmt: skip
        (folder / name).write_text(content)
    data = DataConfig(
        source_language="en",
        target_language="de",
        corpus="tfds",
        tfds_name="toy_translate/de-en",
        validation_source=("dev.en",),
        validation_target=("dev.de",),
        extra_tests=("more",),
    )
    task = Task("toy", "Nothing", "toy8", data, TrainingConfig())
    cache = tmp_path / "cache"
    manual = cache / "datasets" / "downloads" / "manual"
    manual.mkdir(parents=True)
    (manual / "pairs.tsv").write_bytes(TSV)
    corpus = load_corpus(data, task, folder, cache)
    assert corpus.sizes == {"train": 31, "validation": 2, "test": 1, "more": 1}
    assert corpus.lines("validation") == (["a", "b"], ["c", "d"])
    assert corpus.lines("more") == (["e"], ["f"])
    assert corpus.lines("test") == (["last"], ["letzte"])
    assert sorted(corpus.stream("train")) == sorted(PAIRS["train"])
    assert corpus.fingerprint == load().facts.fingerprint
    assert {finding.kind for finding in corpus.findings} == {"copy", "overlap", "NUL"}
