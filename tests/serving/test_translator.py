"""Translation from Python, against the model that was exported; random weights, real sub-words."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import dtmt_tf
from dtmt_tf.errors import UserError
from dtmt_tf.translator import Candidate, Translation, Translator, find_model
from dtmt_tf.translator.words import align_words
from tests.serving.calls import LINES as WORDS

pytestmark = pytest.mark.filterwarnings("ignore:You are using a softmax over axis")  # one word
ROOT = Path(__file__).parents[2]
LINES = [*WORDS[:4], "  "]


@pytest.fixture(scope="module")
def folder(served_models):
    """The run's folder; its newest version is 2."""
    return served_models["translator"]


@pytest.fixture(scope="module")
def translator(folder):
    return Translator.load(folder, batch_size=2)


def strings(array):
    return [text.decode() for text in array.tolist()]


def test_texts_are_translated_as_by_the_endpoint(in_python, translator):
    expected = in_python("translate", text=LINES)
    done = []
    found = translator(LINES, advance=done.append)
    assert [each.source for each in found] == LINES
    assert [each.text for each in found] == strings(expected["translation"])
    np.testing.assert_allclose([each.score for each in found], expected["score"], atol=1e-5)
    assert found[4] == Translation("  ", "", 0.0) and sum(done) == 5
    assert len({each.text for each in found}) > 3
    streamed = translator.stream(iter(LINES))
    assert [(each.source, each.text) for each in streamed] == [
        (each.source, each.text) for each in found
    ]
    assert translator([]) == []


def test_the_best_translations_come_as_a_list(in_python, translator):
    expected = in_python("translate_nbest", text=LINES)
    found = translator(LINES, nbest=2)
    blanks = [k for k, line in enumerate(LINES) if not line.strip()]
    assert [found[k] for k in blanks] == [Translation(LINES[k], "", 0.0) for k in blanks]
    for k, each in enumerate(found):
        if k in blanks:
            continue
        assert [item.text for item in each.nbest] == strings(expected["translations"][k, :2])
        scores = [item.score for item in each.nbest]
        np.testing.assert_allclose(scores, expected["scores"][k, :2], atol=1e-5)
        assert each.nbest[0] == Candidate(each.text, each.score)
    with pytest.raises(UserError, match="keeps 3 translations.*decoding.beam_size=4"):
        translator(LINES, nbest=4)


def test_words_are_aligned(in_python, translator):
    expected = in_python("align", text=LINES)
    for k, each in enumerate(translator(LINES, align=True)):
        assert each.alignment.source == tuple(LINES[k].split())
        assert each.alignment.target == tuple(each.text.split())
        s, t = (expected[f"{side}_length"][k] for side in ("source", "target"))
        pieces = [strings(expected[f"{side}_subwords"][k]) for side in ("source", "target")]
        same = align_words(
            (LINES[k], pieces[0][:s], True),
            (each.text, pieces[1][:t], True),
            expected["attention"][k, :t, :s],
        )
        np.testing.assert_allclose(each.alignment.attention, same.attention, atol=1e-5)
    assert translator(LINES, align=True)[0].alignment.attention[0][0] > 0


def test_a_prefix_is_completed(in_python, translator):
    prefixes = ["the dog", "", "a", "two", "on"]
    expected = in_python("complete", source=LINES, prefix=prefixes)
    found = translator(LINES, prefixes=prefixes)
    assert [each.text for each in found] == strings(expected["translation"])
    assert all(each.text.startswith(prefix) for each, prefix in zip(found, prefixes, strict=True))
    with pytest.raises(ValueError, match="neither nbest nor align"):
        translator(LINES, prefixes=prefixes, nbest=2)


def test_targets_are_scored(in_python, translator):
    targets = ["the dog", "a dog runs in the grass", "", "mat", "x"]
    expected = in_python("score", source=LINES, target=targets)
    found = translator.score(LINES, targets)
    values = [each.log_probability for each in found]
    np.testing.assert_allclose(values, expected["log_probability"], atol=1e-4)
    assert [each.tokens for each in found] == expected["tokens"].tolist()


