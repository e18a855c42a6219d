"""Loops of an export are whole where that is faster, and translate the same either way."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from dtmt_tf.config import DecodingConfig
from dtmt_tf.export import saved_model
from tests.export.test_endpoints import TEXTS, make

DECODING = DecodingConfig(beam_size=2, extra_length=4, batch_size=2)


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


def test_loops_are_whole_where_products_are_small(tmp_path, monkeypatch):
    endpoints = make(DECODING)
    whole = exported(endpoints, tmp_path / "whole")
    monkeypatch.setattr(saved_model, "LARGE", saved_model.largest_product(endpoints))
    apart = exported(endpoints, tmp_path / "apart")
    assert not any(taken_apart(whole)) and all(taken_apart(apart))
    text = tf.constant(TEXTS)
    left, right = (
        tf.saved_model.load(str(each)).signatures["translate"](text=text) for each in (whole, apart)
    )
    assert left["translation"].numpy().tolist() == right["translation"].numpy().tolist()
    np.testing.assert_allclose(left["score"], right["score"], rtol=1e-5, atol=1e-6)


def test_loops_in_bfloat16_are_taken_apart(tmp_path):
    endpoints = make(dataclasses.replace(DECODING, precision="bfloat16"))
    assert all(taken_apart(exported(endpoints, tmp_path / "1")))


@pytest.mark.parametrize("shortlist", [0, 5])
def test_the_output_is_a_product_without_a_shortlist(shortlist):
    shapes = [(99, 16), (60, 16), (16, 60), (16, 40), (16,), (3, 16, 500)]  # source, target, output
    endpoints = SimpleNamespace(
        source=SimpleNamespace(size=99),
        target=SimpleNamespace(size=60),
        decoding=DecodingConfig(shortlist=shortlist),
        model=SimpleNamespace(trainable_variables=[np.zeros(shape) for shape in shapes]),
    )
    assert saved_model.largest_product(endpoints) == 16 * (40 if shortlist else 60)
