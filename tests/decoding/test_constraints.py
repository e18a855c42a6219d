"""Every phrase is in every hypothesis that ends, and nothing else changes; a toy language."""

import numpy as np
import pytest
import tensorflow as tf

from dtmt_tf.decoding import beam_search, constrained, holding, limited
from dtmt_tf.decoding.constraints import _advance
from tests.decoding.automaton import EOS, Automaton, assert_same_list, mixed_batch, n_best, settings
from tests.reference import numpy_dtmt as ref


def padded(phrases):
    """Lists of phrases as `[B, N, L]`."""
    size = max(len(phrase) for each in phrases for phrase in each)
    result = np.zeros([len(phrases), max(map(len, phrases)), size], np.int32)
    for k, each in enumerate(phrases):
        for n, phrase in enumerate(each):
            result[k, n, : len(phrase)] = phrase
    return result


def holds(ids, phrase):
    """Whether a phrase stands in a hypothesis."""
    return any(tuple(ids[k : k + len(phrase)]) == tuple(phrase) for k in range(len(ids)))


def search(language, batch, phrases, beam, alpha=0.6):
    memories, starts, max_lengths = batch
    step, state, choose = constrained(
        language.step, language.state(memories, starts), tf.constant(padded(phrases))
    )
    return beam_search(step, state, tf.constant(max_lengths), settings(beam, alpha), choose=choose)


def test_constraints_go_with_no_threshold():
    language = Automaton.random(3, 7)
    with pytest.raises(ValueError, match="prune should be 0 with choose. Received: 2.5"):
        beam_search(language.step, language.state([0], [0]), tf.constant([5]),
                    settings(2, 0.6, prune=2.5), choose=lambda *_: None)  # fmt: skip


@pytest.mark.parametrize("beam", [1, 2, 6])
def test_every_phrase_is_in_every_hypothesis_that_ends(beam, rng):
    language = Automaton.random(3, 7)
    memories, starts, max_lengths = mixed_batch(18)
    phrases = [[rng.integers(2, 7, size) for size in sizes]
               for sizes in [(1,), (2,), (3, 1), (1, 1), (2, 3), (1, 2, 2)] * 3]  # fmt: skip
    room = [sum(map(len, each)) for each in phrases]
    lengths = [a + b for a, b in zip(max_lengths, room, strict=True)]
    result = search(language, (memories, starts, lengths), phrases, beam)
    whole = holding(result, tf.constant(padded(phrases)))
    ended = less = 0
    for k, each in enumerate(phrases):
        every, found = n_best(result, k), n_best(whole, k)
        held = [row for row in every if all(holds(row[0], phrase) for phrase in each)]
        assert found == held and found[0] == every[0]
        assert all(row in held for row in every if row[0][-1] == EOS)
        ended += sum(row[0][-1] == EOS for row in every)
        less += len(found) < len(every)
        for ids, log_prob, _ in found:
            expected = language.log_prob(memories[k], starts[k], ids)
            assert log_prob == pytest.approx(expected, rel=1e-5)
    assert ended > (9 if beam > 1 else 3)  # the others reach their maximum length
    assert less > 0 or beam == 1


@pytest.mark.parametrize("alpha", [0.0, 0.6])
@pytest.mark.parametrize("phrases", [[(2,)], [(2, 2)], [(2, 0)], [(2, 2, 0), (0, 2)]])
def test_a_huge_beam_finds_the_best_of_all_that_hold_the_phrases(phrases, alpha):
    words = [[{0: 3, 2: 2}[word] for word in phrase] for phrase in phrases]  # 0 is no word
    language = Automaton.random(4, 4, sharpness=1.0)
    language.log_probs[:, :, 0] = -50.0
    result = search(language, ([0, 2], [3, 9], [5, 5]), [words] * 2, 3**5, alpha)
    for k, (memory, start) in enumerate([(0, 3), (2, 9)]):
        every = ref.exhaustive_search(language.function(memory, start), 4, EOS, 5, alpha)
        best = next(
            each for each in every
            if each[0][-1] == EOS and all(holds(each[0], phrase) for phrase in words)
        )  # fmt: skip
        assert_same_list(n_best(result, k)[:1], [best])


@pytest.mark.parametrize("beam", [1, 4])
def test_sentences_without_phrases_are_unchanged_bit_for_bit(beam):
    language, batch = Automaton.random(5, 9), mixed_batch(12)
    phrases = [[] if k % 2 else [(2, 3)] for k in range(12)]
    mixed = search(language, batch, phrases, beam)
    plain = beam_search(language.step, language.state(*batch[:2]), tf.constant(batch[2]),
                        settings(beam, 0.6))  # fmt: skip
    for found, expected in zip(mixed, plain, strict=True):
        np.testing.assert_array_equal(found[1::2], expected[1::2])
    assert (mixed.ids != plain.ids).numpy()[::2].any()


def test_phrases_are_noticed_wherever_they_begin(rng):
    phrases = [(3, 3, 2), (3, 2, 3, 2), (2,)]
    table, texts = tf.constant(padded([phrases])), rng.integers(2, 4, [1, 30, 9])
    matched = tf.zeros([1, 30, *table.shape[1:]], tf.bool)
    met = tf.zeros([1, 30, 3], tf.bool)
    for t in range(9):
        matched, met = _advance(matched, met, table, tf.constant(texts[:, :, t], tf.int32))
        expected = [[holds(text[: t + 1], phrase) for phrase in phrases] for text in texts[0]]
        np.testing.assert_array_equal(met[0], expected)
    assert 0 < np.count_nonzero(met) < 90


def test_a_limited_step_shares_all_probability_among_the_words_allowed():
    language = Automaton.random(6, 5)
    allowed = np.array([False, True, False, True, True])
    ids, state = tf.zeros([2, 1], tf.int32), language.state([0, 1], [0, 7])
    log_probs, _ = limited(language.step, tf.constant(allowed))(ids, state)
    every, _ = language.step(ids, state)
    expected = np.exp(every) * allowed
    expected /= expected.sum(axis=2, keepdims=True)
    np.testing.assert_allclose(np.exp(log_probs), expected, rtol=1e-5)
