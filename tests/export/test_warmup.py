"""Warm-up requests of every signature, which a loaded model answers."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from dtmt_tf.errors import UserError
from dtmt_tf.export.signatures import SIGNATURES
from dtmt_tf.export.warmup import sample_pairs, sample_requests, write_warmup
from dtmt_tf.translator.warmup import read_warmup

REQUESTS = [
    ("translate", {"text": ["a small dog", "", "Grüße 🙂", "x" * 1000]}),
    ("score", {"source": ["a dog"], "target": ["ein Hund"]}),
    ("", {"text": []}),
]


def test_what_is_written_is_read(tmp_path):
    path = write_warmup(tmp_path, REQUESTS)
    assert path == tmp_path / "assets.extra" / "tf_serving_warmup_requests"
    for (name, inputs), (expected, texts) in zip(read_warmup(tmp_path), REQUESTS, strict=True):
        assert name == expected
        assert {key: [text.decode() for text in rows] for key, rows in inputs.items()} == texts


def test_a_loaded_model_answers_them(tmp_path):
    """Each signature of a toy answers with its inputs joined."""
    archive = keras.export.ExportArchive()
    for name, signature in SIGNATURES.items():
        archive.add_endpoint(
            name,
            lambda *texts: {"joined": tf.strings.join(texts, "|")},
            input_signature=[tf.TensorSpec([None], tf.string, key) for key in signature.inputs],
        )
    archive.track(keras.Variable(1.0))
    archive.write_out(str(tmp_path), verbose=False)
    sources, targets = ["a", "a b", "a b c"], ["der", "der die", "der die das"]
    write_warmup(tmp_path, sample_requests(list(zip(sources, targets, strict=True))))
    model = tf.saved_model.load(str(tmp_path))
    answers = {}
    for name, inputs in read_warmup(tmp_path):
        tensors = {key: tf.constant(texts) for key, texts in inputs.items()}
        joined = model.signatures[name](**tensors)["joined"]
        answers.setdefault(name, []).append([text.decode() for text in joined.numpy()])
    assert answers["translate"] == answers["info"] == [["a b"], sources]
    assert answers["score"] == [["a b|der die"], ["a|der", "a b|der die", "a b c|der die das"]]
    assert answers["complete"] == [["a b|der"], ["a|d", "a b|der", "a b c|der d"]]
    assert list(answers) == list(SIGNATURES)


def test_a_model_may_have_no_warm_up_requests(tmp_path):
    assert [*read_warmup(tmp_path)] == []


def test_pairs_of_every_length_are_chosen_and_always_the_same(rng):
    lengths = rng.permutation(np.arange(1, 101))
    sources = ["x" * length for length in lengths]
    targets = [f"{length}" for length in lengths]
    # the middles of 1 to 25, 26 to 50, 51 to 75 and 76 to 100
    expected = [("x" * length, f"{length}") for length in (13, 38, 63, 88)]
    assert sample_pairs(sources, targets, 4) == expected
    assert sample_pairs(sources[::-1], targets[::-1], 4) == expected


def test_each_signature_gets_a_pair_alone_and_all_together():
    requests = sample_requests([("a", "AA"), ("b", "BB"), ("c", "CC")])
    assert [name for name, _ in requests] == [name for name in SIGNATURES for _ in range(2)]
    assert [inputs for name, inputs in requests if name == "complete"] == [
        {"source": ["b"], "prefix": ["B"]},
        {"source": ["a", "b", "c"], "prefix": ["A", "B", "C"]},
    ]


def test_a_request_has_no_more_pairs_than_a_model_takes():
    def accepts(name, *texts):
        return name != "align" and len("".join(texts[0])) <= 3

    requests = sample_requests([("a", "A"), ("bb", "B"), ("cccc", "C"), ("d" * 9, "D")], 8, accepts)
    assert [name for name, _ in requests] == [name for name in SIGNATURES if name != "align"]
    assert requests[0] == ("serving_default", {"text": ["a", "bb"]})


def test_blank_sides_are_left_out_and_few_pairs_repeat():
    assert sample_pairs(["a", " ", "b"], ["A", "B", ""], 2) == [("a", "A"), ("a", "A")]
    with pytest.raises(UserError, match="text on both sides; none has"):
        sample_pairs(["a"], [" "])
    with pytest.raises(ValueError, match="zip"):
        sample_pairs(["a", "b"], ["c"])
