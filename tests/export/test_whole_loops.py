"""Loops of an export are whole where that is faster, and translate the same either way."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from dtmt_tf.config import DecodingConfig
from dtmt_tf.export import saved_model
from dtmt_tf.export.signatures import SIGNATURES
from tests.export.test_endpoints import TEXTS, make

DECODING = DecodingConfig(beam_size=2, extra_length=4, batch_size=2)


@pytest.fixture(autouse=True)
def one_signature(monkeypatch):
    """Exports one signature, which has loops and branches enough."""
    monkeypatch.setattr(saved_model, "SIGNATURES", {"translate": SIGNATURES["translate"]})


def exported(endpoints, folder):
    return saved_model.export_saved_model(endpoints, folder, {"task": "toy"})


def taken_apart(folder):
    """Returns for each loop and branch whether TensorFlow is to take it apart."""
    saved = saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes())
    graph = saved.meta_graphs[0].graph_def
    nodes = [node for function in graph.library.function for node in function.node_def]
    found = [node for node in [*graph.node, *nodes] if node.op.endswith(("While", "If"))]
    assert len(found) > 10
    return [node.attr["_lower_using_switch_merge"].b for node in found]


def test_loops_are_whole_and_translate_as_the_model_does(tmp_path):
    endpoints = make(DECODING)
    version = exported(endpoints, tmp_path / "1")
    assert not any(taken_apart(version))
    text = tf.constant(TEXTS)
    found, expected = (
        tf.saved_model.load(str(version)).signatures["translate"](text=text),
        endpoints.translate(text),
    )
    assert found["translation"].numpy().tolist() == expected["translation"].numpy().tolist()
    np.testing.assert_allclose(found["score"], expected["score"], rtol=1e-5, atol=1e-6)


def test_loops_in_bfloat16_are_taken_apart(tmp_path):
    endpoints = make(dataclasses.replace(DECODING, precision="bfloat16"))
    assert all(taken_apart(exported(endpoints, tmp_path / "1")))


@pytest.mark.parametrize(
    ("large", "changed", "whole"),
    [
        (16 * 60 + 1, {}, True),
        (16 * 60, {}, False),  # the output, of 60 sub-words
        (16 * 60 + 1, {"precision": "bfloat16"}, False),
        (16 * 40 + 1, {"shortlist": 5}, True),  # which takes a few rows of the output
        (16 * 40, {"shortlist": 5}, False),
    ],
)
def test_loops_are_whole_where_all_products_are_small(monkeypatch, large, changed, whole):
    shapes = [(99, 16), (60, 16), (16, 60), (16, 40), (16,), (3, 16, 500)]  # source, target, output
    endpoints = SimpleNamespace(
        source=SimpleNamespace(size=99),
        target=SimpleNamespace(size=60),
        decoding=dataclasses.replace(DECODING, **changed),
        model=SimpleNamespace(variables=[np.zeros(shape) for shape in shapes]),
    )
    monkeypatch.setattr(saved_model, "LARGE", large)
    assert saved_model.keeps_loops_whole(endpoints) == whole
