"""Each filter drops what it is for and nothing else; what is left is a corpus of its own."""

import logging
import sys
import types

import numpy as np
import pytest

from dtmt_tf.config import DataConfig, Task, TrainingConfig
from dtmt_tf.data import filtered, filters
from dtmt_tf.data.corpus import load_corpus
from dtmt_tf.errors import UserError
from dtmt_tf.languages import scripts

PAIRS = [
    ("The dog sees a small cat.", "Der Hund sieht eine Katze."),
    ("The dog sees a small cat.", "The dog sees a small cat. "),  # 1: identical
    ("Anna", "Anna"),  # short: a name
    ("The bird sings in the garden.", "Так говорил он."),  # 3: another script
    ("It is late, we should go home.", "Ja."),  # 4: 10 times longer
    ("The dog sees a small cat.", "Der Hund sieht eine Katze."),  # 5: again
    ("12.50 + 13.75 = 26.25 + 1000", "12,50 + 13,75 = 26,25 + 1000"),  # no letters
    ("A horse stands in a meadow.", "Ein Pferd steht auf der Wiese."),
]
ALONE = {"identical": [1], "script": [3], "length_ratio": [4], "duplicates": [5]}


def data(*names, **settings):
    languages = {"source_language": "en", "target_language": "de"}
    return DataConfig(filters=names, **{**languages, **settings})


def dropped(*names, pairs=PAIRS, **settings):
    masks = filters.judge(iter(pairs), data(*names, **settings))
    return {name: np.flatnonzero(mask).tolist() for name, mask in masks.items()}


def test_each_filter_drops_what_it_is_for():
    assert dropped(*ALONE) == ALONE
    assert list(dropped(*reversed(ALONE))) == list(reversed(ALONE))
    assert dropped("script") == {"script": [3]}


def test_tags_before_a_source_hide_no_copy_of_it():
    copy = "A horse stands in a meadow."
    pairs = [(f"{tags} {copy}", copy) for tags in ("<bt>", "<2de> <bt>", "<b>")]
    tags = "<bt>", "<2de>"
    assert dropped("identical", pairs=pairs, reserved_symbols=tags) == {"identical": [0, 1]}


def test_short_pairs_stay_and_tags_make_none_longer():
    pairs = [("a" * 19,) * 2, ("a" * 20,) * 2, ("<bt> Angela D. Merkel", "Angela D. Merkel")]
    tags = ("<bt>",)
    assert dropped("identical", pairs=pairs, reserved_symbols=tags) == {"identical": [1]}
    usual = [("a" * 30, "a" * 30)] * 7
    pairs = [*usual, ("a" * 20, "b"), ("a" * 19, "b"), ("<bt> " + "a" * 16, "b")]
    assert dropped("length_ratio", pairs=pairs, reserved_symbols=tags) == {"length_ratio": [7]}


def test_a_ratio_is_measured_against_the_usual_one_of_the_text():
    pairs = [("a" * 10 * k, "字" * k) for k in range(3, 30)] + [("a" * 30, "字" * 30)]
    assert dropped("length_ratio", pairs=pairs) == {"length_ratio": [27]}
    assert dropped("length_ratio", pairs=pairs, max_length_ratio=11) == {"length_ratio": []}
    assert dropped("length_ratio", pairs=[("", "a" * 30), ("", "")]) == {"length_ratio": [0]}


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("de", {"LATIN"}),
        ("ru", {"CYRILLIC"}),
        ("zh-TW", {"CJK"}),
        ("ja", {"CJK", "HIRAGANA", "KATAKANA"}),
        ("sr", {"CYRILLIC", "LATIN"}),
        ("sr-Latn", {"LATIN"}),
        ("sr-ME", {"LATIN"}),
        ("uz", {"LATIN", "CYRILLIC", "ARABIC"}),
        ("en", {"LATIN"}),
        ("x-mine", set()),
    ],
)
def test_languages_have_scripts(code, expected):
    assert scripts(code) == expected


def test_letters_of_other_scripts_may_be_part_of_a_sentence():
    assert filters.share_of_script("Ｐython と 日本語", scripts("ja")) == pytest.approx(4 / 10)
    assert filters.share_of_script("12 + 3", scripts("ja")) == 1.0
    rule = {"pairs": [("Use the class TransitionRNN here.", "使用 TransitionRNN 类。")]}
    assert dropped("script", **rule, target_language="zh") == {"script": []}


def test_text_in_letters_of_its_language_is_kept():
    pairs = [("The dog sees a small cat.", "কুকুরটি একটি ছোট বিড়াল দেখছে।")]
    assert dropped("script", pairs=pairs, target_language="bn") == {"script": []}
    assert dropped("script", pairs=pairs, target_language="hi") == {"script": [0]}


def test_verdicts_are_of_the_scripts_that_languages_had():
    assert filters.version(data()) == ""
    assert filters.version(data("script")) != filters.version(data("script", target_language="bn"))


