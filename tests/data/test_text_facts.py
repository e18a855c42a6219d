"""What the user's own text tells of itself before any setting is sized."""

import pytest

from dtmt_tf.config import DataConfig, Task, TrainingConfig
from dtmt_tf.data import text_facts as module
from dtmt_tf.data.text_facts import CHARACTERS_A_WORD, text_facts


def facts_of(folder, sources, targets, languages=("en", "de")):
    for name, text in (("a.s", sources), ("a.t", targets)):
        (folder / name).write_text("".join(f"{line}\n" for line in text), "utf-8")
    names = dict(zip(("source_language", "target_language"), languages, strict=True))
    data = DataConfig(train_source=("a.s",), train_target=("a.t",), **names)
    task = Task("custom", "", "", data, TrainingConfig())
    return text_facts(data, task, folder, folder / "cache", False, 1)


def test_words_are_those_of_all_lines_though_the_first_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "LINES_READ", 1000)
    sources, targets = ["a b c d"] * 2000, ["e f g h i j"] * 2000
    targets[7] = " ".join("k" * 90)  # one of 1,000: no measure for the rest
    facts = facts_of(tmp_path, sources, targets)
    assert facts.pairs == 2000 and facts.alphabet == len({*"abcd efghijk"})
    assert facts.words == 2000 * (4 + (999 * 6 + 90) / 1000) / 2
    assert facts.longest == 6
    targets[8] = targets[9] = targets[7]
    assert facts_of(tmp_path, sources, targets).longest == 90


def test_where_there_are_no_blanks_characters_tell_of_words(tmp_path):
    facts = facts_of(tmp_path, ["a b c d"] * 10, ["字" * 16] * 10, ("en", "zh"))
    assert facts.words == pytest.approx(10 * (4 + 16 / CHARACTERS_A_WORD) / 2, abs=0.5)
    assert facts.longest == 16 / CHARACTERS_A_WORD
