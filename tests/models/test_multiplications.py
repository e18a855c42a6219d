"""Arithmetic that Transformers tell, against the matrix products that TensorFlow runs."""

import contextlib
import math

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import op_callbacks

from dtmt_tf.config import TrainingConfig
from dtmt_tf.layers import FUSIONS
from dtmt_tf.models import RecurrenceTransformerConfig, TransformerConfig
from dtmt_tf.planning import flops

SIZES = {"model_dim": 6, "filter_dim": 7, "num_heads": 2, "encoder_layers": 2, "decoder_layers": 2}
WORDS_S, WORDS_T = 11, 13
MODELS = {
    "transformer": TransformerConfig(**SIZES),
    "tied": TransformerConfig(**SIZES, tied_embeddings="target"),
    "relative positions": TransformerConfig(**SIZES, relative_distance=2),
    "biarn": RecurrenceTransformerConfig(**SIZES, recurrence_steps=3),
    "two layers, gated, all": RecurrenceTransformerConfig(
        **SIZES,
        recurrence_layers=2,
        recurrence_steps=3,
        fusion="gated_sum",
        fusion_layers="all",
    ),
    "as long as the sentence": RecurrenceTransformerConfig(
        **SIZES, recurrence="arn", recurrence_layers=2, recurrence_steps=0
    ),
    "birnn": RecurrenceTransformerConfig(**SIZES, recurrence="birnn", recurrence_layers=2),
    "columns": RecurrenceTransformerConfig(**SIZES, recurrence="birnn", fusion="columns"),
}
MODELS |= {
    f"fusion {name}": RecurrenceTransformerConfig(**SIZES, recurrence_steps=3, fusion=name)
    for name in FUSIONS
}


@contextlib.contextmanager
def products():
    """Gives a list that gets the operations of each product of matrices that is run."""
    found = []

    def note(op_type, inputs, attrs, outputs, *_):
        if "MatMul" in str(op_type):  # [.., m, k], either way round, and [.., k, n] to [.., m, n]
            (left, *_), (result,) = inputs, outputs
            inner = math.prod(left.shape[-2:]) // result.shape[-2]
            found.append(2 * inner * math.prod(result.shape))

    op_callbacks.add_op_callback(note)
    try:
        yield found
    finally:
        op_callbacks.remove_op_callback(note)


@pytest.mark.filterwarnings("ignore:You are using a softmax over axis")
@pytest.mark.parametrize("name", MODELS)
def test_the_arithmetic_is_that_of_the_products_that_are_run(name):
    model = MODELS[name].build(WORDS_S, WORDS_T, TrainingConfig())
    for layer in model._flatten_layers():
        layer.unroll = True  # else Keras tries the first step of a recurrence once more
    # 5 sentences of 9 and 4 words, numbers that are no width, layer or step of a model
    ids = [np.full([5, length], 3, np.int32) for length in (9, 4)]
    with products() as found:
        model(*map(tf.constant, ids))
    assert flops.forward(model, flops.work([tuple(ids)])) == sum(found) > 0
