import datetime
import json
import os
import random
import re
import subprocess
import sys
from decimal import Decimal

import pytest

from dtmt_tf.data.cldr import phrases as cldr_phrases
from dtmt_tf.data.cldr import render_corpus
from dtmt_tf.data.cldr.renderer import Renderer
from dtmt_tf.data.cldr.sampler import (
    CURRENCIES,
    LANGUAGES,
    TERRITORIES,
    UNITS,
    Sampler,
    split_of,
)
from dtmt_tf.errors import UserError

SIZES = {"train": 6_000, "validation": 400, "test": 400}


@pytest.fixture(scope="module")
def corpus():
    return render_corpus("en", "de", SIZES, seed=3)


@pytest.fixture(scope="module")
def renderers():
    return Renderer("en"), Renderer("de")


def test_a_language_may_be_written_with_a_hyphen_and_its_patterns_may_quote():
    assert Renderer("pt-BR").locale == Renderer("pt_BR").locale
    at = datetime.datetime(2026, 3, 4, 15, 7)
    assert plain(Renderer("nn").date_and_time(at, "long")) == "4. mars 2026 kl. 15:07"


def pairs_of(corpus):
    return [pair for split in corpus.values() for pair in zip(*split, strict=True)]


def plain(text):
    return re.sub("[\u00a0\u202f\u2009]", " ", text)


def test_sizes_are_met_and_sides_are_parallel(corpus):
    assert {split: (len(s), len(t)) for split, (s, t) in corpus.items()} == {
        "train": (6_000, 6_000),
        "validation": (400, 400),
        "test": (400, 400),
    }


def test_no_source_sentence_occurs_twice_within_or_between_splits(corpus):
    sources = [source for source, _ in pairs_of(corpus)]
    assert len(set(sources)) == 6_800


def test_no_pair_is_a_copy(corpus):
    assert [pair for pair in pairs_of(corpus) if pair[0] == pair[1]] == []


def test_sentences_are_short_plain_text(corpus):
    for sentence in (side for pair in pairs_of(corpus) for side in pair):
        assert 3 <= len(sentence) <= 60
        assert not re.search("[\u00a0\u202f\u2009\n\t]", sentence)
        assert sentence == sentence.strip()
    mean = sum(len(source) for source, _ in pairs_of(corpus)) / 6_800
    assert 15 < mean < 35


@pytest.mark.parametrize("languages", [("en", "de"), ("de", "en")])
def test_a_source_sentence_has_one_target_in_every_corpus(languages):
    targets = {}
    for seed in range(3):
        corpus = render_corpus(*languages, {"train": 4_000}, seed=seed)
        for source, target in pairs_of(corpus):
            assert targets.setdefault(source, target) == target, source
    assert len(targets) < 3 * 4_000  # some sentences did recur, so the claim was tried


@pytest.mark.parametrize("phrase", ["date", "short_date", "date_and_time", "date_interval"])
@pytest.mark.parametrize("month, day", [(3, 5), (5, 5), (5, 15), (10, 5), (10, 15)])
def test_no_two_forms_of_a_date_look_alike_in_one_language(renderers, phrase, month, day):
    class OneDay(Sampler):
        def date(self):
            return datetime.date(2024, month, day)

        def time(self):
            return AFTERNOON

    sampler = OneDay(random.Random(1), "train")
    english, german = renderers
    pairs = set()
    for _ in range(200):
        rendering = getattr(cldr_phrases, phrase)(sampler)
        pairs.add((rendering(english), rendering(german)))
    assert len(pairs) >= 3
    assert len(pairs) == len({source for source, _ in pairs}) == len({t for _, t in pairs})


def test_full_dates_and_large_numbers_of_the_test_set_are_not_in_training(corpus):
    def values(split):
        found = set()
        for source in corpus[split][0]:
            found |= set(re.findall(r"[A-Z][a-z]+ \d+, \d{4}", source))
            found |= set(re.findall(r"\d+,\d{3}\.\d+", source))
        # A long and a medium date of one day are the same date: "March 5" and "Mar 5".
        return {re.sub(r"^([A-Z][a-z]{2})[a-z]*", r"\1", value) for value in found}

    assert len(values("test")) > 80
    assert values("test") & values("train") == set()
    assert values("validation") & values("train") == set()


