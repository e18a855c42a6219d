"""Warm-up requests are what the official messages say, and a loaded model answers them."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis.prediction_log_pb2 import PredictionLog

from dtmt_tf.export.signatures import SIGNATURES
from dtmt_tf.export.warmup import read_warmup, sample_pairs, sample_requests, write_warmup

REQUESTS = [
    ("translate", {"text": ["a small dog", "", "Grüße 🙂", "x" * 1000]}),
    ("score", {"source": ["a dog"], "target": ["ein Hund"]}),
    ("", {"text": []}),
]


def official(path):
    """Returns the records of a file, read with the server's own messages."""
    return [PredictionLog.FromString(record.numpy()) for record in tf.data.TFRecordDataset(path)]


def test_the_records_are_equal_to_those_of_the_official_messages(tmp_path):
    path = write_warmup(tmp_path, REQUESTS)
    assert path == tmp_path / "assets.extra" / "tf_serving_warmup_requests"
    expected = []
    for signature, inputs in REQUESTS:
        log = PredictionLog()
        log.predict_log.request.model_spec.signature_name = signature
        for name, texts in inputs.items():
            log.predict_log.request.inputs[name].CopyFrom(tf.make_tensor_proto(texts, tf.string))
        expected.append(log)
    assert official(str(path)) == expected
    octets = [text.encode() for text in REQUESTS[0][1]["text"]]
    assert expected[0].predict_log.request.inputs["text"].string_val == octets


def test_what_is_written_is_read(tmp_path):
    write_warmup(tmp_path, REQUESTS)
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
    path = write_warmup(tmp_path, sample_requests(list(zip(sources, targets, strict=True))))
    model = tf.saved_model.load(str(tmp_path))
    answers = {}
    for log in official(str(path)):
        request = log.predict_log.request
        name = request.model_spec.signature_name
        inputs = {key: tf.constant(tf.make_ndarray(value)) for key, value in request.inputs.items()}
        joined = model.signatures[name](**inputs)["joined"]
        answers.setdefault(name, []).append([text.decode() for text in joined.numpy()])
    assert answers["translate"] == answers["info"] == [["a b"], sources]
    assert answers["score"] == [["a b|der die"], ["a|der", "a b|der die", "a b c|der die das"]]
    assert answers["complete"] == [["a b|der"], ["a|d", "a b|der", "a b c|der d"]]
    assert list(answers) == list(SIGNATURES)


def test_more_than_a_server_takes_are_refused(tmp_path):
    request = ("translate", {"text": ["a"]})
    write_warmup(tmp_path, [request] * 1000)
    with pytest.raises(ValueError, match="at most 1000 warm-up requests. Received: 1001"):
        write_warmup(tmp_path, [request] * 1001)
    assert len(read_warmup(tmp_path)) == 1000


def test_a_model_without_warm_up_requests_has_no_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="tf_serving_warmup_requests"):
        read_warmup(tmp_path)


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


def test_blank_sides_are_left_out_and_few_pairs_repeat():
    assert sample_pairs(["a", " ", "b"], ["A", "B", ""], 2) == [("a", "A"), ("a", "A")]
    with pytest.raises(ValueError, match="text on both sides; none has"):
        sample_pairs(["a"], [" "])
    with pytest.raises(ValueError, match="zip"):
        sample_pairs(["a", "b"], ["c"])
