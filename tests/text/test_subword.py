import dataclasses
import logging
import pickle
import random

import pytest
import sentencepiece
import tensorflow as tf

from dtmt_tf.config import EOS_ID, PAD_ID, UNK_ID, DataConfig
from dtmt_tf.errors import UserError
from dtmt_tf.text import Subwords, TooFewSubwords, Vocabulary, subword, train_subwords

SYLLABLES = "ba der Äp fel grü ß un können ly 1 23 405 . , ! -Ö z’ (sch) é ich ung ver 9% &".split()


def make_lines(count, seed=0):
    """Text of several alphabets' worth of oddities, blanks doubled here and there."""
    chance = random.Random(seed)
    lines = []
    for _ in range(count):
        words = [
            "".join(chance.choices(SYLLABLES, k=chance.randint(1, 4)))
            for _ in range(chance.randint(1, 9))
        ]
        lines.append("".join(word + chance.choice([" ", " ", " ", "  ", "   "]) for word in words))
    return [line.rstrip(" ") if chance.random() < 0.7 else line for line in lines]


LINES = make_lines(400)
SETTINGS = {
    "plain": (120, DataConfig()),
    "split digits": (120, DataConfig(split_digits=True)),
    "byte fallback": (400, DataConfig(byte_fallback=True)),
    "nmt_nfkc_cf": (120, DataConfig(normalization="nmt_nfkc_cf")),
}


@pytest.fixture(scope="module")
def models():
    return {name: Subwords(train_subwords(LINES, *setting)) for name, setting in SETTINGS.items()}


@pytest.fixture(scope="module")
def plain(models):
    return models["plain"]


def processor(subwords):
    """The SentencePiece library's own reading of a model."""
    return sentencepiece.SentencePieceProcessor(model_proto=subwords.model)


def encode(subwords, texts):
    return subwords.encode(tf.constant(texts, tf.string)).to_list()


def round_trip(subwords, texts):
    ids = subwords.encode(tf.constant(texts)).to_tensor()
    return [text.decode() for text in subwords.decode(ids).numpy()]


# Ids.


@pytest.mark.parametrize("name", SETTINGS)
def test_lists_equal_the_ids_of_the_graph(models, name):
    random_ = random.Random(1)
    planes = [(32, 127), (160, 0x2FFF), (0xFF00, 0xFFEF), (0x1F300, 0x1F6FF)]
    odd = ["".join(chr(random_.randint(*random_.choice(planes))) for _ in range(12))
           for _ in range(500)]  # fmt: skip
    texts = [*LINES, *odd, "", " ", "\t", "ﬁ ① Å", "e\u0301", "x" * 3000]
    assert models[name].encode_lists(texts) == encode(models[name], texts)


def test_a_pickled_model_is_the_same(plain):
    copy = pickle.loads(pickle.dumps(plain))
    assert copy.model == plain.model
    assert copy.encode_lists(LINES) == plain.encode_lists(LINES)


@pytest.mark.parametrize("name", SETTINGS)
def test_ids_start_with_pad_eos_unk(models, name):
    assert (PAD_ID, EOS_ID, UNK_ID) == (0, 1, 2)
    library = processor(models[name])
    assert [library.id_to_piece(k) for k in range(3)] == ["<pad>", "<eos>", "<unk>"]
    assert (library.pad_id(), library.eos_id(), library.unk_id()) == (0, 1, 2)
    assert library.bos_id() == -1
    assert [k for k in range(library.get_piece_size()) if library.is_control(k)] == [0, 1]


@pytest.mark.parametrize("name", SETTINGS)
def test_the_vocabulary_has_the_size_asked_for(models, name):
    assert models[name].size == processor(models[name]).get_piece_size() == SETTINGS[name][0]


@pytest.mark.parametrize("name", SETTINGS)
def test_graph_ids_equal_the_library_ids_and_eos(models, name):
    unseen = make_lines(200, seed=1)
    odd = [
        "漢字 und ÄÖÜ",
        "x\ty",
        "  two",
        "12345 67",
        "",
        " ",
        "ﬁ ①",
        "a\u00a0b",
        "<eos> <unk>",
        "🙂",
    ]
    texts = LINES[:100] + unseen + odd
    expected = [[*ids, EOS_ID] for ids in processor(models[name]).encode(texts)]
    assert encode(models[name], texts) == expected


def test_encode_runs_in_a_graph_of_unknown_batch_size(plain):
    graph = tf.function(plain.encode, input_signature=[tf.TensorSpec([None], tf.string)])
    for texts in ([], LINES[:1], LINES[:7]):
        ids = graph(tf.constant(texts, tf.string))
        assert ids.dtype == tf.int32
        assert ids.to_list() == encode(plain, texts)


