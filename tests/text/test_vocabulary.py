"""Both sides of a vocabulary: learnt, saved, told apart, sampled."""

import io
import itertools

import pytest
import sentencepiece

from dtmt_tf.config import UNK_ID, DataConfig
from dtmt_tf.errors import UserError
from dtmt_tf.text import Subwords, Vocabulary, train_subwords
from tests.text.test_subword import LINES, SETTINGS, encode, round_trip


@pytest.fixture(scope="module")
def plain():
    return Subwords(train_subwords(LINES, *SETTINGS["plain"]))


@pytest.fixture(scope="module")
def other():
    return Subwords(train_subwords(LINES, *SETTINGS["split digits"]))


def test_a_joint_vocabulary_is_one_object():
    data = DataConfig(source_vocab_size=120, target_vocab_size=50)
    vocabulary = Vocabulary.train(LINES[:200], ["xyz " * 20] * 100, data)
    assert vocabulary.source is vocabulary.target
    assert vocabulary.source.size == 120
    rows = encode(vocabulary.source, ["xyz", "der"])  # it knows both sides
    assert not any(UNK_ID in row for row in rows)


def test_separate_vocabularies_know_their_own_side():
    data = DataConfig(joint_vocabulary=False, source_vocab_size=120, target_vocab_size=9)
    vocabulary = Vocabulary.train(LINES, ["xyz xy z"] * 100, data)
    assert (vocabulary.source.size, vocabulary.target.size) == (120, 9)
    assert UNK_ID in encode(vocabulary.source, ["xq"])[0]
    assert UNK_ID in encode(vocabulary.target, ["der"])[0]
    assert round_trip(vocabulary.target, ["xyz zyx"]) == ["xyz zyx"]


@pytest.mark.parametrize("joint", [True, False])
def test_a_saved_vocabulary_loads_as_it_was(tmp_path, joint):
    data = DataConfig(joint_vocabulary=joint, source_vocab_size=100, target_vocab_size=90)
    old = Vocabulary.train(LINES[:200], LINES[200:], data)
    old.save(tmp_path / "new" / "folder")
    files = sorted(path.name for path in (tmp_path / "new" / "folder").iterdir())
    assert files == ["source.spm", "target.spm"]
    new = Vocabulary.load(tmp_path / "new" / "folder")
    assert (new.source is new.target) == joint
    assert (new.source.model, new.target.model) == (old.source.model, old.target.model)
    assert encode(new.source, LINES[:50]) == encode(old.source, LINES[:50])
    assert encode(new.target, LINES[:50]) == encode(old.target, LINES[:50])


@pytest.mark.parametrize("missing", ["source.spm", "target.spm"])
def test_a_missing_file_is_named(tmp_path, plain, missing):
    Vocabulary(plain, plain).save(tmp_path)
    (tmp_path / missing).unlink()
    with pytest.raises(UserError, match=f"{missing} is missing.*copy it here, or begin anew"):
        Vocabulary.load(tmp_path)


@pytest.mark.parametrize("content", [b"", b"not a model", "half", "foreign"])
@pytest.mark.parametrize("name", Vocabulary.FILES)
def test_a_file_that_holds_no_model_of_ours_is_named(tmp_path, plain, name, content):
    Vocabulary(plain, plain).save(tmp_path)
    if content == "half":
        content = plain.model[: len(plain.model) // 2]
    elif content == "foreign":  # SentencePiece's own ids
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(LINES), model_writer=model, vocab_size=120, minloglevel=2
        )
        content = model.getvalue()
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=rf"{name} holds no sub-words: .*--restart"):
        Vocabulary.load(tmp_path)


def test_a_vocabularys_fingerprint_is_that_of_both_models(tmp_path, plain, other):
    fingerprints = {
        Vocabulary(*pair).fingerprint for pair in itertools.product((plain, other), repeat=2)
    }
    assert len(fingerprints) == 4
    saved = Vocabulary(plain, other)
    saved.save(tmp_path)
    assert Vocabulary.load(tmp_path).fingerprint == saved.fingerprint
    assert len(saved.fingerprint) == 16


def test_each_side_of_a_vocabulary_is_sampled_by_its_own_model(plain, other):
    sides = plain, other
    assert Vocabulary(*sides).samplers(0.0) is None
    for sample, subwords in zip(Vocabulary(*sides).samplers(0.3), sides, strict=True):
        assert sample(LINES, 1) == subwords.sample(LINES, seed=1, dropout_rate=0.3)
