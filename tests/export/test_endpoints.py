"""What the signatures compute, against the model itself; random weights, real sub-words."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from dtmt_tf.config import EOS_ID, UNK_ID, DataConfig, DecodingConfig, TrainingConfig
from dtmt_tf.export import Endpoints
from dtmt_tf.models import DTMTConfig
from dtmt_tf.text import Vocabulary
from dtmt_tf.text.reading import MOST_BLANKS
from tests.cells.twin import randomise
from tests.training.toy_trainer import graphless

# a source of one sub-word
pytestmark = pytest.mark.filterwarnings("ignore:You are using a softmax over axis")
TEXTS = [
    "a small dog runs",
    "two dogs run in the grass",
    "  ",
    "the cat sleeps on a mat",
    "one dog",
]
LONG = "a dog runs. two dogs run. the cat sleeps on a mat, the dog runs"
LONGEST = 10


def make(decoding, eos=0.0, data=None, lines=(), language="de"):
    data = dataclasses.replace(data or DataConfig(), source_vocab_size=60)
    vocabulary = Vocabulary.train([*TEXTS, *lines] * 9, [LONG] * 9, data)
    sizes = vocabulary.source.size, vocabulary.target.size
    config = DTMTConfig(16, 16, 2, encoder_depth=1, query_depth=1, decoder_depth=1)
    model = config.build(*sizes, TrainingConfig())
    randomise(model, np.random.default_rng(5), 1.5)
    bias = model.readout.logits.bias
    bias.assign(bias + eos * tf.one_hot(EOS_ID, sizes[1]))
    return Endpoints(model, vocabulary, decoding, LONGEST, language)


@pytest.fixture
def without_graphs():
    """Traces nothing, which takes longer than a search."""
    with graphless():
        yield


@pytest.fixture(scope="module")
def endpoints():
    return make(DecodingConfig(beam_size=3, extra_length=4, batch_size=2))


def strings(tensor):
    return [text.decode() for text in tensor.numpy().tolist()]


def close(left, right):
    np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-5)


def test_the_best_of_the_list_is_the_translation(endpoints):
    text = tf.constant(TEXTS)
    one, many = endpoints.translate(text), endpoints.translate_nbest(text)
    assert strings(one["translation"]) == strings(many["translations"][:, 0])
    close(one["score"], many["scores"][:, 0])
    lengths = many["lengths"].numpy()
    assert (np.diff(many["scores"].numpy(), axis=1) <= 0).all()
    assert len({*strings(tf.reshape(many["translations"], [-1]))}) > 10
    blank = TEXTS.index("  ")
    assert not lengths[blank].any() and (np.delete(lengths, blank, 0) > 0).all()
    assert strings(many["translations"][blank]) == [""] * 3 and one["score"][blank] == 0


def test_blanks_around_a_text_change_nothing(endpoints):
    texts = tf.constant([TEXTS[1], LONG, ""])
    padded = tf.constant([f"\t  {TEXTS[1]}" + "  " * LONGEST, f" \u3000{LONG}\r\n", "\u00a0 " * 99])
    for function in (endpoints.translate_nbest, endpoints.align):
        plain, other = function(texts), function(padded)
        for name, value in plain.items():
            np.testing.assert_array_equal(other[name], value, err_msg=name)
    targets = tf.constant(["the dog runs"] * 3)
    plain, other = (endpoints.score(source, targets) for source in (texts, padded))
    close(plain["log_probability"], other["log_probability"])


@pytest.mark.usefixtures("without_graphs")
@pytest.mark.parametrize("kind", ["plain", "known", "normalised"])
def test_a_text_that_shows_nothing_is_not_searched(kind):
    """Whether the sub-words know what does not show, or make nothing of it."""
    hidden = [*"\u000b\u001c\u001d\u001e\u001f\u0085\u00ad\u200b\u200e\u200f\u2060\ufeff"]
    lines = {"known": [f"a {one}dog" for one in hidden]}.get(kind, [])
    data = DataConfig(normalization="nmt_nfkc" if kind == "normalised" else "identity")
    endpoints = make(DecodingConfig(beam_size=2, extra_length=4), data=data, lines=lines)
    texts = [*hidden, "".join(hidden), " ".join(hidden), "\u200b\u00a0\t", "\u200d", "\u0001"]
    outputs = endpoints.translate_nbest(tf.constant([*texts, "a dog"]))
    assert all(strings(outputs["translations"][-1]))
    assert not any(strings(tf.reshape(outputs["translations"][:-1], [-1])))
    assert not outputs["scores"].numpy()[:-1].any() and not outputs["lengths"].numpy()[:-1].any()
    aligned = endpoints.align(tf.constant(texts))
    assert set(strings(tf.reshape(aligned["target_subwords"], [-1]))) == {"<eos>"}
    ids, owners, parts = endpoints.read(tf.constant(texts))  # of a Translator's own searches
    assert set(ids.numpy().ravel()) == {EOS_ID} and len(owners) == len(texts)


def test_many_blanks_inside_a_text_are_read_as_one(endpoints):
    plain, few, many = "a dog runs.{}two dogs run.".split("{}"), " " * MOST_BLANKS, " \t\u3000" * 20
    ids, owners, parts = endpoints.read(tf.constant([" ".join(plain), many.join(plain)]))
    size = len(ids) // 2
    np.testing.assert_array_equal(ids[:size], ids[size:])
    assert owners.numpy().tolist() == [0] * size + [1] * size and b"" not in parts.numpy()
    (kept, *_), one = endpoints.source.encode([few.join(plain)]), endpoints.read([few.join(plain)])
    assert tf.ragged.boolean_mask(one[0], one[0] > EOS_ID).flat_values.numpy().tolist() == (
        kept[:-1].numpy().tolist()
    )


def test_all_that_reads_a_source_reads_it_alike(endpoints):
    plain = tf.constant(["the cat sleeps", "two dogs"])
    other = tf.constant(["the\u00a0c\u00adat\u2009sleeps\u200b", "\u2060two\tdogs\ufeff"])
    for function in (endpoints.translate, endpoints.translate_nbest, endpoints.align):
        expected, found = function(plain), function(other)
        for name, value in expected.items():
            np.testing.assert_array_equal(found[name], value, err_msg=name)
    targets = tf.constant(["the dog", "a"])
    for function in (endpoints.score, endpoints.complete):
        expected, found = (function(sources, targets) for sources in (plain, other))
        for name, value in expected.items():
            np.testing.assert_array_equal(found[name], value, err_msg=name)
    for expected, found in zip(endpoints.read(plain), endpoints.read(other), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_given_translations_are_read_as_sources_are(endpoints):
    plain, other = tf.constant(["the dog", "a"]), tf.constant(["the d­og", "⁠a"])
    sources = tf.constant(["the cat sleeps", "two dogs"])
    scores = [endpoints.score(sources, targets) for targets in (plain, other)]
    for name, value in scores[0].items():
        np.testing.assert_array_equal(scores[1][name], value, err_msg=name)
    whole, begun = (endpoints.complete(sources, prefixes) for prefixes in (plain, other))
    np.testing.assert_array_equal(whole["score"], begun["score"])
    for given, text in zip(other, strings(begun["translation"]), strict=True):
        assert text.startswith(given.numpy().decode())  # as it was given


@pytest.mark.parametrize("kind", ["bpe", "word"])
def test_what_the_subwords_lack_is_said_as_it_stands(kind):
    """As a glossary finds its terms in what `read` says."""
    endpoints = make(DecodingConfig(beam_size=2), data=DataConfig(vocabulary_kind=kind))
    names = "the Иванов runs. two Muę\u00a0lleż run. a Ж☃ on the mat"  # two parts
    ids, owners, parts = endpoints.read(tf.constant([names, "the dog runs"]))
    assert UNK_ID in ids.numpy() and len(owners) > 2 and parts[-1] == b"the dog runs"
    assert " ".join(strings(parts)[:-1]) == names.replace(" ", " ")


def test_a_byte_order_mark_is_not_read(endpoints):
    plain, marked = [TEXTS[0], "", "a dog"], [f"\ufeff{TEXTS[0]}", "\ufeff", "\ufeff a dog"]
    targets = ["the dog", "a", ""]
    for function in (endpoints.translate, endpoints.translate_nbest, endpoints.align):
        expected, found = function(tf.constant(plain)), function(tf.constant(marked))
        for name, value in expected.items():
            np.testing.assert_array_equal(found[name], value, err_msg=name)
    for function in (endpoints.score, endpoints.complete):
        expected, found = (
            function(tf.constant(sources), tf.constant([mark + text for text in targets]))
            for sources, mark in ((plain, ""), (marked, "\ufeff"))
        )
        for name, value in expected.items():
            np.testing.assert_array_equal(found[name], value, err_msg=name)


def test_long_texts_are_translated_in_parts(endpoints):
    parts = ["a dog runs. two dogs run.", "the cat sleeps on a mat,", "the dog runs"]
    ids, owners = endpoints.source.encode_parts([LONG], LONGEST)
    assert strings(endpoints.source.decode(ids.to_tensor())) == parts
    assert owners.numpy().tolist() == [0, 0, 0]
    texts = tf.constant([TEXTS[0], LONG, *parts])
    outputs = endpoints.translate_nbest(texts)
    for k in range(3):
        column = strings(outputs["translations"][:, k])
        assert column[1] == " ".join(text for text in column[2:] if text)
    close(outputs["scores"][1], np.average(outputs["scores"][2:], 0, ids.row_lengths()))
    assert (outputs["lengths"][1] == tf.reduce_sum(outputs["lengths"][2:], 0)).numpy().all()
    alone = endpoints.translate_nbest(tf.constant([TEXTS[0]]))
    assert strings(alone["translations"][0]) == strings(outputs["translations"][0])


@pytest.mark.usefixtures("without_graphs")
def test_search_in_bfloat16_is_near():
    exact, close_by = (
        make(DecodingConfig(beam_size=2, precision=precision), eos=9.0).translate(
            tf.constant(TEXTS)
        )
        for precision in ("float32", "bfloat16")
    )
    same = (exact["translation"] == close_by["translation"]).numpy()
    difference = np.abs(exact["score"] - close_by["score"])[same]
    assert 0 < difference.max() < 0.1
    assert same.sum() >= 2


def test_a_translation_scores_what_the_search_says():
    endpoints = make(DecodingConfig(beam_size=2, length_penalty=0.0, extra_length=30), eos=9.0)
    source = tf.constant([text for text in TEXTS if text.strip()])
    ids = endpoints.source.encode(source).to_tensor()
    hypotheses = endpoints._search(ids, 1)
    ended = (hypotheses.ids[:, 0] == EOS_ID).numpy().any(axis=1)
    assert ended.sum() >= 2
    target = endpoints.target.decode(hypotheses.ids[:, 0])
    # the same text may be cut up in another way; take those that are not
    again = endpoints.target.encode(target).to_tensor(shape=hypotheses.ids[:, 0].shape)
    same = ended & (again == hypotheses.ids[:, 0]).numpy().all(axis=1)
    assert same.sum() >= 1
    outputs = endpoints.score(source, target)
    close(outputs["log_probability"].numpy()[same], hypotheses.scores.numpy()[same, 0])
    assert (outputs["tokens"].numpy()[same] == hypotheses.lengths.numpy()[same, 0]).all()


def test_scores_are_sums_over_the_given_words(endpoints):
    long = "two dogs run " * 40
    source, target = [*TEXTS[:2], "", "a dog", long], ["the dog runs", "", "a", long, "a dog"]
    outputs = endpoints.score(tf.constant(source), tf.constant(target))
    most = 4 * LONGEST
    for k in range(5):
        source_ids = endpoints.source.encode([source[k]], most).to_tensor()
        assert source_ids[0, -1] == EOS_ID
        target_ids = endpoints.target.encode([target[k]], most).to_tensor()
        logits = tf.nn.log_softmax(endpoints.model(source_ids, target_ids))
        expected = tf.gather(logits[0], target_ids[0], batch_dims=1)
        close(outputs["log_probability"][k], tf.reduce_sum(expected))
        assert outputs["tokens"][k] == target_ids.shape[1]
    assert outputs["tokens"][3] == most  # the rest is not read, as the limits say
    assert endpoints.described_limits()["longest_scored"] == most


def test_completions_begin_with_their_prefix(endpoints):
    source = tf.constant([TEXTS[1]] * 5 + [LONG, " "])
    prefix = ["", "the dog", "two dogs r", "x Ü ", "a dog runs. two", "the", "one"]
    outputs = endpoints.complete(source, tf.constant(prefix))
    free = endpoints.translate(source)
    texts = strings(outputs["translation"])
    assert texts[0] == strings(free["translation"])[0]
    assert all(text.startswith(begin) for text, begin in zip(texts, prefix, strict=True))
    assert len({text[len(begin) :] for text, begin in zip(texts, prefix, strict=True)}) > 4
    assert (texts[6], float(outputs["score"][6])) == ("one", 0.0)
    # what follows is what the model finds best: the prefix of a translation gives it again
    whole = strings(free["translation"])[0]
    half = whole[: len(whole) // 2].rpartition(" ")[0]
    assert half
    again = endpoints.complete(source[:1], tf.constant([half]))
    assert strings(again["translation"])[0].startswith(half)
    assert again["score"][0] <= free["score"][0] + 1e-5
    # of a long text the first part alone begins so
    rest = strings(free["translation"])[5].split(" ")[-3:]
    assert texts[5].split(" ")[-3:] == rest


@pytest.mark.usefixtures("without_graphs")
@pytest.mark.parametrize(
    ("kind", "language"), [("bpe", "de"), ("bpe", "th"), ("bpe", "ja"), ("word", "de")]
)
def test_after_a_blank_that_ends_a_prefix_a_word_begins(kind, language):
    decoding = DecodingConfig(beam_size=3, extra_length=4)
    endpoints = make(decoding, data=DataConfig(vocabulary_kind=kind), language=language)
    prefixes = ["the dog", "the dog ", "the dog\u00a0", "the dog  ", " "]
    outputs = endpoints.complete(tf.constant([TEXTS[0]] * 5), tf.constant(prefixes))
    plain, *others, free = strings(outputs["translation"])
    rest = others[0].removeprefix("the dog ")
    assert rest and "  " not in rest
    assert others == [prefix + rest for prefix in prefixes[1:4]]
    inside = not plain.startswith("the dog ")  # where the model would rather go on
    assert inside == (kind == "bpe")
    if kind == "word" or language == "ja":  # whose sub-words know of no blanks between words
        assert rest == plain.removeprefix("the dog").lstrip(" ")
        close(outputs["score"][:4], [outputs["score"][0]] * 4)
    else:
        assert rest != plain.removeprefix("the dog")
        close(outputs["score"][1:4], [outputs["score"][1]] * 3)
        assert outputs["score"][1] < outputs["score"][0]
    best = endpoints.translate(tf.constant(TEXTS[:1]))
    assert free == f" {strings(best['translation'])[0]}"
    close(outputs["score"][4], best["score"][0])


def test_a_prefix_is_read_as_far_as_a_text_is_scored(endpoints, monkeypatch):
    read = []
    monkeypatch.setattr(
        endpoints, "_translate", lambda source, best, prefixes: read.append(prefixes) or 1 / 0
    )
    with pytest.raises(ZeroDivisionError):
        endpoints.complete(tf.constant(["a dog"]), tf.constant(["the dog " * 60]))
    assert read[0].row_lengths().numpy().tolist() == [4 * LONGEST]


def test_bytes_of_a_prefix_that_are_no_text_are_replaced(endpoints):
    outputs = endpoints.complete(tf.constant([TEXTS[0]]), tf.constant([b"the \xff"]))
    assert strings(outputs["translation"])[0].startswith("the �")


def test_the_alignment_is_the_models_attention(endpoints, monkeypatch):
    monkeypatch.setattr("dtmt_tf.export.endpoints.PAIRS_AT_ONCE", 200)  # a few lines at a time
    outputs = endpoints.align(tf.constant([*TEXTS, LONG]))
    translations = strings(endpoints.translate(tf.constant(TEXTS))["translation"])
    assert strings(outputs["translation"])[:5] == translations
    for k, text in enumerate(TEXTS):
        s, t = int(outputs["source_length"][k]), int(outputs["target_length"][k])
        source = strings(outputs["source_subwords"][k])
        target = strings(outputs["target_subwords"][k])
        assert source[s - 1] == "<eos>" and not any(source[s:]) and not any(target[t:])
        if text.strip():
            assert "".join(source[: s - 1]).replace("▁", " ") == " " + text
            words = [piece for piece in target[:t] if piece != "<eos>"]
            assert "".join(words).replace("▁", " ").strip() == translations[k].strip()
        else:
            assert target[:t] == ["<eos>"]
        source_ids = endpoints.source.encode([text.strip()]).to_tensor()
        pieces = outputs["target_subwords"][k, :t]
        ids = endpoints.target.tokenizer.string_to_id(pieces)
        target_ids = tf.where(pieces == "", 0, ids)  # random weights may find <pad> likely
        expected = endpoints.model.inspect(source_ids, target_ids[None])[1][0]
        attention = outputs["attention"][k].numpy()
        close(attention[:t, :s], expected)
        assert not attention[t:].any() and not attention[:, s:].any()
    # of a long text, the first part
    first = "a dog runs. two dogs run."
    pieces = strings(outputs["source_subwords"][5][: outputs["source_length"][5]])
    assert "".join(pieces).replace("▁", " ") == f" {first}<eos>"


@pytest.mark.parametrize("name", ["translate", "translate_nbest", "align", "score", "complete"])
def test_no_texts_give_no_rows(endpoints, name):
    nothing = [tf.constant([], tf.string)] * (2 if name in ("score", "complete") else 1)
    outputs = getattr(endpoints, name)(*nothing)
    assert [tensor.shape[0] for tensor in outputs.values()] == [0] * len(outputs)
