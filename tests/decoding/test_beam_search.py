import math

import numpy as np
import pytest
import tensorflow as tf

from dtmt_tf.config import DecodingConfig
from dtmt_tf.decoding import beam_search, make_search
from tests.decoding.automaton import (
    EOS,
    Automaton,
    assert_same_list,
    mixed_batch,
    n_best,
    search,
    search_one,
    settings,
)
from tests.reference import numpy_dtmt as ref

# Against the plain-Python search.


@pytest.mark.parametrize("beam", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("vocab", [4, 5, 6, 7])
def test_n_best_lists_equal_the_reference(vocab, beam):
    alpha = [0.0, 0.6, 1.0][(vocab + beam) % 3]  # each with every beam and every vocabulary
    language = Automaton.random(beam, vocab)
    batch = mixed_batch(24)
    result = search(language, *batch, beam, alpha)
    assert result.ids.shape == (24, beam, 8)
    unfinished = fewer = early = 0
    for k, (memory, start, max_length) in enumerate(zip(*batch, strict=True)):
        expected = ref.beam_search(
            language.function(memory, start), 0, beam, alpha, vocab, EOS, max_len=max_length
        )
        found = n_best(result, k)
        if expected[0][0][-1] == EOS:
            assert_same_list(found, expected)
            fewer += len(expected) < beam
            early += max(len(ids) for ids, _, _ in expected) < max_length
        else:
            assert len(found) <= beam
            assert_same_list(found[:1], expected)
            unfinished += 1
    # The grid is worth something only if it reaches every way to end.
    assert unfinished > 0 and early > 0
    assert fewer > 0 or beam == 1


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
@pytest.mark.parametrize("vocab, max_length", [(3, 5), (4, 4)])
def test_huge_beam_equals_exhaustive_search(vocab, max_length, alpha):
    language = Automaton.random(4, vocab, sharpness=1.0)
    memories, starts = [0, 2, 4, 0, 2, 4], [0, 9, 18, 27, 36, 45]
    unfinished = (vocab - 1) ** max_length  # more hypotheses than are ever alive or end
    result = search(language, memories, starts, [max_length] * 6, unfinished, alpha)
    for k in range(6):
        fn = language.function(memories[k], starts[k])
        best = ref.exhaustive_search(fn, vocab, EOS, max_length, alpha)[0]
        assert_same_list(n_best(result, k)[:1], [best])


def test_a_wider_beam_finds_what_greedy_search_misses():
    language = Automaton.scripted(
        {(): [0.4, 0.0, 0.6], (2,): [0.1, 0.5, 0.4], (0,): [0.0, 1.0, 0.0]}, 3
    )
    (greedy,) = search_one(language, 2, 1, 0.0)
    best = search_one(language, 2, 2, 0.0)[0]
    assert (greedy[0], best[0]) == ((2, EOS), (0, EOS))
    np.testing.assert_allclose(np.exp([greedy[1], best[1]]), [0.3, 0.4], rtol=1e-6)


# By hand.


def test_a_scripted_step_spells_a_string():
    letters = "#$abeglnstuzÜ"
    ids = [letters.index(letter) for letter in "Übungssatz$"]
    table = {}
    for n, word in enumerate(ids):
        row = [0.1 / (len(letters) - 1)] * len(letters)
        row[word] = 0.9
        table[tuple(ids[:n])] = row
    found = search_one(Automaton.scripted(table, len(letters)), 20, 4, 0.6)
    assert "".join(letters[k] for k in found[0][0]) == "Übungssatz$"
    assert found[0][1] == pytest.approx(11 * math.log(0.9), rel=1e-5)
    assert found[0][2] == pytest.approx(11 * math.log(0.9) / (16 / 6) ** 0.6, rel=1e-5)


def test_the_length_penalty_decides_between_short_and_long():
    table = {(): [0.0, 0.5, 0.5], (2,): [0.0, 0.1, 0.9], (2, 2): [0.0, 0.8, 0.2]}
    language = Automaton.scripted(table | {(2, 2, 2): [0.0, 1.0, 0.0]}, 3)
    assert search_one(language, 4, 2, 0.0)[0][0] == (EOS,)
    assert search_one(language, 4, 2, 5.0)[0][0] == (2, 2, EOS)


def test_finished_hypotheses_take_no_beam_place():
    # Two places, <eos> the best word: 2 and 3 live on, and (3, <eos>) wins by length.
    language = Automaton.scripted({(): [0.01, 0.5, 0.3, 0.19], (3,): [0.0, 1.0, 0.0, 0.0]}, 4)
    ids, log_p, score = search_one(language, 2, 2, 8.0)[0]
    assert ids == (3, EOS)
    assert log_p == pytest.approx(math.log(0.19), rel=1e-6)
    assert score == pytest.approx(math.log(0.19) / (7 / 6) ** 8, rel=1e-6)


def test_greedy_search_ends_with_the_best_word():
    # Two words would win by length, but <eos> is the best first word.
    language = Automaton.scripted({(): [0.01, 0.59, 0.4], (2,): [0.0, 1.0, 0.0]}, 3)
    ((ids, _, _),) = search_one(language, 5, 1, 5.0)
    assert ids == (EOS,)
    assert language.steps == 1


def test_search_stops_when_the_worst_finished_beats_the_bound():
    # Without a penalty the bound is log 0.4 < log 0.59: over after one step, one place free.
    language = Automaton.scripted({(): [0.01, 0.59, 0.4], (2,): [0.0, 1.0, 0.0]}, 3)
    assert [ids for ids, _, _ in search_one(language, 50, 2, 0.0)] == [(EOS,)]
    assert language.steps == 1


def test_the_bound_is_that_of_the_longest_hypothesis_allowed():
    # log 0.4 / lp(L) passes log 0.59 at lp 1.737 (alpha 0.6): between L = 10 and 11. Nothing else
    # ends, so a maximum length of 10 stops at once and 11 goes on.
    table = {(): [0.0, 0.59, 0.41]} | {(2,) * n: [0.5, 0.0, 0.5] for n in range(1, 12)}
    limit = math.log(0.41) / math.log(0.59)
    length = next(n for n in range(1, 100) if ((5 + n) / 6) ** 0.6 > limit)
    for max_length, one_step in ((length - 1, True), (length, False)):
        language = Automaton.scripted(table, 3)
        search_one(language, max_length, 2, 0.6)
        assert (language.steps == 1) == one_step


def test_a_search_that_looks_ahead_ends_if_nothing_can_overtake_by_then():
    # <eos> has log 0.59. The other word is sure of eleven more tokens: log 0.41 / lp(L) is higher
    # from some L on, which after the first step is L - 1 tokens ahead.
    sure = {(2,) * n: [0.0, 0.0, 1.0] for n in range(1, 11)} | {(2,) * 11: [0.0, 1.0, 0.0]}
    limit = math.log(0.41) / math.log(0.59)
    length = next(n for n in range(1, 100) if ((5 + n) / 6) ** 0.6 > limit)
    for lookahead, best in ((2**31 - 1, 12), (length - 1, 12), (length - 2, 1)):
        language = Automaton.scripted({(): [0.0, 0.59, 0.41]} | sure, 3)
        found = search_one(language, 50, 2, 0.6, lookahead=lookahead)
        assert len(found[0][0]) == best
        assert language.steps == (1 if best == 1 else 12)
        decoding = DecodingConfig(beam_size=2, length_penalty=0.6, lookahead=lookahead)
        state = language.state([0], [0])
        run = make_search(lambda _, state=state: state, language.step, decoding)
        assert run(tf.constant([[5]])).lengths[0, 0] == best


def test_search_goes_on_while_a_living_hypothesis_may_beat_the_worst_finished():
    # After two words 0.54 and 0.04 are finished and 0.36 lives: it replaces the second.
    table = {(): [0.4, 0.0, 0.6], (2,): [0.1, 0.9, 0.0], (0,): [0.0, 0.1, 0.9]}
    language = Automaton.scripted(table | {(0, 2): [0.0, 1.0, 0.0]}, 3)
    found = search_one(language, 53, 2, 0.0)
    assert [ids for ids, _, _ in found] == [(2, EOS), (0, 2, EOS)]
    assert language.steps == 3


def test_the_best_living_hypothesis_is_returned_when_nothing_finishes():
    table = {(): [0.3, 0.0, 0.7]} | {(2,) * n: [0.1, 0.0, 0.9] for n in range(1, 9)}
    ((ids, log_p, score),) = search_one(Automaton.scripted(table, 3), 5, 1, 0.6)
    assert ids == (2,) * 5
    assert log_p == pytest.approx(math.log(0.7 * 0.9**4), rel=1e-6)
    assert score == pytest.approx(log_p / (10 / 6) ** 0.6, rel=1e-6)


def test_the_first_step_has_one_living_slot():
    # Otherwise all places would hold the same best word.
    found = search_one(Automaton.scripted({(): [0.3, 0.0, 0.7]}, 3), 1, 4, 0.0)
    assert [ids for ids, _, _ in found] == [(2,), (0,)]


def test_impossible_words_are_never_taken():
    table = {(): [0.0, 0.0, 1.0], (2,): [0.0, 1.0, 0.0]}
    ((ids, log_p, score),) = search_one(Automaton.scripted(table, 3), 6, 5, 0.6)
    assert (ids, log_p, score) == ((2, EOS), 0.0, 0.0)


@pytest.mark.parametrize("seed", range(5))
def test_beam_of_one_follows_the_most_probable_words(seed):
    # The best word has 0.9: no detour can win against 0.9^8.
    random = np.random.default_rng(seed)
    vocab, nodes = 6, 40
    best = random.choice([0, 1, 2, 3, 4, 5], p=[0.17, 0.15, 0.17, 0.17, 0.17, 0.17], size=nodes)
    probs = np.full((1, nodes, vocab), 0.02)
    probs[0, np.arange(nodes), best] = 0.9
    language = Automaton(np.log(probs), random.integers(0, nodes, size=(nodes, vocab)))
    result = search(language, [0] * nodes, list(range(nodes)), [8] * nodes, 1, 0.0)
    for start in range(nodes):
        path, node = [], start
        while len(path) < 8 and EOS not in path:
            path.append(int(best[node]))
            node = language.follow[node, path[-1]]
        if EOS in path:  # else a detour to <eos> is all there is
            ((ids, log_p, _),) = n_best(result, start)
            assert ids == tuple(path)
            assert log_p == pytest.approx(len(path) * math.log(0.9), rel=1e-5)


# State.


def test_hidden_state_follows_the_hypotheses():
    # Log probabilities depend on every word before, by hidden state alone, in several tensors.
    vocab, size, beam = 5, 7, 4
    random = np.random.default_rng(3)
    weights = tf.constant(random.normal(size=(size, vocab, vocab)) * 2, tf.float32)
    records = []

    def step(ids, state):
        hidden, memory = state
        prefix, (time, total) = hidden["prefix"], hidden["rest"]
        here = tf.range(size)[None, None] == time[:, :, None] - 1
        prefix = tf.where(here, ids[:, :, None], prefix)
        seen = tf.where(tf.range(size) < time[:, :, None], prefix, 0)
        known = tf.cast(tf.range(size) < time[:, :, None], tf.float32)
        hot = tf.one_hot(seen, vocab) * known[..., None]
        log_probs = tf.nn.log_softmax(tf.einsum("bktv,tvw->bkw", hot, weights) + memory[:, None])
        records.append((prefix.numpy(), time.numpy(), ids.numpy()))
        total = total + tf.cast(ids, tf.float64)[..., None]
        return log_probs, ({"prefix": prefix, "rest": (time + 1, total)}, memory)

    def log_prob(ids, memory):
        total = 0.0
        for t, word in enumerate(ids):
            logits = memory + sum(weights.numpy()[n, ids[n]] for n in range(t))
            total += ref.log_softmax(np.asarray(logits, np.float64))[word]
        return total

    memory = random.normal(size=(3, vocab)).astype(np.float32)
    memory[:, EOS] -= 4.0
    hidden = {
        "prefix": tf.zeros([3, 1, size], tf.int32),
        "rest": (tf.zeros([3, 1], tf.int32), tf.zeros([3, 1, 2], tf.float64)),
    }
    result = beam_search(
        step, (hidden, tf.constant(memory)), tf.constant([size] * 3),
        settings(beam, 0.6),
    )  # fmt: skip
    for sentence in range(3):
        for ids, log_p, _ in n_best(result, sentence):
            assert log_p == pytest.approx(log_prob(ids, memory[sentence]), rel=1e-5)
    # Places did change hands, and each prefix grows out of one of the step before.
    crossed = 0
    for (before, _, _), (after, time, ids) in zip(records[1:], records[2:], strict=False):
        t = int(time[0, 0])
        np.testing.assert_array_equal(after[:, :, t - 1], ids)
        for b, k in np.ndindex(3, beam):
            origins = [tuple(row[: t - 1]) for row in before[b]]
            assert tuple(after[b, k, : t - 1]) in origins
            crossed += origins[k] != tuple(after[b, k, : t - 1])
    assert crossed > 0


def test_memory_is_not_repeated_and_hypotheses_share_one_call():
    language = Automaton.random(1, 5)
    search(language, *mixed_batch(7), 3, 0.6)
    assert language.seen[0] == ((7, 3), (7, 3), (7,))
    assert all(seen == ((seen[0][0], 3), (seen[0][0], 3), (seen[0][0],)) for seen in language.seen)


def test_the_first_ids_are_zero():
    first = []

    def step(ids, state):
        first.append(ids.numpy())
        return tf.math.log(tf.fill([2, 3, 4], 0.25)), state

    beam_search(
        step, (tf.zeros([2, 1, 1]), tf.zeros([2])), tf.constant([2, 2]),
        settings(3, 0.0),
    )  # fmt: skip
    np.testing.assert_array_equal(first[0], np.zeros((2, 3), np.int32))
