"""A step function to ranked hypotheses."""

from dtmt_tf.decoding.beam_search import Hypotheses, beam_search
from dtmt_tf.decoding.by_length import by_length, lengths_of, longest_of
from dtmt_tf.decoding.constraints import constrained, holding, limited
from dtmt_tf.decoding.length_penalty import length_penalty
from dtmt_tf.decoding.sampling import Sampling, sample
from dtmt_tf.decoding.search import (
    find_by_length,
    longest_hypotheses,
    make_search,
    normalised,
)
from dtmt_tf.decoding.shortlist import Shortlist

__all__ = [
    "Hypotheses",
    "Sampling",
    "Shortlist",
    "beam_search",
    "by_length",
    "constrained",
    "find_by_length",
    "holding",
    "length_penalty",
    "lengths_of",
    "limited",
    "longest_hypotheses",
    "longest_of",
    "make_search",
    "normalised",
    "sample",
]