def test_the_same_seed_gives_the_same_held_out_sets_beside_any_training_set(corpus):
    smaller = render_corpus("en", "de", {"train": 50, "validation": 400, "test": 400}, seed=3)
    assert smaller["test"] == corpus["test"]
    assert smaller["validation"] == corpus["validation"]
    assert smaller["train"][0] == corpus["train"][0][:50]


def test_another_seed_gives_another_corpus():
    first, second = (render_corpus("en", "de", {"test": 20}, seed=seed) for seed in (1, 2))
    assert first != second


@pytest.mark.parametrize("hash_seed, time_zone", [("1", "UTC"), ("2", "Asia/Tokyo")])
def test_another_process_renders_the_same_corpus(corpus, hash_seed, time_zone):
    code = (
        "import json, sys; from dtmt_tf.data.cldr import render_corpus; "
        "sizes = {'train': 300, 'validation': 400, 'test': 400}; "
        "json.dump(render_corpus('en', 'de', sizes, seed=3), sys.stdout)"
    )
    environment = os.environ | {
        "PYTHONHASHSEED": hash_seed,
        "TZ": time_zone,
        "LC_ALL": "C",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    output = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, check=True
    ).stdout
    found = json.loads(output)
    assert found["test"] == [list(side) for side in corpus["test"]]
    assert found["train"] == [list(side[:300]) for side in corpus["train"]]


DAY = datetime.date(2024, 3, 5)
AFTERNOON = datetime.time(15, 7, 9)


@pytest.mark.parametrize(
    "render, english, german",
    [
        (lambda r: r.date(DAY, "full"), "Tuesday, March 5, 2024", "Dienstag, 5. März 2024"),
        (lambda r: r.date(DAY, "medium"), "Mar 5, 2024", "05.03.2024"),
        (lambda r: r.date(DAY, "short"), "3/5/24", "05.03.24"),
        (lambda r: r.date(DAY, "yQQQQ"), "1st quarter 2024", "1. Quartal 2024"),
        (lambda r: r.time(AFTERNOON, "short"), "3:07 PM", "15:07"),
        (lambda r: r.time(datetime.time(0, 5), "medium"), "12:05:00 AM", "00:05:00"),
        (
            lambda r: r.date_and_time(datetime.datetime.combine(DAY, AFTERNOON), "long"),
            "March 5, 2024, 3:07 PM",
            "5. März 2024, 15:07",
        ),
        (
            lambda r: r.weekday_and_time(datetime.datetime.combine(DAY, AFTERNOON)),
            "Tue 3:07 PM",
            "Di., 15:07",
        ),
        (
            lambda r: r.date_interval(DAY, datetime.date(2024, 3, 10), "yMMMd"),
            "Mar 5 – 10, 2024",
            "5.–10. März 2024",
        ),
        (
            lambda r: r.time_interval(datetime.time(9, 15), AFTERNOON),
            "9:15 AM – 3:07 PM",
            "09:15–15:07 Uhr",
        ),
        (lambda r: r.relative(-60, "week"), "60 weeks ago", "vor 60 Wochen"),
        (lambda r: r.relative(1, "day"), "in 1 day", "in 1 Tag"),
        (lambda r: r.number(Decimal("-1234567.891")), "-1,234,567.891", "-1.234.567,891"),
        (lambda r: r.percent(Decimal("0.125")), "12.5%", "12,5 %"),
        (lambda r: r.scientific(Decimal("123450")), "1.2345E5", "1,2345E5"),
        (lambda r: r.compact(Decimal("1.2E9"), "long"), "1.2 billion", "1,2 Milliarden"),
        (lambda r: r.amount(Decimal("1234.5"), "USD", "standard"), "$1,234.50", "1.234,50 $"),
        (
            lambda r: r.amount(Decimal("2000"), "SEK", "name"),
            "2,000.00 Swedish kronor",
            "2.000,00 Schwedische Kronen",
        ),
        (lambda r: r.compact_amount(Decimal("1.2E6"), "EUR"), "€1.2M", "1,2 Mio. €"),
        (
            lambda r: r.measure(Decimal("12.5"), "area-square-mile", "long"),
            "12.5 square miles",
            "12,5 Quadratmeilen",
        ),
        (lambda r: r.measure(1, "duration-week", "long"), "1 week", "1 Woche"),
        (
            lambda r: r.list([r.territory(code) for code in ("DE", "AT", "CH")], "standard"),
            "Germany, Austria, and Switzerland",
            "Deutschland, Österreich und Schweiz",
        ),
        (
            lambda r: r.list([r.language(code) for code in ("fr", "el")], "or"),
            "French or Greek",
            "Französisch oder Griechisch",
        ),
    ],
)
def test_known_values_are_rendered_as_cldr_says(renderers, render, english, german):
    assert [plain(render(renderer)) for renderer in renderers] == [english, german]


