"""Sentences in batches: their own results, early leave, prefixes, graphs."""

import numpy as np
import pytest
import tensorflow as tf

from dtmt_tf.decoding import beam_search
from dtmt_tf.decoding.beam_search import best_continuations
from tests.decoding.automaton import (
    EOS,
    Automaton,
    assert_same_list,
    mixed_batch,
    n_best,
    search,
    settings,
)
from tests.reference import numpy_dtmt as ref


@pytest.mark.parametrize("alpha", [0.0, 0.6])
@pytest.mark.parametrize("beam", [1, 4])
def test_a_sentence_is_translated_alike_in_any_company(beam, alpha):
    language = Automaton.random(2, 6)
    batch = mixed_batch(18)
    together = search(language, *batch, beam, alpha)
    for k, (memory, start, max_length) in enumerate(zip(*batch, strict=True)):
        alone = search(language, [memory], [start], [max_length], beam, alpha)
        assert n_best(together, k) == n_best(alone, 0)  # to the last bit
    backwards = search(language, *(column[::-1] for column in batch), beam, alpha)
    for k in range(18):
        assert n_best(together, k) == n_best(backwards, 17 - k)


def test_a_finished_sentence_leaves_and_its_neighbours_go_on():
    language = Automaton.random(2, 6)
    batch = mixed_batch(18)
    search(language, *batch, 2, 0.6)
    together = [ids[0] for ids, _, _ in language.seen]
    steps = []
    for row in zip(*batch, strict=True):
        before = language.steps
        search(language, *([value] for value in row), 2, 0.6)
        steps.append(language.steps - before)
    assert together == [sum(length > k for length in steps) for k in range(max(steps))]
    assert len(set(together)) > 2


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_the_hypotheses_that_are_wanted_are_final_and_fewer_take_fewer_steps(alpha):
    language = Automaton.random(2, 6)
    batch = mixed_batch(60)
    everything = search(language, *batch, 5, alpha)
    calls = []
    for wanted in (1, 2, 4):
        before = len(language.seen)
        result = search(language, *batch, 5, alpha, wanted=wanted)
        calls.append(sum(ids[0] for ids, _, _ in language.seen[before:]))
        for k in range(60):
            assert n_best(result, k)[:wanted] == n_best(everything, k)[:wanted]
    assert calls[0] < calls[1] < calls[2]


# The largest of long rows.


@pytest.mark.parametrize("size", [1, 31, 32, 700, 1000])
@pytest.mark.parametrize("k", [1, 10])
def test_the_largest_are_those_of_top_k(size, k):
    values = np.random.default_rng(size).normal(size=(9, size + k)).astype(np.float32)
    values[1] = np.round(values[1])  # among equals the first
    values[2, 1:] = -1e30
    values[3] = np.sort(values[3])
    values[4] = values[3, ::-1]
    values[5] = -np.inf
    expected = tf.math.top_k(values, k)
    for found in (best_continuations(tf.constant(values[:, None]), k), of_unknown_size(values, k)):
        for left, right in zip(found, expected, strict=True):
            np.testing.assert_array_equal(left, right)


def of_unknown_size(values, k):
    """The same of two hypotheses, by a graph that does not know how many words there are."""
    rows = np.full([len(values), 2 * 32 * 32], -np.inf, np.float32)
    rows[:, : values.shape[1]] = values
    spec = tf.TensorSpec([None, 2, None], tf.float32)
    function = tf.function(lambda totals: best_continuations(totals, k), input_signature=[spec])
    return function(tf.constant(rows.reshape([len(values), 2, -1])))


# Prefixes.


@pytest.mark.parametrize("beam", [1, 3])
def test_hypotheses_begin_with_their_prefix_and_are_the_best_of_those(beam):
    language = Automaton.random(3, 5)
    memories, starts = [0, 2, 4, 0], [3, 11, 25, 40]
    prefixes = [[2, 3, 2], [4, 0, 0], [0, 0, 0], [3, 3, 0]]
    result = beam_search(
        language.step, language.state(memories, starts), tf.constant([8] * 4),
        settings(beam, 0.6), prefixes=tf.constant(prefixes),
    )  # fmt: skip
    free = search(language, memories, starts, [8] * 4, beam, 0.6)
    assert n_best(result, 2) == n_best(free, 2)
    for k, prefix in enumerate(prefixes):
        words = tuple(word for word in prefix if word)

        def log_prob_fn(ids, k=k, words=words):
            log_probs = language.function(memories[k], starts[k])(ids)
            if len(ids) < len(words):
                return np.where(np.arange(5) == words[len(ids)], log_probs, -np.inf)
            return log_probs

        found = n_best(result, k)
        assert all(ids[: len(words)] == words for ids, _, _ in found)
        assert_same_list(found, ref.beam_search(log_prob_fn, 0, beam, 0.6, 5, EOS, max_len=8))
    assert n_best(free, 0)[0][0][:3] != (2, 3, 2)


