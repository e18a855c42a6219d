import dataclasses
import gzip
import hashlib
import lzma
from pathlib import Path

import pytest
import tensorflow_datasets as tfds

from dtmt_tf.config import DataConfig, RemoteFile, Task, TrainingConfig
from dtmt_tf.data import known_texts, own_files, parallel_text
from dtmt_tf.data.check import Finding
from dtmt_tf.data.corpus import SOURCES
from dtmt_tf.data.lines import byte_lines, facts_of
from dtmt_tf.data.own_files import check_names, named_files
from dtmt_tf.errors import UserError
from dtmt_tf.settings import about
from tests.data.conftest import FILES


def lines(corpus):
    return {part: corpus.lines(part) for part in corpus.sizes}


def prepared(load):
    """Names of the data sets that are complete."""
    return sorted(path.parent.parent for path in load.folder.rglob("dataset_info.json"))


def message(load, *settings):
    with pytest.raises(UserError) as error:
        load(*settings)
    return str(error.value)


def test_settings_name_the_sources_that_there_are():
    (corpus,) = (item for item in dataclasses.fields(DataConfig) if item.name == "corpus")
    assert about(corpus).choices == tuple(SOURCES)


def test_several_files_follow_each_other_in_the_order_given(load):
    corpus = load()
    assert corpus.sizes == {"train": 5, "validation": 1, "news": 2}
    assert lines(corpus) == {
        "train": (
            ["three", "four", "five", "one", "two"],
            ["drei", "vier", "fünf", "eins", "zwei"],
        ),
        "validation": (["six"], ["sechs"]),
        "news": (["ten", "eleven"], ["zehn", "elf"]),
    }
    assert list(corpus.stream("train", 1, 4)) == [
        ("four", "vier"), ("five", "fünf"), ("one", "eins")
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["one more line\n", "ONE\nTWO\n", "one\ntwo\nthree\n"])
def test_a_file_that_changes_while_it_is_read_is_told_and_nothing_is_kept(load, monkeypatch, text):
    checked = own_files.check_files

    def check_and_change(*files):
        found = checked(*files)
        (load.folder / "b.en").write_text(text)
        return found

    monkeypatch.setattr(own_files, "check_files", check_and_change)
    assert message(load).endswith("b.en was changed while it was read. Run this again.")
    assert prepared(load) == []


def test_so_it_is_where_the_pairs_fill_their_last_shard(load, monkeypatch):
    monkeypatch.setattr(parallel_text, "PAIRS_PER_SHARD", 1)
    test_a_file_that_changes_while_it_is_read_is_told_and_nothing_is_kept(
        load, monkeypatch, "ONE\nTWO\nTHREE\n"
    )


def test_packed_and_plain_files_make_one_data_set(load):
    plain = load()
    for name, pack in {"b.en": gzip.compress, "b.de": lzma.compress, "a.de": gzip.compress}.items():
        path = load.folder / name
        path.with_name(f"{name}.{'xz' if pack is lzma.compress else 'gz'}").write_bytes(
            pack(path.read_bytes())
        )
        path.unlink()
    packed = load()
    assert lines(packed) == lines(plain) and packed.fingerprint == plain.fingerprint
    assert len(prepared(load)) == 2  # training and validation; extra tests


def test_tfds_loads_what_a_task_has_prepared(load):
    load("data.extra_tests=")
    (folder,) = prepared(load)
    data = tfds.load(
        f"parallel_text/{folder.name}", split="train", data_dir=load.folder / "cache" / "datasets"
    )
    pairs = [(pair["en"].decode(), pair["de"].decode()) for pair in tfds.as_numpy(data)]
    assert pairs[2:4] == [("five", "fünf"), ("one", "eins")] and len(pairs) == 5


def test_unchanged_files_are_not_read_again(load, monkeypatch):
    before = load()
    monkeypatch.setattr(known_texts, "facts_of", None)
    monkeypatch.setattr(parallel_text, "_write", None)
    after = load()
    assert lines(after) == lines(before)
    assert (after.findings, after.fingerprint) == (before.findings, before.fingerprint)


def test_a_changed_file_makes_another_data_set(load):
    before = load()
    for name, same in {"a.de": False, "c.en": True, "tests/news.de": True}.items():
        text = FILES[name].upper()
        (load.folder / name).write_text(text, encoding="utf-8")
        changed = load()
        assert (changed.fingerprint == before.fingerprint) == same  # it is of the training part
        part = "train" if name == "a.de" else "validation" if name == "c.en" else "news"
        assert text.split("\n")[0] in sum(changed.lines(part), [])
        (load.folder / name).write_text(FILES[name], encoding="utf-8")
    # with the first, one for each but the last: extra tests are compared with what is trained on
    assert len(prepared(load)) == 6
    assert lines(load()) == lines(before) and len(prepared(load)) == 6


