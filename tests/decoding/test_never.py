"""A token that is never written: searches and samples are those of a language without it."""

import numpy as np
import pytest
import tensorflow as tf

from dtmt_tf.config import DecodingConfig
from dtmt_tf.decoding import Sampling, Shortlist, make_search, sample
from tests.decoding.automaton import (
    EOS,
    Automaton,
    assert_same_list,
    barring,
    mixed_batch,
    n_best,
    search,
)
from tests.reference import numpy_dtmt as ref

VOCAB, NEVER = 7, 2


@pytest.mark.parametrize("options", [{}, {"prune": 1e6}], ids=["plain", "alive alone"])
@pytest.mark.parametrize("beam", [1, 3])
def test_lists_are_those_of_a_language_without_it(beam, options):
    language = Automaton.random(beam, VOCAB)
    batch = mixed_batch(24)
    found, free = (search(language, *batch, beam, 0.6, never=k, **options) for k in ([NEVER], []))
    assert NEVER in free.ids.numpy() and NEVER not in found.ids.numpy()
    for k, (memory, start, max_length) in enumerate(zip(*batch, strict=True)):
        fn = barring(language.function(memory, start), NEVER)
        expected = ref.beam_search(fn, 0, beam, 0.6, VOCAB, EOS, max_len=max_length)
        number = None if expected[0][0][-1] == EOS else 1  # unfinished ones are told in part
        assert_same_list(n_best(found, k)[:number], expected)


def test_a_prefix_may_hold_it():
    language = Automaton.random(3, VOCAB)
    prefixes = tf.constant([[NEVER, 4], [NEVER, 0], [0, 0]])
    found = search(
        language, [0, 2, 4], [0, 9, 18], [6] * 3, 3, 0.6, never=[NEVER], prefixes=prefixes
    )
    assert (found.ids.numpy()[0, :, :2] == [NEVER, 4]).all()
    assert (found.ids.numpy()[1, :, 0] == NEVER).all()
    assert not (found.ids.numpy()[:2, :, 2:] == NEVER).any() and NEVER not in found.ids.numpy()[2]
    for k in range(2):
        for ids, log_prob, _ in n_best(found, k):
            assert log_prob == pytest.approx(language.log_prob(2 * k, 9 * k, ids), rel=1e-5)


def test_samples_do_without_it(rng):
    language = Automaton.random(1, VOCAB)
    memories, starts, lengths = mixed_batch(24)
    seeds = tf.constant(rng.integers(0, 2**40, size=(24, 5, 2)))
    free, found, less = (
        sample(
            language.step,
            language.state(memories, starts),
            tf.constant(lengths, tf.int32),
            seeds,
            Sampling(),
            DecodingConfig(),
            never=never,
        )
        for never in ([], [NEVER], [NEVER, 3])
    )
    assert NEVER in free.ids.numpy() and NEVER not in found.ids.numpy()
    assert 3 in found.ids.numpy() and not {NEVER, 3} & set(less.ids.numpy().flat)


@pytest.mark.parametrize("always", [[2, 4, 5], [4, 5]])
def test_a_shortlist_has_it_at_another_place_or_not(always):
    """Places are 0 and <eos>, then those of the list: there place 2 may be another token's."""
    log_probs = tf.math.log([0.0, 0.1, 0.6, 0.0, 0.3, 0.0])

    def step(ids, state):
        logits = tf.gather(log_probs, words) if words is not None else log_probs
        return tf.broadcast_to(logits, [*ids.shape, logits.shape[0]]), state

    words = None
    shortlist = Shortlist(np.full([9, 1], EOS), np.array(always), 6)
    words = shortlist(tf.constant([[5]]), 2).tokens
    found = make_search(
        lambda ids: (tf.zeros([1, 1]), tf.zeros([1])),
        step,
        DecodingConfig(beam_size=2, extra_length=1),
        shortlist,
        never=[NEVER],
    )(tf.constant([[5]]))
    assert NEVER not in found.ids.numpy() and 4 in found.ids.numpy()
