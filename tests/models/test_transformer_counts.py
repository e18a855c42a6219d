"""Parameters of the Transformer against the totals of its papers."""

import dataclasses

import pytest

from dtmt_tf.models import MODELS
from tests.models.test_parameter_counts import counts_of, total

# Counts.

BASE, BIG = 44_139_008, 176_358_400  # without tables, from the totals of Hao et al. (2019)


@pytest.mark.parametrize(
    ("name", "settings", "count"),
    [
        ("base", {}, BASE + 512 * (1000 + 2 * 700)),
        ("big", {}, BIG + 1024 * (1000 + 2 * 700)),
        ("base", {"tied_embeddings": "target"}, BASE + 512 * (1000 + 700)),
        ("base", {"tied_embeddings": "all"}, BASE + 512 * 1000),
        (
            "base_relpos",  # vectors for keys and values, of 33 distances, in each self-attention
            {},
            BASE + 512 * (1000 + 2 * 700) + 12 * 2 * 33 * 512,
        ),
        ("base_disan", {}, BASE + 512 * (1000 + 2 * 700)),
        ("base", {"pre_norm": True}, BASE + 512 * (1000 + 2 * 700) + 2 * 2 * 512),
    ],
)
def test_body_and_one_row_of_a_table_for_each_word(name, settings, count):
    config = dataclasses.replace(MODELS[f"transformer_{name}"], **settings)
    assert total(config, 1000, 1000 if config.needs_joint_vocabulary else 700) == count


def test_count_of_the_paper_by_part():
    counts = counts_of(MODELS["transformer_big"])  # THUMT's, with DTMT's vocabularies
    assert sum(counts.values()) == 277_608_448
    d = 1024
    attention, feed_forward, norm = 4 * (d * d + d), 8 * d * d + 5 * d, 2 * d
    assert counts == {
        "source embedding": 40_067 * d + d,
        "target embedding": 29_405 * d,
        "encoder": 6 * (attention + feed_forward + 2 * norm),
        "decoder": 6 * (2 * attention + feed_forward + 3 * norm),
        "softmax": 29_405 * d,
    }