def test_another_extra_test_prepares_itself_alone(load, monkeypatch):
    load()
    for side, text in (("en", "one\n"), ("de", "eins\n")):
        (load.folder / f"tests/more.{side}").write_text(text)
    written, write = [], parallel_text._write
    monkeypatch.setattr(
        parallel_text,
        "_write",
        lambda builder: written.append([*builder.builder_config.pairs]) or write(builder),
    )
    corpus = load("data.extra_tests=tests/news,tests/more")
    assert corpus.lines("more") == (["one"], ["eins"]) and corpus.sizes["train"] == 5
    assert [len(names) for names in written] == [2]
    assert [finding.message for finding in corpus.findings] == [
        "more source is also in the training set, over half of the file: scores say little"
    ]


def test_findings_are_kept(load):
    (load.folder / "tests/news.en").write_text("one\n\n")
    finding = Finding(
        "overlap", "warning", f"{load.folder}/tests/news.en", 1, 1,
        "news source is also in the training set",
    )  # fmt: skip
    for _ in range(2):
        found = load().findings
        assert finding in found and [other.kind for other in found] == ["blank line", "overlap"]


def test_a_byte_order_mark_is_told_of_and_not_read(load):
    plain = load()
    (load.folder / "b.en").write_text("\ufeff" + FILES["b.en"], encoding="utf-8")
    marked = load()
    assert lines(marked) == lines(plain) and marked.fingerprint == plain.fingerprint
    assert marked.findings == [
        Finding("byte order mark", "warning", f"{load.folder}/b.en", 1, 1,
                "byte order mark, left out"),
        *plain.findings,
    ]  # fmt: skip


def test_what_was_prepared_with_its_mark_is_prepared_anew(load, monkeypatch):
    (load.folder / "a.de").write_text("\ufeff" + FILES["a.de"], encoding="utf-8")
    with monkeypatch.context() as earlier:  # a version that kept marks
        earlier.setattr(own_files, "is_marked", lambda path: False)
        earlier.setattr(own_files, "unmarked_lines", byte_lines)
        assert load().lines("train")[1][3] == "\ufeffeins"
    assert load().lines("train")[1][3] == "eins"


def test_a_file_under_two_spellings_is_read_once(load, monkeypatch):
    read = []
    monkeypatch.setattr(
        known_texts, "facts_of", lambda path: read.append(path.name) or facts_of(path)
    )
    load("data.validation_source=tests/../c.en")
    load()
    assert sorted(read) == sorted(set(read))


def test_a_fatal_fault_leaves_nothing_prepared(load):
    (load.folder / "a.en").write_bytes(b"one\ntw\xffo\n")
    assert message(load) == message(load)
    assert prepared(load) == []


def test_a_public_file_that_was_changed_is_refused_also_when_others_read_it_before(load):
    load()
    found = hashlib.sha256(FILES["a.en"].encode()).hexdigest()
    for expected in (found, "0" * 64):
        remote = RemoteFile("a.en", "https://files.invalid/a.en", expected)
        task = Task("toy", "Nothing", "toy8", DataConfig(), TrainingConfig(), files=(remote,))
        if expected == found:
            assert load(task=task).sizes["train"] == 5
        else:
            with pytest.raises(UserError, match=f"found SHA-256    {found}"):
                load(task=task)


def test_languages_need_no_names(load):
    corpus = load("data.source_language=", "data.target_language=", "data.extra_tests=")
    assert corpus.lines("validation") == (["six"], ["sechs"])
    same = load("data.target_language=en", "data.extra_tests=")
    assert same.lines("validation") == (["six"], ["sechs"])


def test_reverse_reads_what_swapped_files_give(load):
    swapped = load(
        "data.source_language=de",
        "data.target_language=en",
        *("data.train_source=b.de,a.de", "data.train_target=b.en,a.en"),
        *("data.validation_source=c.de", "data.validation_target=c.en"),
    )
    assert lines(load("data.reverse=true")) == lines(swapped)
    assert swapped.lines("news") == (["zehn", "elf"], ["ten", "eleven"])


def test_each_file_is_as_long_as_its_translation(load):
    # the sums agree: 5 lines on both sides, but b.en and a.de are not translations
    text = message(load, "data.train_target=a.de,b.de")
    assert f"{load.folder}/b.en:3: lines beyond the 2 of {load.folder}/a.de (1 line)" in text
    assert f"{load.folder}/b.de:3: lines beyond the 2 of {load.folder}/a.en (1 line)" in text


def test_a_fault_in_a_later_file_is_named_by_that_file_and_its_line(load):
    (load.folder / "a.en").write_bytes(b"one\ntw\xffo\n")
    assert message(load).splitlines()[1] == f"{load.folder}/a.en:2: not UTF-8 (1 line)"


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


@pytest.mark.parametrize(
    ("source", "target", "languages", "refused"),
    [
        ("a.de", "a.en", ("en", "de"), True),
        ("x/news.DE.gz", "x/news.en.xz", ("en", "de"), True),
        ("a.pt-br", "a.en", ("en", "pt-BR"), True),
        ("a.en", "a.de", ("en", "de"), False),
        ("a.de", "a.txt", ("en", "de"), False),
        ("en", "de", ("de", "en"), False),
        ("a.en", "b.en", ("en", "en"), False),
    ],
)
def test_files_named_after_each_others_language_are_refused(source, target, languages, refused):
    names = dict(zip(("source_language", "target_language"), languages, strict=True))
    data = DataConfig(validation_source=(source,), validation_target=(target,), **names)
    if not refused:
        check_names(data)
        return
    with pytest.raises(UserError) as told:
        check_names(data)
    assert f"{source} and {target} seem to be swapped: {source} is given as {languages[0]}" in str(
        told.value
    )


