"""A translation has at least so many tokens before its end, whichever way it is searched."""

import numpy as np
import pytest
import tensorflow as tf

from dtmt_tf.config import DecodingConfig
from dtmt_tf.decoding import Sampling, longest_hypotheses, make_search, sample
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

VOCAB, LEAST = 7, 2


@pytest.mark.parametrize("options", [{}, {"prune": 1e6}], ids=["plain", "alive alone"])
@pytest.mark.parametrize("beam", [1, 3])
def test_lists_are_those_of_a_language_that_can_not_end_before(beam, options):
    language = Automaton.random(beam, VOCAB)
    batch = mixed_batch(24)
    found, free = (search(language, *batch, beam, 0.6, min_length=n, **options) for n in (LEAST, 0))
    changed = 0
    for k, (memory, start, max_length) in enumerate(zip(*batch, strict=True)):
        fn = barring(language.function(memory, start), EOS, LEAST)
        expected = ref.beam_search(fn, 0, beam, 0.6, VOCAB, EOS, max_len=max_length)
        number = None if expected[0][0][-1] == EOS else 1  # unfinished ones are told in part
        assert_same_list(n_best(found, k)[:number], expected)
        changed += n_best(free, k)[0][0] != expected[0][0]
    assert changed


def test_samples_are_as_long(rng):
    language = Automaton.random(1, VOCAB)
    memories, starts, lengths = mixed_batch(24)
    seeds = tf.constant(rng.integers(0, 2**40, size=(24, 5, 2)))
    shortest = []
    for least in (0, LEAST):
        found = sample(
            language.step,
            language.state(memories, starts),
            tf.constant(lengths, tf.int32),
            seeds,
            Sampling(),
            DecodingConfig(min_length=least),
        )
        ends = np.equal(found.ids, EOS).any(axis=2)
        shortest.append(found.lengths.numpy()[ends].min())
    assert shortest == [1, LEAST + 1]


@pytest.mark.parametrize("least", [0, 1])
def test_the_setting_reaches_the_search(least):
    language = Automaton.scripted({(): [0, 0.9, 0.1, 0], (2,): [0, 1, 0, 0]}, 4)
    decoding = DecodingConfig(min_length=least)
    assert DecodingConfig().min_length == 0  # the authors' rule
    found = make_search(
        lambda ids: language.state([0], [0]), lambda ids, state: language.step(ids, state),
        decoding,
    )(tf.constant([[5]]))  # fmt: skip
    assert n_best(found, 0)[0][0] == ((EOS,), (2, EOS))[least]


def test_there_is_room_for_the_least_length_and_its_end():
    decoding = DecodingConfig(min_length=6, extra_length=2)
    sources = tf.constant([[9, EOS, 0, 0, 0, 0], [9, 9, 9, 9, 9, EOS]])
    assert longest_hypotheses(sources, decoding).numpy().tolist() == [7, 8]
    prefixes = tf.constant([[5, 5], [5, 0]])
    assert longest_hypotheses(sources, decoding, prefixes).numpy().tolist() == [9, 9]
