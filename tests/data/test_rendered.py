"""The embedded corpus as a source of text: rendered once, and told of where it can not be."""

import functools

import pytest

from dtmt_tf.data import cldr
from dtmt_tf.errors import UserError
from tests.data.conftest import SIDES


@pytest.fixture
def rendered(monkeypatch):
    """Five pairs in place of 106,000; `rendered` counts how often they were made."""
    calls = []

    def render(source, target):
        calls.append((source, target))
        numbers = {"train": (["1.5", "2.5", "3.5"], ["1,5", "2,5", "3,5"])}
        return numbers | {"validation": (["4.5"], ["4,5"]), "test": (["5.5"], ["5,5"])}

    monkeypatch.setattr(cldr, "render_corpus", render)
    return calls


def test_the_embedded_corpus_is_rendered_once(load, rendered):
    files = [f"data.{part}_{side}=" for part in ("train", "validation") for side in SIDES]
    for _ in range(2):
        corpus = load("data.corpus=cldr", "data.extra_tests=", *files)
        assert corpus.sizes == {"train": 3, "validation": 1, "test": 1}
        assert corpus.lines("train") == (["1.5", "2.5", "3.5"], ["1,5", "2,5", "3,5"])
        assert corpus.lines("test") == (["5.5"], ["5,5"])
    assert rendered == [("en", "de")]
    load("data.corpus=cldr", "data.extra_tests=", "data.reverse=true", *files)
    assert rendered == [("en", "de"), ("de", "en")]


@pytest.mark.parametrize("language", ["", "en"])
def test_the_embedded_corpus_is_of_two_languages(load, language):
    with pytest.raises(UserError, match=f"data.target_language. Received: 'en' and '{language}'"):
        load("data.corpus=cldr", f"data.target_language={language}", "data.extra_tests=")


def test_languages_that_are_written_alike_are_told(load, monkeypatch):
    alike = functools.partial(cldr.render_corpus, sizes={"test": 3})
    monkeypatch.setattr(cldr, "render_corpus", alike)
    with pytest.raises(UserError, match="between en and en-US: .*more pairs than there are"):
        load("data.corpus=cldr", "data.target_language=en-US", "data.extra_tests=")


def test_it_is_rendered_anew_when_babel_has_changed(load, rendered, monkeypatch):
    load("data.corpus=cldr")
    monkeypatch.setattr("dtmt_tf.data.rendered.metadata.version", lambda name: f"{name} 99")
    load("data.corpus=cldr")
    assert len(rendered) == 2


def test_files_take_the_place_of_rendered_parts(load, rendered):
    files = [f"data.train_{side}=" for side in SIDES]
    corpus = load("data.corpus=cldr", *files)
    assert corpus.sizes == {"train": 3, "validation": 1, "test": 1, "news": 2}
    assert corpus.lines("validation") == (["six"], ["sechs"])
    assert corpus.lines("train")[0] == ["1.5", "2.5", "3.5"]
