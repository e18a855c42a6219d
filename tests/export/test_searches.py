"""Searches in the caller's process over an exported model: samples, glossaries, vocabularies."""

import functools
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from dtmt_tf.config import DataConfig, DecodingConfig, TrainingConfig
from dtmt_tf.errors import Refused, UserError
from dtmt_tf.export import Endpoints, export_saved_model
from dtmt_tf.models import TransformerConfig
from dtmt_tf.text import Vocabulary
from dtmt_tf.translator import Sampling, Translator
from dtmt_tf.translator.exported import ExportedModel
from dtmt_tf.translator.searches import Searches, _phrases, _Read
from tests.cells.twin import randomise

LINES = ["a small dog runs", "two dogs run in the grass", "", "the cat sleeps on a mat"]


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The version's folder, and what the model makes of the lines.

    It is loaded once: translators share it, each with searches of its own.
    """
    vocabulary = Vocabulary.train(LINES * 10, LINES * 10, DataConfig(source_vocab_size=40))
    size = vocabulary.source.size
    config = TransformerConfig(8, 12, 2, 1, 2)
    model = randomise(config.build(size, size, TrainingConfig()), np.random.default_rng(1), 0.5)
    decoding = DecodingConfig(beam_size=3, extra_length=5)
    endpoints = Endpoints(model, vocabulary, decoding, 50, "en")
    outputs = endpoints.translate(tf.constant(LINES))
    folder = tmp_path_factory.mktemp("models") / "1"
    card = {
        **{"source_language": "en", "target_language": "en"},
        "decoding": {"beam_size": 3, "extra_length": 5, "length_penalty": 0.6},
    }
    version = export_saved_model(endpoints, folder, card)
    with pytest.MonkeyPatch.context() as patch:
        shared = functools.cache(ExportedModel)
        patch.setattr("dtmt_tf.translator.translator.ExportedModel", shared)
        yield version, (outputs["translation"], outputs["score"])


pytestmark = pytest.mark.filterwarnings("ignore:You are using a softmax over axis")  # one word


def test_a_long_term_has_room_whatever_the_length_and_the_threshold(exported, monkeypatch):
    card = Translator(exported[0], 2).info
    decoding = card["decoding"] | {"extra_length": 0, "prune": 2.5}
    monkeypatch.setattr(Translator, "info", card | {"decoding": decoding})
    translator, term = Translator(exported[0], 2), "the cat sleeps on a mat"
    (found,) = translator(["dogs"], constraints=translator.constraints({"dogs": term}))
    assert term in found.text


def test_a_line_has_the_same_samples_whatever_is_asked_with_it(exported):
    folder, _ = exported
    long = " ".join(LINES * 5)  # two parts
    translator, sampling = Translator(folder, 2), Sampling(temperature=0.7, seed=3)
    found = translator([*LINES, long], sample=sampling, nbest=3)
    texts = {each.source: [candidate.text for candidate in each.nbest] for each in found}
    assert texts[""] == [] and found[2].text == "" and len({*sum(texts.values(), [])}) > 8
    again = list(Translator(folder, 4).stream([long, LINES[1]], sample=sampling))
    assert [each.text for each in again] == [texts[long][0], texts[LINES[1]][0]]
    np.testing.assert_allclose([each.score for each in again], [found[4].score, found[1].score],
                               rtol=1e-4)  # fmt: skip
    (other,) = translator([LINES[1]], sample=Sampling(temperature=0.7, seed=4), nbest=3)
    assert [each.text for each in other.nbest] != texts[LINES[1]]
    with pytest.raises(ValueError, match="go with neither"):
        translator(LINES, sample=sampling, align=True)


def test_a_line_that_is_no_unicode_is_read_with_signs(exported):
    translator = Translator(exported[0], 2)
    constraints = translator.constraints({"cat": "dog grass"})
    texts = ["the cat \ud83d", "the cat ?"]  # half an emoji
    for options in ({}, {"sample": Sampling(seed=1)}, {"constraints": constraints}):
        first, second = translator(texts, **options)
        assert first.text == second.text, options


def test_an_export_that_hides_unknown_words_does_not_make_them_terms():
    """One of an earlier version."""
    parts = tf.constant(["a \u2047", "the \u2047 \u2047"])
    steps = SimpleNamespace(read=lambda texts: (None, tf.constant([0, 1]), parts))
    card = {"decoding": {}, "source_language": "en", "target_language": "en"}
    read = Searches(steps, card, 2)._read(["a Mueller", "the \u2047 Smith"])
    assert read.whole == ["a Mueller", "the \u2047 \u2047"]


def test_a_line_that_a_sampler_refuses_is_named(exported, monkeypatch):
    told = "assertion failed: [A line may be cut into at most 3 parts (export.max_parts).] [4]"

    def search(texts):
        if "long" in texts:
            raise tf.errors.InvalidArgumentError(None, None, told)
        return [((text.upper(), 0.0),) for text in texts]

    monkeypatch.setattr(Searches, "sampler", lambda *_: search)
    stream = Translator(exported[0], 2).stream(["a", "long", "b"], sample=Sampling())
    assert next(stream).text == "A"
    with pytest.raises(Refused, match="begins with 'long': .*export.max_parts"):
        next(stream)


def test_samples_and_searches_have_the_models_least_length(exported, monkeypatch):
    card, shortest = Translator(exported[0], 2).info, []
    for least in ({}, {"min_length": 5}):
        told = {**card, "decoding": card["decoding"] | {"extra_length": 50, **least}}
        monkeypatch.setattr(Translator, "info", told)
        translator = Translator(exported[0], 2)
        drawn = translator(LINES[:2], sample=Sampling(temperature=2.0), nbest=40)
        words = translator.constraints(vocabulary=["dog"])
        found = translator(["a"] * 2, constraints=words, nbest=3)
        shortest.append([min(len(one.text) for each in lists for one in each.nbest)
                         for lists in (drawn, found)])  # fmt: skip
    assert shortest[0][0] == 0 and min(shortest[1]) > 0
    assert shortest[1][1] > shortest[0][1]


def test_searches_look_as_far_ahead_as_the_model(exported, monkeypatch):
    found = []

    def searched(step, state, max_lengths, decoding, **_):
        found.append(decoding.lookahead)
        raise ValueError("enough")

    monkeypatch.setattr("dtmt_tf.translator.searches.beam_search", searched)
    card = Translator(exported[0], 2).info
    for told in ({}, {"lookahead": 3}):  # an earlier version did not tell
        monkeypatch.setattr(Translator, "info", card | {"decoding": card["decoding"] | told})
        translator = Translator(exported[0], 2)
        with pytest.raises(ValueError, match="enough"):
            translator(["a"], constraints=translator.constraints(vocabulary=["dog"]))
    assert found == [10, 3]


def test_translations_hold_the_terms_and_no_words_but_those_allowed(exported):
    folder, (translations, _) = exported
    translator = Translator(folder, 2)
    terms = translator.constraints({"dogs": "the sleeps mat", "cat": "dog grass", "sits": "mat"})
    long = " ".join([LINES[1]] * 3 + [LINES[3]])
    found = translator([*LINES, long], constraints=terms, nbest=2)
    for k in (0, 2):  # no term: as without a glossary
        assert found[k].text.encode() == translations.numpy()[k]
    assert "the sleeps mat" in found[1].text and "dog grass" in found[3].text
    assert "the sleeps mat" in found[4].text and "dog grass" in found[4].text
    assert all("dog grass" in each.text for each in found[3].nbest)
    most = translator.info["decoding"]["beam_size"]  # more than are kept are searched for
    wide = translator(LINES, nbest=most + 3, constraints=terms)
    assert len(wide[0].nbest) == most + 3 and "the sleeps mat" in wide[1].text
    plain = translator(LINES[1:2], nbest=1)
    terms = translator.constraints({"dogs": plain[0].text.split()[0]})
    with pytest.MonkeyPatch.context() as patch:  # what holds its terms anyway is not searched anew
        patch.setattr(translator._searches, "searcher", None)
        assert translator(LINES[1:2], constraints=terms, nbest=1) == plain
    words = translator.constraints(vocabulary=["grass", "dog"])
    limited = translator(LINES, constraints=words)
    drawn = translator(LINES, constraints=words, sample=Sampling(), nbest=5)
    texts = "".join(each.text for each in [*limited, *(c for d in drawn for c in d.nbest)])
    assert texts and set(texts) <= set("grass dog")
    with pytest.raises(UserError, match="can not be written"):
        translator.constraints({"dog": "\u2603"})
    with pytest.raises(UserError, match="is read as 'two dogs', which has two translations"):
        translator.constraints({"two dogs": "mat", "two\u00a0dogs": "grass"})
    read = _Read(None, [], [["hotdogs", "and", "a dog"], [""]], ["hotdogs and a dog", "one dog"])
    phrases = _phrases(read, translator.constraints({"dog": "mat"}))
    assert [list(map(bool, own)) for own in phrases] == [[False, False, True], [True]]
    terms = translator.constraints({"two\u00a0dogs": "the sleeps mat"})
    for line in (LINES[1].replace(" ", "\u00a0"), LINES[1].replace("d", "\u00add")):
        assert "the sleeps mat" in translator([line], constraints=terms)[0].text
    cut = _Read(None, [], [["hot", "dog"]], ["hot dog"])
    ((first, second),) = _phrases(cut, translator.constraints({"hot dog": "mat"}))
    assert first and not second  # a term that a cut divides is the first part's
    with pytest.raises(ValueError, match="sample does not go with terms"):
        translator(LINES, constraints=terms, sample=Sampling())
