"""Settings that a model says it does not read change nothing, and the others do."""

import dataclasses
import functools

import numpy as np
import pytest

from dtmt_tf.config import TrainingConfig
from dtmt_tf.models import (
    DeepLAUConfig,
    DeepRNNConfig,
    DTMTConfig,
    RecurrenceTransformerConfig,
)

DTMT = DTMTConfig(embedding_dim=4, units=4, num_heads=2, encoder_depth=0, query_depth=0)
SHALLOW = dataclasses.replace(DTMT, decoder_depth=0)
ONE = dataclasses.replace(DTMT, decoder_depth=1)
TWO = dataclasses.replace(DTMT, decoder_depth=2)
RNN = DeepRNNConfig(embedding_dim=4, units=4)
HIGH = dataclasses.replace(RNN, decoder_depth=2, high_transition=2)
LAU = DeepLAUConfig(embedding_dim=4, units=4, encoder_depth=1, decoder_depth=1)
BIARN = RecurrenceTransformerConfig(4, 8, 2, encoder_layers=1, decoder_layers=2)


@functools.cache
def logits(config):
    """Of two words, by a model with its first weights."""
    model = config.build(9, 7, TrainingConfig())
    return np.asarray(model(np.array([[4, 1]]), np.array([[3, 1]])))


def changed(config, **values):
    return dataclasses.replace(config, **values)


@pytest.mark.parametrize(
    ("config", "values", "is_read"),
    [
        (SHALLOW, {"transition_offset": -3.0}, False),
        (SHALLOW, {"transition_scale": 0.5}, False),
        (ONE, {"transition_offset": -3.0}, True),
        (ONE, {"transition_scale": 0.5}, True),
        (ONE, {"transition_offset_step": -1.0}, False),
        (TWO, {"transition_offset_step": -1.0}, True),
        (TWO, {"use_gru_candidate_bias": True}, False),
        (changed(ONE, query_cell="gru"), {"use_gru_candidate_bias": True}, True),
        (RNN, {"high_cell": "rgru"}, False),
        (RNN, {"high_transition": 3}, False),
        (RNN, {"transition_offset": -3.0}, False),
        (changed(RNN, encoder_transition=2), {"transition_offset": -3.0}, True),
        (changed(RNN, decoder_transition=3), {"transition_offset": -3.0}, True),
        (HIGH, {"high_cell": "rgru"}, True),
        (HIGH, {"high_transition": 3}, True),
        (HIGH, {"transition_offset": -3.0}, True),
        (changed(HIGH, high_cell="crgru"), {"transition_offset": -3.0}, False),
        (changed(HIGH, high_cell="crgru", high_transition=3), {"transition_offset": -3.0}, True),
        (LAU, {"connection": "residual"}, False),
        (changed(LAU, decoder_depth=2), {"connection": "residual"}, True),
        (changed(LAU, encoder_depth=2), {"connection": "residual"}, True),
        (BIARN, {"recurrence_steps": 3}, True),
        (changed(BIARN, recurrence="birnn"), {"recurrence_steps": 3}, False),
        (BIARN, {"fusion_layers": "all"}, True),
        (changed(BIARN, decoder_layers=1), {"fusion_layers": "all"}, False),
        (
            changed(BIARN, recurrence="birnn", fusion="columns"),
            {"fusion_layers": "all"},
            False,
        ),
    ],
    ids=lambda value: "_".join(value) if isinstance(value, dict) else "",
)
def test_a_setting_is_called_unread_only_where_it_changes_nothing(config, values, is_read):
    (name,) = values
    assert (name in config.unread) != is_read
    before, after = logits(config), logits(changed(config, **values))
    assert np.array_equal(before, after) != is_read