@pytest.fixture
def identifier(monkeypatch):
    """A library that tells languages, by the first word of a text alone."""

    class Identifier:
        def rank(self, text):
            named = text.partition(" ")[0]
            if named == "unsure":
                return [("fr", 0.6), ("de", 0.3), ("en", 0.1)]
            return [(each, 0.99 if each == named else 0.0025) for each in ("en", "de", "fr")]

        from_model_file = classmethod(lambda cls, *_, **__: cls())

    module = types.SimpleNamespace(LanguageIdentifier=Identifier, MODEL_FILE="model")
    monkeypatch.setitem(sys.modules, "py3langid", types.ModuleType("py3langid"))
    monkeypatch.setitem(sys.modules, "py3langid.langid", module)


def test_a_side_in_another_language_is_dropped_where_a_library_tells(identifier):
    long = " and so on and so on and so on"
    pairs = [("en" + long, "de" + long), ("en" + long, "en" + long), ("fr" + long, "de" + long),
             ("neither" + long, "nor" + long), ("fr", "de"),
             ("en" + long, "unsure" + long)]  # fmt: skip
    assert dropped("language", pairs=pairs) == {"language": [1, 2]}
    with pytest.raises(UserError, match="does not know cs"):
        dropped("language", target_language="cs")


def test_without_the_library_its_name_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "py3langid", None)
    monkeypatch.setitem(sys.modules, "py3langid.langid", None)
    with pytest.raises(UserError, match="pip install py3langid"):
        dropped("language")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"filters": ("copies",)}, "identical, length_ratio.*copies"),
        ({"filters": ("script", "copies")}, "identical, length_ratio.*copies"),
        ({"max_length_ratio": 1.0}, "above 1"),
    ],
)
def test_settings_that_make_no_filter_are_refused(settings, message):
    with pytest.raises(UserError, match=message):
        DataConfig(**settings)


def test_what_needs_languages_says_so():
    with pytest.raises(UserError, match="script and language need .*'en' and ''"):
        dropped("script", target_language="")


@pytest.fixture
def load(tmp_path):
    """Loads `PAIRS` as a training text with some filters."""
    for side, lines in zip(("en", "de"), zip(*PAIRS, strict=True), strict=True):
        (tmp_path / f"a.{side}").write_text("".join(f"{line}\n" for line in lines), "utf-8")

    def read(*names, **settings):
        files = {
            f"{split}_{side}": (str(tmp_path / f"a.{code}"),)
            for split in ("train", "test")
            for side, code in (("source", "en"), ("target", "de"))
        }
        found = data(*names, **files, **settings)
        return load_corpus(found, Task("t", "", "", found, TrainingConfig()), None, tmp_path / "c")

    return read


def test_a_filtered_corpus_lacks_what_is_dropped_wherever_it_is_read(load):
    corpus = load(*ALONE)
    left = [pair for k, pair in enumerate(PAIRS) if k not in (1, 3, 4, 5)]
    assert corpus.sizes == {"train": 4, "test": 8}
    assert corpus.dropped == {name: 1 for name in ALONE}
    for start in range(5):
        for stop in [*range(start, 6), None]:
            assert list(corpus.stream("train", start, stop)) == left[start:stop]
    assert list(corpus.stream("test")) == PAIRS
    assert filtered.format_dropped(corpus.dropped, 4) == (
        "Filters dropped 4 of 8 training pairs: 1 identical, 1 script, 1 length_ratio, 1 duplicates"
    )


def test_a_pair_counts_for_the_first_filter_that_drops_it(load):
    assert load("length_ratio", "script", max_length_ratio=1.6).dropped == {
        "length_ratio": 2,
        "script": 0,
    }


def test_a_corpus_is_another_one_only_if_something_is_dropped(load):
    plain = load().fingerprint
    assert load("length_ratio", max_length_ratio=50).fingerprint == plain
    assert load("length_ratio").dropped == {"length_ratio": 1}  # not what was noted for 50
    assert len({plain, load("script").fingerprint, load("identical").fingerprint}) == 3
    assert load("identical", "script").fingerprint == load("script", "identical").fingerprint


def test_verdicts_depend_on_the_tags_before_sources(load, tmp_path):
    copy = "A horse stands in a meadow."
    for side, line in (("en", f"<bt> {copy}"), ("de", copy)):
        with (tmp_path / f"a.{side}").open("a") as file:
            file.write(f"{line}\n")
    assert load("identical").dropped == {"identical": 1}
    assert load("identical", reserved_symbols=("<bt>",)).dropped == {"identical": 2}


def test_verdicts_are_kept_and_damaged_ones_are_made_anew(load, caplog, tmp_path):
    first = load("script").fingerprint
    with caplog.at_level(logging.INFO):
        assert load("script").fingerprint == first and "Filtering" not in caplog.text
        (path,) = (tmp_path / "c" / "datasets" / "filtered").glob("*.npy")
        path.write_bytes(path.read_bytes()[:-2])
        assert load("script").fingerprint == first and "Filtering" in caplog.text


def test_a_text_of_which_nothing_is_left_is_refused(load, monkeypatch):
    monkeypatch.setattr(filters, "SHORT", 0)
    monkeypatch.setattr(filters, "MIN_SCRIPT_SHARE", 2.0)
    with pytest.raises(UserError, match=r"drops all 8 training pairs \(\d.* script"):
        load("script")