def test_every_row_ends_in_the_only_eos(plain):
    rows = encode(plain, [*LINES[:50], "", "<eos>", "</s>"])
    assert all(row[-1] == EOS_ID and row.count(EOS_ID) == 1 for row in rows)
    assert all(PAD_ID not in row for row in rows)
    assert rows[50] == [EOS_ID]


def test_frequent_words_become_one_subword(plain):
    lengths = [len(row) - 1 for row in encode(plain, LINES)]
    assert sum(lengths) < 0.75 * sum(len(line) for line in LINES)


def test_split_digits_keeps_digits_apart(models):
    (row,) = encode(models["split digits"], ["405405"])
    library = processor(models["split digits"])
    assert [library.id_to_piece(k) for k in row] == ["▁", *"405405", "<eos>"]
    joined = [processor(models["plain"]).id_to_piece(k) for k in range(120)]
    assert any(piece.isdigit() and len(piece) > 1 for piece in joined)
    split = [library.id_to_piece(k) for k in range(120)]
    assert not any(piece.strip("▁").isdigit() and len(piece) > 1 for piece in split)


def test_unknown_characters_become_unk(plain):
    rows = encode(plain, ["漢", "der漢der", "漢字"])
    assert [row.count(UNK_ID) for row in rows] == [1, 1, 1]  # neighbours share one
    assert not any(UNK_ID in row for row in encode(plain, LINES))


def test_byte_fallback_leaves_nothing_unknown(models):
    texts = ["漢字 der 🙂", "x\ty"]
    assert not any(UNK_ID in row for row in encode(models["byte fallback"], texts))
    assert round_trip(models["byte fallback"], texts) == texts
    ids = models["byte fallback"].encode(texts).to_tensor()
    as_it_stands = models["byte fallback"].decode(ids, tf.fill(ids.shape, "never"))
    assert [text.decode() for text in as_it_stands.numpy()] == texts


# Round trip.


@pytest.mark.parametrize("name", ["plain", "split digits", "byte fallback"])
def test_decode_undoes_encode(models, name):
    texts = [
        *make_lines(200, seed=2),
        "der  der",
        "der ",
        "der   ",
        "Äpfel,  grün!",
        "12.405 9%",
        "",
    ]
    assert any("  " in text for text in texts) and any(text.endswith(" ") for text in texts)
    assert round_trip(models[name], texts) == texts


@pytest.mark.parametrize("text", [" der", "  Äpfel", "   ", " 1"])
def test_decode_drops_leading_blanks_and_nothing_else(plain, text):
    assert round_trip(plain, [text]) == [text.lstrip(" ")]


def test_normalisation_happens_once_and_then_stays(models):
    texts = ["ÄPFEL  ﬁ", "der", "GRÜSSE"]
    once = round_trip(models["nmt_nfkc_cf"], texts)
    assert once[1] == "der" and once[0].startswith("äpfel")
    assert round_trip(models["nmt_nfkc_cf"], once) == once


def test_identity_normalisation_changes_no_character(models):
    text = "ungÄpÖ"
    assert round_trip(models["plain"], [text]) == [text]
    assert round_trip(models["nmt_nfkc_cf"], [text]) == [text.lower()]


def test_decode_ignores_pad_and_eos(plain):
    (row,) = encode(plain, ["der Äpfel"])
    ids = [
        [*row, PAD_ID, PAD_ID, PAD_ID],
        [PAD_ID, EOS_ID, *row[:2], PAD_ID, *row[2:]],
        [PAD_ID] * (len(row) + 3),
    ]
    ids = [one + [PAD_ID] * (len(row) + 3 - len(one)) for one in ids]
    assert [text.decode() for text in plain.decode(tf.constant(ids)).numpy()] == [
        "der Äpfel",
        "der Äpfel",
        "",
    ]


def test_decode_shows_unk(plain):
    ids = tf.constant([[*encode(plain, ["der"])[0][:-1], UNK_ID, EOS_ID]])
    assert plain.decode(ids)[0].numpy().decode() == "der ⁇ "


def test_decode_runs_in_a_graph_of_unknown_shape(plain):
    graph = tf.function(plain.decode, input_signature=[tf.TensorSpec([None, None], tf.int32)])
    ids = plain.encode(LINES[:5]).to_tensor()
    assert graph(ids).numpy().tolist() == [line.encode() for line in LINES[:5]]
    assert graph(tf.zeros([0, 4], tf.int32)).shape == (0,)


# Training.


def test_training_is_deterministic():
    size, data = SETTINGS["plain"]
    assert train_subwords(LINES, size, data) == train_subwords(iter(LINES), size, data)
    assert train_subwords(LINES, size, data) != train_subwords(LINES[:200], size, data)


