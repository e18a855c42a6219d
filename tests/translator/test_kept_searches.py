"""Searches that keep within bounds: graphs that are kept, sentences at once."""

from types import SimpleNamespace

import pytest
import tensorflow as tf

from dtmt_tf.decoding import Hypotheses, Sampling
from dtmt_tf.translator import searches
from dtmt_tf.translator.searches import MOST_GRAPHS, Searches

CARD = {"source_language": "en", "target_language": "en", "decoding": {"beam_size": 6}}


def test_graphs_of_the_latest_ways_to_search_alone_are_kept():
    searches = Searches(SimpleNamespace(), CARD, 2)
    graphs = [searches._graph(key, object) for key in range(MOST_GRAPHS + 5)]
    assert searches._graph(5, object) is graphs[5]
    assert searches._graph(4, object) is not graphs[4]


@pytest.mark.parametrize(("size", "rows"), [(6, 8), (12, 2), (99, 1)])
def test_a_large_beam_takes_fewer_sentences_at_once(monkeypatch, size, rows):
    """With terms, candidates are compared by pairs, as many as the beam's size squared."""
    seen = []

    def find(_, source_ids, lengths, beam, at_once):
        seen.append((beam, at_once))
        shape = tf.shape(source_ids)[0], beam
        return Hypotheses(tf.zeros((*shape, 0), tf.int32), *[tf.zeros(shape)] * 2, tf.zeros(shape))

    monkeypatch.setattr(searches, "find_by_length", find)
    monkeypatch.setattr(searches, "holding", lambda found, _: found)
    made = Searches(SimpleNamespace(write=lambda ids: tf.constant(["x"])), CARD, 8)
    for has_terms in (True, False):
        made._search_graph(size, has_terms, True).get_concrete_function()
    made._sampling_graph(Sampling(), True, size).get_concrete_function()
    plain = max(1, 48 // size)
    assert seen == [(size, rows), (size, plain), (size, plain)]


@pytest.mark.parametrize(
    ("target", "of_words", "joined"),
    [("en", False, "a c"), ("zh", False, "ac"), ("zh", True, "a c")],
)
def test_what_parts_came_to_is_joined_and_weighted_by_their_sub_words(target, of_words, joined):
    pieces = ["a", "b", "c", "d"]
    unknown = "?" if of_words else " ? "  # where a model writes words, a blank is between any two
    written = SimpleNamespace(write=lambda ids: tf.constant(pieces if len(ids) > 1 else [unknown]))
    found = SimpleNamespace(
        ids=tf.ones([2, 2, 1], tf.int32),
        lengths=tf.constant([[3, 3], [2, 0]]),  # the second part has one translation
        scores=tf.constant([[-1.0, -2.0], [-4.0, -5.0]]),
    )
    ids = tf.constant([[5, 6, 7, 1], [8, 1, 0, 0]])
    card = {**CARD, "target_language": target}
    answers = Searches(written, card, 2)._joined(["x"], ids, [(0, 0), (0, 1)], found)
    assert answers == [((joined, -2.0),)]  # (4 x -1 + 2 x -4) / 6