def test_targets_that_are_too_long_to_be_scored_whole_are_told_of(translator, monkeypatch, caplog):
    most = translator.score(["dogs"], ["the dog"])[0].tokens
    assert caplog.text == ""
    monkeypatch.setitem(vars(translator), "info", {"limits": {"longest_scored": most}})
    translator.score(["dogs"] * 3, ["the dog", "a", "the dog"])
    assert f"Of 2 targets the first {most} sub-words alone may count." in caplog.text


@pytest.mark.parametrize("other", [["x"], "the dog"], ids=str)
def test_lists_that_do_not_belong_together_are_refused(translator, other):
    for call in (translator.score, lambda a, b: translator(a, prefixes=b)):
        with pytest.raises((ValueError, TypeError), match="Received"):
            call(LINES, other)
    with pytest.raises(TypeError, match="list of strings"):
        translator("a dog")


def test_a_list_of_less_than_nothing_is_refused(translator):
    with pytest.raises(ValueError, match="nbest should be at least 0. Received: -1."):
        translator(["dogs"], nbest=-1)


def test_eight_threads_get_the_same(translator):
    expected = translator(LINES, nbest=3, align=True)
    found = [None] * 8

    def work(k):
        found[k] = translator(LINES, nbest=3, align=True)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for each in found:
        for one, other in zip(expected, each, strict=True):
            assert [c.text for c in one.nbest] == [c.text for c in other.nbest]
            assert one.score == pytest.approx(other.score, abs=1e-5)
            assert one.alignment.links == other.alignment.links


def test_info_is_the_card(translator):
    assert translator.info == {"task": "toy", "notes": "x" * 2000, "limits": {"max_lines": 128}}


def test_run_and_version_are_loaded_from_text_and_path_and_the_newest_counts(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    for place in (folder, folder / "2", Path("translator"), Path("translator/2")):
        assert find_model(place).resolve() == folder / "2"
    assert Translator.load("translator").folder == Path("translator/2")


@pytest.mark.parametrize("wanted", ["translater", "translator/3", ""])
def test_a_model_that_is_not_there_is_told_with_those_that_are(folder, wanted):
    root = folder.parent
    with pytest.raises(UserError, match="holds no exported model") as error:
        Translator.load(root / wanted)
    told, _, listed = str(error.value).partition("\nThere are:\n  ")
    assert str(root / wanted) in told and str(folder) in listed.split("\n  ")


def test_where_there_is_no_model_none_is_named(tmp_path):
    with pytest.raises(UserError) as error:
        Translator.load(tmp_path / "a" / "b" / "c" / "d")
    assert "There are" not in str(error.value)


def test_loading_brings_no_code_of_training(folder, translator):
    code = (
        "import sys, dtmt_tf\n"
        "assert not {'tensorflow', 'numpy'} & set(sys.modules)\n"
        "from dtmt_tf import Translator\n"
        f"print(Translator.load({str(folder)!r})(['dogs'])[0].text)\n"
        "ours = {name.split('.')[1] for name in sys.modules if name.startswith('dtmt_tf.')}\n"
        "print(*sorted(ours & {'training', 'runs', 'data', 'models', 'layers', 'export'}),\n"
        "      *sorted({'jax', 'matplotlib', 'sklearn'} & set(sys.modules)))\n"
        "import matplotlib.pyplot\n"
    )
    quiet = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=quiet, capture_output=True, text=True
    )
    text, rooms = done.stdout.split("\n")[:2]
    assert (text, rooms) == (translator(["dogs"])[0].text, "")
    assert done.stderr == ""


def test_names_of_the_package_are_those_of_the_room():
    assert dtmt_tf.Translator is Translator
    with pytest.raises(AttributeError, match="no attribute 'Translater'"):
        dtmt_tf.Translater  # noqa: B018