@pytest.mark.parametrize("side", ["source", "target"])
def test_too_large_a_vocabulary_names_the_setting_and_the_most_that_the_text_has(side):
    texts = {"source": ["ab"] * 9, "target": ["ab"] * 9} | {side: ["abc"] * 9}
    data = DataConfig(joint_vocabulary=False, source_vocab_size=8, target_vocab_size=8)
    larger = dataclasses.replace(data, **{f"{side}_vocab_size": 50})
    with pytest.raises(TooFewSubwords) as error:
        Vocabulary.train(*texts.values(), larger)
    assert error.value.setting == f"{side}_vocab_size"
    assert f"`data.{side}_vocab_size` should be at most {error.value.most}" in str(error.value)
    assert train_subwords(texts[side], error.value.most, data)


def test_too_small_a_vocabulary_is_a_user_error():
    with pytest.raises(UserError, match=r"10 sub-words(.|\n)*data\.source_vocab_size"):
        train_subwords(LINES, 10, DataConfig())


def test_of_too_many_lines_some_are_taken_and_the_log_says_so(monkeypatch, caplog):
    monkeypatch.setattr(subword, "MAX_LINES", 1000)
    rare = ["abab"] * 5000 + ["cdcd"] * 5000  # evenly: the first 1,000 hold no c
    with caplog.at_level(logging.INFO):
        model = train_subwords(iter(rare), 11, DataConfig())
    assert "1,000 of 10,000 lines" in caplog.text
    pieces = Subwords(model)
    assert not any(UNK_ID in row for row in encode(pieces, ["ab", "cd"]))
    assert train_subwords(iter(rare), 11, DataConfig()) == model


def test_of_few_lines_all_are_taken(monkeypatch, caplog):
    with caplog.at_level(logging.INFO):
        found = processor(Subwords(train_subwords(LINES, 200, DataConfig())))
    assert "learnt from" not in caplog.text
    monkeypatch.setattr(subword, "MAX_LINES", 0)  # SentencePiece's own word for all
    expected = processor(Subwords(train_subwords(LINES, 200, DataConfig())))
    assert [(found.id_to_piece(k), found.get_score(k)) for k in range(200)] == [
        (expected.id_to_piece(k), expected.get_score(k)) for k in range(200)
    ]


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([], "There is no training text"),
        (["word " * 20_000, "x" * 70_000], "'word word .* has 100,000 bytes. Put one sentence on"),
        (["\u2585"] * 9, "without the character U.2585"),
    ],
)
def test_text_that_has_no_line_to_learn_from_is_a_user_error(lines, told):
    with pytest.raises(UserError, match=told):
        train_subwords(lines, 100, DataConfig())


def test_lines_too_long_to_learn_from_are_told_of(caplog):
    long = ["x" * subword.MAX_BYTES, "q" * (subword.MAX_BYTES + 1), "ü" * subword.MAX_BYTES]
    found = processor(Subwords(train_subwords([*LINES, *long], 120, DataConfig())))
    assert "not learnt from 2 lines of more than 65,536 bytes" in caplog.text
    assert [found.encode(text)[1] for text in ("x", "q")] == [found.piece_to_id("x"), UNK_ID]


# Both languages.


def test_sampling_cuts_words_anew_and_spells_the_same(plain):
    lines = [line for line in LINES if line == line.strip()][:60]
    whole = encode(plain, lines)
    assert plain.sample(lines, seed=1, dropout_rate=0.0) == whole
    rows = plain.sample(lines, seed=1, dropout_rate=0.3)
    assert sum(map(len, rows)) > 1.1 * sum(map(len, whole))
    assert all(row[-1] == EOS_ID for row in rows)
    for row, line in zip(rows, whole, strict=True):
        texts = plain.decode(tf.ragged.constant([row, line]).to_tensor()).numpy()
        assert texts[0] == texts[1]


def test_sampling_depends_on_the_seed_alone(plain):
    first = plain.sample(LINES[:60], seed=1, dropout_rate=0.3)
    assert plain.sample(LINES[:60], seed=2, dropout_rate=0.3) != first
    assert plain.sample(LINES[:60], seed=1, dropout_rate=0.3) == first
    assert plain.sample(LINES[:60], seed=1, dropout_rate=0.3) == first


def test_rare_characters_are_unknown_where_coverage_says_so():
    text = [*["ab ba abab"] * 99, "z"]
    for share, size, known in ((1.0, 7, True), (0.99, 6, False)):
        data = DataConfig(character_coverage=share)
        (ids,) = Subwords(train_subwords(text, size, data)).encode(["z"]).to_list()
        assert (UNK_ID in ids) is not known


@pytest.mark.parametrize("error", [KeyboardInterrupt(), UserError("a damaged shard")])
def test_what_reading_the_text_ends_in_is_not_taken_for_sub_words_that_cannot_be_made(error):
    def lines():
        yield "ab ab cd"
        raise error

    with pytest.raises(type(error)) as raised:
        train_subwords(lines(), 20, DataConfig())
    assert raised.value is error