@pytest.mark.parametrize("beam", [1, 3])
def test_an_end_of_a_prefix_stands_for_what_begins_a_word(beam):
    language, begins = Automaton.random(3, 5), np.array([False, False, True, False, True])
    memories, starts = [0, 2, 4, 0], [3, 11, 25, 40]
    prefixes = [[2, 3, EOS], [4, EOS, 0], [EOS, 0, 0], [3, 3, 0]]
    options = {"prefixes": tf.constant(prefixes)}
    result = search(language, memories, starts, [8] * 4, beam, 0.6, begins=begins, **options)
    for k, prefix in enumerate(prefixes):

        def log_prob_fn(ids, k=k, prefix=prefix):
            log_probs = language.function(memories[k], starts[k])(ids)
            token = prefix[len(ids)] if len(ids) < len(prefix) else 0
            left = begins | (np.arange(5) == EOS) if token == EOS else np.arange(5) == token
            return np.where(left, log_probs, -np.inf) if token else log_probs

        expected = ref.beam_search(log_prob_fn, 0, beam, 0.6, 5, EOS, max_len=8)
        assert_same_list(n_best(result, k), expected)
    assert n_best(result, 0)[0][0][2] in {EOS, 2, 4}
    plain = search(language, memories, starts, [8] * 4, beam, 0.6, **options)
    assert n_best(plain, 0)[0][0] == (2, 3, EOS)  # by default it is the end


def test_no_sentences_give_no_hypotheses():
    result = search(Automaton.random(0, 5), [], [], [], 3, 0.6)
    assert [len(tensor) for tensor in result] == [0, 0, 0, 0]
    assert result.ids.shape[1] == result.scores.shape[1] == 3


@pytest.mark.parametrize("beam", [1, 3])
def test_a_graph_of_unknown_shapes_equals_eager_search(beam):
    language = Automaton.random(5, 6)

    def step(ids, state):  # a model's readout forgets how many hypotheses there are
        log_probs, state = language.step(ids, state)
        return tf.compat.v1.placeholder_with_default(log_probs, [None, None, 6]), state

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32)] * 3)
    def graph(memories, starts, max_lengths):
        nodes = starts[:, None]
        return beam_search(
            step,
            ({"node": nodes, "time": tf.zeros_like(nodes)}, memories),
            max_lengths,
            settings(beam, 0.6),
        )

    for size in (1, 5, 12, 0):
        batch = mixed_batch(size)
        result = graph(*(tf.constant(column, tf.int32) for column in batch))
        expected = search(language, *batch, beam, 0.6)
        for k in range(size):
            assert_same_list(n_best(result, k), n_best(expected, k))
        assert result.ids.shape == expected.ids.shape


def test_hidden_state_of_unknown_width_runs_in_a_graph():
    @tf.function(
        input_signature=[
            tf.TensorSpec([None, 1, None], tf.float32),
            tf.TensorSpec([None, None, None], tf.float32),
        ]
    )
    def graph(hidden, memory):
        def step(ids, state):
            hidden, memory = state
            context = tf.reduce_mean(memory, axis=1)[:, None]  # [B, 1, W]
            hidden = tf.tanh(hidden + context + tf.cast(ids, tf.float32)[..., None])
            logits = tf.reduce_sum(hidden, -1, keepdims=True) * tf.constant([0.1, 0.2, 0.5, -0.4])
            return tf.nn.log_softmax(logits), (hidden, memory)

        return beam_search(
            step, (hidden, memory), tf.fill([tf.shape(hidden)[0]], 6),
            settings(3, 0.6),
        )  # fmt: skip

    random = np.random.default_rng(0)
    hidden = random.normal(size=(4, 1, 5)).astype(np.float32)
    memory = random.normal(size=(4, 3, 5)).astype(np.float32)
    result = graph(hidden, memory)

    def log_prob_fn(prefix, b=2):
        h = hidden[b, 0].astype(np.float64)
        for word in (0, *prefix):
            h = np.tanh(h + memory[b].mean(axis=0) + word)
        return ref.log_softmax(h.sum() * np.array([0.1, 0.2, 0.5, -0.4]))

    expected = ref.beam_search(log_prob_fn, 0, 3, 0.6, 4, EOS, max_len=6)
    found = n_best(result, 2)
    np.testing.assert_allclose(found[0][1:], expected[0][1:], rtol=1e-5)
    assert found[0][0] == expected[0][0]


def test_hidden_state_may_grow_in_a_graph():
    # The state is nothing but the words so far, which the log probabilities depend on.
    vocab, beam, size = 5, 3, 6
    table = np.random.default_rng(4).normal(size=(size, vocab, vocab)) * 2

    def step(ids, state):
        (words,), memory = state
        words = tf.concat([words, ids[:, :, None]], axis=2)  # the first one stands for nothing
        rows = tf.reshape(tf.constant(table, tf.float32), [size * vocab, vocab])
        chosen = tf.gather(rows, words + vocab * tf.range(tf.shape(words)[2]))  # [B, K, t, V]
        logits = tf.reduce_sum(chosen[:, :, 1:], axis=2) + memory[:, None]
        return tf.nn.log_softmax(logits), ([words], memory)

    @tf.function(input_signature=[tf.TensorSpec([None, vocab], tf.float32)])
    def graph(memory):
        batch = tf.shape(memory)[0]
        hidden = [tf.zeros([batch, 1, 0], tf.int32)]
        return beam_search(step, (hidden, memory), tf.fill([batch], size), settings(beam, 0.6))

    memory = np.random.default_rng(5).normal(size=(3, vocab)).astype(np.float32)
    result = graph(memory)
    for sentence in range(3):

        def log_prob_fn(prefix, first=memory[sentence]):
            logits = sum((table[t, word] for t, word in enumerate(prefix, 1)), np.float64(first))
            return ref.log_softmax(logits)

        expected = ref.beam_search(log_prob_fn, 0, beam, 0.6, vocab, EOS, max_len=size)
        assert_same_list(n_best(result, sentence), expected)
