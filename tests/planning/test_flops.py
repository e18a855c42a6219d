"""Arithmetic is counted as a hand counts it."""

import numpy as np
import pytest
import tensorflow as tf

from dtmt_tf.commands import common
from dtmt_tf.config import TrainingConfig
from dtmt_tf.models import DTMTConfig
from dtmt_tf.planning import flops
from dtmt_tf.planning.random_ids import vocabulary_sizes
from pipelines.benchmark import command as benchmark

# The arithmetic.


def model(**settings):
    config = DTMTConfig(units=6, num_heads=2, encoder_depth=1, query_depth=2, **settings)
    return config.build(11, 13, TrainingConfig())


def test_necessary_arithmetic_is_what_a_hand_counts():
    units, words, context = 6, 5, 10  # state, embedding, attention's result
    source = 2 * (words * 5 * units + units * 4 * units)  # L-GRUs of both directions
    source += 2 * (units * 3 * units)  # their T-GRUs
    source += 2 * units * units  # keys
    target = words * 5 * units + units * 4 * units + 2 * units * 3 * units  # query transition
    target += units * units + 2 * units * context  # attention's query and output
    target += context * 3 * units + units * 3 * units  # decoder transition: a GRU
    target += (words + units + context) * units + units * 13  # readout and softmax
    sentence = 2 * units * units  # first state
    pair = units + 2 * units  # a score from the keys, a share of the annotations
    small = model(embedding_dim=5, context_dim=10, decoder_depth=0, decoder_cell="gru")
    for work in (flops.Work(1, 0, 0, 0, 0, 0), flops.Work(7, 50, 60, 450, 400, 600)):
        products = (
            work.sentences * sentence
            + work.source * source
            + work.target * target
            + work.pairs * pair
        )
        assert flops.forward(small, work) == 2 * products
        assert flops.training(small, work) == 6 * products


def test_a_softmax_costs_the_same_with_a_table_of_its_own():
    work = flops.Work(2, 10, 12, 60, 50, 72)
    untied, tied = (model(embedding_dim=6, tied_embeddings=name) for name in ("none", "target"))
    assert flops.forward(tied, work) == flops.forward(untied, work) > 0


def test_padding_is_no_work():
    source, target = np.array([[5, 6, 1, 0], [7, 1, 0, 0]]), np.array([[3, 1, 0], [4, 5, 1]])
    assert flops.work([(source, target)]) == (2, 5, 5, 3 * 2 + 2 * 3, 3**2 + 2**2, 2**2 + 3**2)
    assert flops.work([(source, target)] * 2) == (4, 10, 10, 24, 26, 26)


def test_the_small_preset_needs_what_the_table_of_peers_says():
    options = benchmark.parse(["train"])
    experiment, _ = common.experiment(options)
    with tf.Graph().as_default():
        small = experiment.model.build(*vocabulary_sizes(experiment), experiment.training)
        per_word = flops.training(small, flops.Work(1, 15, 15, 225, 225, 225)) / 15 / 1e6
    assert per_word == pytest.approx(37.4, abs=0.4)
