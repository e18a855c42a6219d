"""Small things that the tests of the twin share."""

import math

from . import numpy_dtmt as ref

V_S, V_T = 40_067, 29_405  # vocabularies of the paper's Zh-En system


def logistic(v):
    return 1.0 / (1.0 + math.exp(-v))


def tiny_config(**changes):
    settings = {
        "source_vocab": 9,
        "target_vocab": 7,
        "embedding_dim": 6,
        "units": 8,
        "heads": 4,
        "depth": 2,
        "context_dim": 5,
    }
    return ref.make_config(**{**settings, **changes})


def count_entries(tree):
    if isinstance(tree, dict):
        return sum(count_entries(value) for value in tree.values())
    if isinstance(tree, list):
        return sum(count_entries(value) for value in tree)
    return tree.size