@pytest.mark.parametrize("stems", ["tests/test", "train"])
def test_two_parts_of_one_name_are_refused(stems):
    data = DataConfig(source_language="en", target_language="de", extra_tests=(*stems.split(","),))
    with pytest.raises(UserError, match=f"already called {Path(stems).name}"):
        named_files(data)


def held_out_of(load, sources, targets, count, *settings):
    """Loads a text of one's own with so many pairs held out."""
    for name, text in (("x.en", sources), ("x.de", targets)):
        (load.folder / name).write_text("".join(f"{line}\n" for line in text), "utf-8")
    names = "data.train_source=x.en", "data.train_target=x.de"
    none = "data.validation_source=", "data.validation_target=", "data.extra_tests="
    return load(*names, *none, f"data.held_out={count}", *settings)


def test_of_many_pairs_some_of_the_whole_text_are_taken(load):
    corpus = held_out_of(load, list("abcdefghij"), list("ABCDEFGHIJ"), 0)
    for most, sources in ((3, "aei"), (9, "acegi"), (10, "abcdefghij"), (99, "abcdefghij")):
        assert corpus.sampled("train", most) == (list(sources), list(sources.upper()))


def test_pairs_with_a_blank_side_are_not_held_out(load):
    sources, targets = list("abcdefghij"), list("ABCDE") + ["\u200e", "G", "H", "I", " \u3000"]
    corpus = held_out_of(load, sources, targets, 1)
    assert lines(corpus)["validation"] == (["i"], ["I"])
    assert corpus.lines("train")[0] == list("abcdefghj")
    corpus = held_out_of(load, sources[:6], ["A", "B", "", "", "E", "F"], 3)
    assert lines(corpus)["validation"] == (["b", "f"], ["B", "F"])
    assert corpus.sizes["train"] == 4


def test_training_keeps_a_pair_with_text_on_both_sides(load):
    with pytest.raises(UserError, match="no training pair with text on both sides: 1 of 5 pairs"):
        held_out_of(load, list("abcde"), ["", "B", "", "", ""], 1)
    assert held_out_of(load, list("abcde"), ["", "B", "", "", "E"], 1).sizes["validation"] == 1


def test_held_out_pairs_that_training_has_too_are_told(load):
    words, others = list("abcde"), list("ABCDE")
    findings = held_out_of(load, words * 2, others * 2, 3).findings
    assert [(each.kind, each.count) for each in findings] == [("duplicate", 5), ("overlap", 3)]
    assert findings[1].message.startswith("validation source is also in the training set, over")
    assert held_out_of(load, words, others, 2).findings == []


def test_filters_drop_held_out_pairs_too(load, caplog):
    texts = [[f"{side} number {k} is longer than any name" for k in range(12)] for side in "ab"]
    texts[1][3] = texts[0][3]  # held out
    texts[1][4] = texts[0][4]
    plain = held_out_of(load, *texts, 3)
    corpus = held_out_of(load, *texts, 3, "data.filters=identical,duplicates")
    assert (plain.sizes, corpus.sizes) == (
        {"train": 9, "validation": 3},
        {"train": 8, "validation": 2},
    )
    assert corpus.dropped == {"identical": 1, "duplicates": 0}
    assert corpus.lines("validation")[0] == [texts[0][7], texts[0][11]]
    assert corpus.lines("train")[0] == [texts[0][k] for k in (0, 1, 2, 5, 6, 8, 9, 10)]
    assert list(corpus.stream("validation", 1)) == [(texts[0][11], texts[1][11])]
    texts[1][11] = texts[0][11]
    corpus = held_out_of(load, *texts, 1, "data.filters=identical")
    assert corpus.sizes == {"train": 9}
    assert "drops all 1 held-out validation pairs: there is no validation split." in caplog.text


def test_pairs_are_held_out_evenly_and_the_same_every_time(load):
    settings = ["data.validation_source=", "data.validation_target=", "data.held_out=2"]
    corpus = load(*settings)
    assert lines(corpus)["train"] == (["three", "four", "one"], ["drei", "vier", "eins"])
    assert lines(corpus)["validation"] == (["five", "two"], ["fünf", "zwei"])
    whole = load(*settings[:2])
    assert whole.sizes == {"train": 5, "news": 2}
    assert whole.fingerprint != corpus.fingerprint == load(*settings).fingerprint
    assert load("data.held_out=2").sizes == {"train": 5, "validation": 1, "news": 2}
    with pytest.raises(UserError, match="held_out.*below the number of training pairs, 5"):
        load(*settings[:2], "data.held_out=5")
