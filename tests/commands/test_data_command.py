"""`dtmt data report`: what the page tells is counted in the text, and no text becomes markup."""

import re
from types import SimpleNamespace

import pytest

from dtmt_tf.commands import data
from dtmt_tf.data import inspection
from dtmt_tf.data.inspection import Side
from dtmt_tf.errors import UserError
from tests.data.test_filters import PAIRS
from tests.evaluation.test_run_report import Reader


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def text(tmp_path):
    """Files of `PAIRS`, and two of a held-out pair; what names them."""
    held_out = [("The dog <b>barks</b> loudly.", "Der Hund bellt ß.")]
    names = []
    for split, pairs in (("train", PAIRS), ("dev", held_out)):
        for side, lines in zip(("en", "de"), zip(*pairs, strict=True), strict=True):
            path = tmp_path / f"{split}.{side}"
            path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
        names += [f"--{split}", *(str(tmp_path / f"{split}.{side}") for side in ("en", "de"))]
    return [*names, "--from", "en", "--to", "de"]


def rows(page, heading):
    """The cells of the table below a heading, row by row."""
    part = page.partition(f"<h2>{heading}</h2>")[2].partition("</table>")[0]
    found = [re.findall(r"<t[dh]>(.*?)</t[dh]>", row) for row in part.split("<tr>")[1:]]
    return {tuple(row[:1]) if heading != "Text" else tuple(row[:2]): row for row in found}


def test_the_page_of_a_text_counts_what_is_in_it(text, tmp_path, capsys):
    path = tmp_path / "out.html"
    assert data.command(["report", *text, "-o", str(path)]) == 0
    assert capsys.readouterr().out == f"{path}\n"
    page, reader = path.read_text("utf-8"), Reader()
    reader.feed(page)
    assert reader.open == [] and reader.seen.count("svg") == 2 and "b" not in reader.seen
    assert not re.search(r'(src|href)="(?!#|data:)', page)
    sides = rows(page, "Text")
    words = [len(source.split()) for source, _ in PAIRS]
    assert sides["train", "en"][2:6] == [
        "8", f"{sum(words) / 8:.1f} words", str(max(words)), str(sum(words))
    ]  # fmt: skip
    dropped = {name[0]: row[2] for name, row in rows(page, "What filters would drop").items()}
    assert dropped["identical"] == dropped["script"] == dropped["length_ratio"] == "1"
    assert dropped["duplicates"] == "1" and dropped["left"] == "4"
    assert rows(page, "Words that cover the text")[("100",)][1:] == ["100.00 %", "100.00 %"]
    unseen = rows(page, "What the training text has not")
    assert unseen[("validation",)][2:] == ["50.000 %", f"{200 / 17:.3f} %"]  # bellt ß.; b, ß
    assert "Так говорил он." in page.partition("Would be dropped: script")[2]
    assert "repeats an earlier pair" in page
    assert "filters in use</td><td>identical, length_ratio, script" in page


def test_a_page_says_where_words_of_a_part_are_counted(text, tmp_path, monkeypatch):
    path, told = tmp_path / "out.html", "counted in one of 2 training pairs"
    data.command(["report", *text, "-o", str(path)])
    assert told not in path.read_text("utf-8")
    monkeypatch.setattr(inspection, "COUNTED", 5)
    data.command(["report", *text, "-o", str(path)])
    page, words = path.read_text("utf-8"), [len(source.split()) for source, _ in PAIRS]
    assert told in page
    assert rows(page, "Text")["train", "en"][5] == str(sum(words[::2]))


def test_sides_of_one_language_are_both_shown():
    def names(*languages):
        sides = tuple(map(Side, languages))
        return data._names(SimpleNamespace(splits={"train": sides}))

    assert names("en", "en") == names("en", "") == ["source", "target"]
    assert names("en", "de") == ["en", "de"]


def test_a_page_does_not_take_the_place_of_another_file(text, tmp_path):
    with pytest.raises(UserError, match="ends in .html"):
        data.command(["report", *text, "-o", text[1]])


def test_sides_without_blanks_are_counted_by_characters():
    side, other = Side("zh"), Side("zh")
    side.add("我有猫猫")
    side.add("我", counted=False)
    other.add("你有")
    assert side.unit == "characters" and list(side.lengths) == [4, 1]
    assert side.covered(1) == 50.0 and side.unseen(other) == (50.0, 50.0)


def test_a_filter_that_does_not_know_the_languages_is_not_tried(monkeypatch):
    monkeypatch.setattr(inspection.importlib.util, "find_spec", lambda _: object())

    class Identifier:
        def rank(self, text):
            return [("en", 0.9), ("de", 0.1)]

    monkeypatch.setattr(inspection.filters, "_identifier", Identifier)
    assert inspection._missing(("en", "de")) == {}
    assert inspection._missing(("en", "mul")) == {"language": "py3langid does not know mul"}