def test_names_are_unambiguous_and_complete_in_both_languages(renderers):
    for renderer in renderers:
        assert len({renderer.territory(code) for code in TERRITORIES}) == len(TERRITORIES) == 128
        assert len({renderer.language(code) for code in LANGUAGES}) == len(LANGUAGES) == 67
        for codes, render in (
            (CURRENCIES, lambda code, r=renderer: r.amount(Decimal(7), code, "standard")),
            (CURRENCIES, lambda code, r=renderer: r.amount(Decimal(7), code, "name")),
            (UNITS, lambda code, r=renderer: r.measure(7, code, "long")),
        ):
            assert len({render(code) for code in codes}) == len(codes)


@pytest.mark.parametrize("phrase", cldr_phrases.PHRASES, ids=lambda phrase: phrase.__name__)
def test_every_phrase_is_translated(phrase, renderers):
    english, german = renderers
    sampler = Sampler(random.Random(5), "train")
    renderings = [phrase(sampler) for _ in range(60)]
    different = sum(rendering(english) != rendering(german) for rendering in renderings)
    assert different >= 20


def test_a_sampler_draws_only_values_of_its_split():
    sampler = Sampler(random.Random(0), "test")
    for _ in range(20):
        assert split_of(sampler.date()) == "test"
        assert [split_of(day) for day in sampler.dates(20)] == ["test", "test"]
        assert split_of(sampler.decimal((3, 6), 2)) == "test"
        assert split_of(sampler.amount("EUR")) == "test"


def test_equal_numbers_written_differently_share_a_split():
    for value in range(1, 300):
        number = Decimal(value).scaleb(-1)
        assert split_of(number) == split_of(number.quantize(Decimal("0.001")))


def test_one_value_in_fifty_is_held_out_for_each_set():
    splits = [split_of(Decimal(value)) for value in range(10_000)]
    assert 150 < splits.count("test") < 250
    assert 150 < splits.count("validation") < 250


@pytest.mark.parametrize("language", ["zh", "ja", "ko", "fr", "he"])
def test_languages_with_fewer_forms_are_rendered(language):
    sources, targets = render_corpus("en", language, {"test": 400}, seed=0)["test"]
    assert len({*targets}) > 200
    million = [pair for pair in zip(sources, targets, strict=True) if "million" in pair[0]]
    assert million
    assert language == "fr" or not [target for _, target in million if "million" in target]


def test_an_unknown_language_is_named():
    with pytest.raises(UserError, match="'xx'.*such as 'en' or 'de'"):
        render_corpus("en", "xx", {"test": 1}, seed=0)


def test_an_unknown_split_is_refused():
    with pytest.raises(ValueError, match=r"Received: \['dev'\]"):
        render_corpus("en", "de", {"dev": 1}, seed=0)


def test_asking_for_more_pairs_than_there_are_ends(monkeypatch):
    monkeypatch.setattr("dtmt_tf.data.cldr.corpus.PHRASES", {cldr_phrases.language: 1})
    with pytest.raises(ValueError, match="Received: 100; found: 6"):
        render_corpus("en", "de", {"test": 100}, seed=0)
