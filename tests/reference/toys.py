"""Small things that the tests of the twin share."""

import math

from . import numpy_dtmt as ref


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
