"""Each fault of the warm-up file, which would keep a server from loading the model, is named."""

import pytest
import tensorflow as tf

from dtmt_tf.export.warmup import WARMUP_FILE, write_warmup


@pytest.mark.parametrize(
    ("request_", "problem"),
    [
        (("serving_default", {"text": ["a", "b"]}), None),
        (("", {"text": ["a"]}), None),
        (("align", {"text": ["a"]}), "the model has no signature 'align'"),
        (
            ("serving_default", {"source": ["a"]}),
            "signature 'serving_default' takes the inputs text. Received: source",
        ),
        (
            ("serving_default", {"text": ["a"], "target": ["b"]}),
            "signature 'serving_default' takes the inputs text. Received: target, text",
        ),
        (("serving_default", {"text": "a"}), "inputs should be rows of text"),
        (("serving_default", {"text": [["a"]]}), "inputs should be rows of text"),
    ],
)
def test_warm_up_requests_must_fit_the_signatures(edit, tmp_path, request_, problem):
    write_warmup(tmp_path, [("serving_default", {"text": ["fine"]}), request_])
    expected = [] if problem is None else [f"{WARMUP_FILE}, request 2: {problem}"]
    assert edit(lambda graph: None) == expected


def test_warm_up_requests_must_have_as_many_rows_in_each_input(edit, tmp_path):
    def change(graph):
        several = graph.signature_def["several"]
        several.CopyFrom(graph.signature_def["serving_default"])
        several.inputs["more"].CopyFrom(several.inputs["text"])

    write_warmup(tmp_path, [("several", {"text": ["a", "b"], "more": ["c"]})])
    assert edit(change) == [f"{WARMUP_FILE}, request 1: inputs should have equally many rows"]


def test_a_damaged_or_endless_warm_up_file_is_found(edit, tmp_path):
    path = write_warmup(tmp_path, [("serving_default", {"text": ["a"]})])
    record = path.read_bytes()
    path.write_bytes(record * 1001)
    assert edit(lambda graph: None) == [f"{WARMUP_FILE}: holds 1001 requests; a server takes 1000"]
    path.write_bytes(record[:-1])
    (problem,) = edit(lambda graph: None)
    assert problem.startswith(f"{WARMUP_FILE}: is damaged: ")
    with tf.io.TFRecordWriter(str(path)) as writer:
        writer.write(b"not a message")
    (problem,) = edit(lambda graph: None)
    assert problem.startswith(f"{WARMUP_FILE}: is damaged: ")
