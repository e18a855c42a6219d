"""Phrases that a translation must hold, and words that it may be made of.

Lexically constrained beam search by dynamic beam allocation (Post and Vilar, 2018,
arXiv:1804.06609): hypotheses compete only with those that hold as many tokens of the phrases. Here
the best of each of these banks is kept, then the second best of each, and so on, as long as the
beam has places.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from dtmt_tf.config import EOS_ID
from dtmt_tf.decoding.beam_search import (
    MINUS_INFINITY,
    Choose,
    Hypotheses,
    Step,
    best_continuations,
)


def constrained(
    step: Step, state: tuple[Any, Any], phrases: tf.Tensor
) -> tuple[Step, tuple[Any, Any], Choose]:
    """Makes `beam_search` find hypotheses that hold all of a sentence's phrases.

    None ends before it holds them all. At each step a hypothesis with most tokens of the phrases
    goes on with the next token, so phrases of C tokens need C steps. The maximum length should
    leave room for C tokens, and the beam should have more than C places.

    Args:
        step: See `beam_search`.
        state: Its first state.
        phrases: Tokens of N phrases for each sentence, `[B, N, L]` int32, padded with 0 at the end;
            those of no token ask for nothing. They may overlap in a hypothesis.

    Returns:
        The step, the state and the choice for `beam_search`. Sentences without phrases are
        searched as without these.
    """
    hidden, memory = state
    matched = tf.zeros_like(phrases, tf.bool)[:, None]  # [B, 1, N, L]
    met = tf.equal(_lengths(phrases), 0)[:, None]  # [B, 1, N]

    def constrained_step(ids: tf.Tensor, state: Any) -> tuple[tf.Tensor, Any]:
        (hidden, matched, met), (memory, phrases) = state
        matched, met = _advance(matched, met, phrases, ids)
        log_probs, (hidden, memory) = step(ids, (hidden, memory))
        is_end = tf.equal(tf.range(log_probs.shape[-1]), EOS_ID)
        early = ~tf.reduce_all(met, axis=2)[..., None] & is_end
        log_probs = tf.where(early, MINUS_INFINITY, log_probs)
        return log_probs, ((hidden, matched, met), (memory, phrases))

    def choose(totals: tf.Tensor, state: Any, number: int) -> tuple[tf.Tensor, tf.Tensor]:
        (_, matched, met), (_, phrases) = state
        batch, (beams, vocab_size) = tf.shape(totals)[0], totals.shape[1:]
        size = tf.reduce_sum(_lengths(phrases), axis=1, keepdims=True)  # [b, 1]
        _, best = best_continuations(totals, number)
        each = tf.argmax(totals, axis=2, output_type=tf.int32)[..., None]
        more = tf.concat([each, _next_tokens(matched, met, phrases)], axis=2)  # [b, K, 1 + N]
        asked = tf.broadcast_to(more > 0, tf.shape(more)) & (size > 0)[..., None]
        more += vocab_size * tf.range(beams)[:, None]
        flat = tf.concat([best, tf.reshape(more, [batch, -1])], axis=1)  # [b, C]
        asked = tf.concat([tf.ones_like(best, tf.bool), tf.reshape(asked, [batch, -1])], axis=1)
        values = tf.gather(tf.reshape(totals, [batch, -1]), flat, batch_dims=1)
        asked &= values > MINUS_INFINITY / 2
        places = tf.range(tf.shape(flat)[1])
        earlier = places < places[:, None]  # [C, C]: in the row of one, those before it
        same = tf.equal(flat[:, None], flat[..., None])
        asked &= ~tf.reduce_any(asked[:, None] & same & earlier, axis=2)

        origins, tokens = flat // vocab_size, flat % vocab_size
        matched, met = (tf.gather(each, origins, batch_dims=1) for each in (matched, met))
        banks = _banks(*_advance(matched, met, phrases, tokens), phrases)
        banks = tf.where(tf.equal(tokens, EOS_ID), size + 1, banks)  # takes no place from others
        rivals = asked[:, None] & tf.equal(banks[:, None], banks[..., None])
        higher = values[:, None] > values[..., None]
        equal = earlier & tf.equal(values[:, None], values[..., None])
        rank = tf.math.count_nonzero(rivals & (higher | equal), axis=2, dtype=tf.int32)
        last = tf.shape(flat)[1] * (size + 2)
        order = tf.argsort(
            tf.where(asked, rank * (size + 2) + size + 1 - banks, last), axis=1, stable=True
        )
        values = tf.where(asked, values, MINUS_INFINITY)
        return tf.gather(values, order, batch_dims=1), tf.gather(flat, order, batch_dims=1)

    return constrained_step, ((hidden, matched, met), (memory, phrases)), choose


def holding(hypotheses: Hypotheses, phrases: tf.Tensor) -> Hypotheses:
    """Returns n-best lists without the hypotheses that lack a phrase.

    Where a maximum length ends a search, those are in it that were still on their way.

    Args:
        hypotheses: What a constrained search found.
        phrases: See `constrained`.
    """
    times, size = tf.shape(hypotheses.ids)[2], tf.shape(phrases)[2]
    padded = tf.pad(hypotheses.ids, [[0, 0], [0, 0], [0, size]])
    windows = tf.gather(padded, tf.range(times)[:, None] + tf.range(size), axis=2)  # [b, K, T, L]
    phrases = phrases[:, None, :, None]  # [b, 1, N, 1, L]
    here = tf.reduce_all(tf.equal(windows[:, :, None], phrases) | tf.equal(phrases, 0), axis=4)
    held = tf.reduce_all(tf.reduce_any(here, axis=3), axis=2) & (hypotheses.lengths > 0)
    order = tf.argsort(tf.where(held, 0, 1), axis=1, stable=True)
    result = Hypotheses(
        tf.where(held[..., None], hypotheses.ids, 0),
        tf.where(held, hypotheses.scores, MINUS_INFINITY),
        tf.where(held, hypotheses.log_probs, MINUS_INFINITY),
        tf.where(held, hypotheses.lengths, 0),
    )
    return Hypotheses(*(tf.gather(tensor, order, batch_dims=1) for tensor in result))


def limited(step: Step, allowed: tf.Tensor) -> Step:
    """Returns a step whose hypotheses are made of some tokens alone.

    The others are left out before the softmax, as a lexical shortlist does (Jean et al., 2015,
    arXiv:1412.2007).

    Args:
        step: See `beam_search`.
        allowed: Which tokens may be written, `[V]`; <eos> should be among them.
    """

    def limited_step(ids: tf.Tensor, state: Any) -> tuple[tf.Tensor, Any]:
        log_probs, state = step(ids, state)
        return tf.nn.log_softmax(tf.where(allowed, log_probs, MINUS_INFINITY)), state

    return limited_step


def _lengths(phrases: tf.Tensor) -> tf.Tensor:
    """Returns the number of tokens of phrases `[b, N, L]`, `[b, N]`."""
    return tf.math.count_nonzero(phrases, axis=2, dtype=tf.int32)


def _advance(
    matched: tf.Tensor, met: tf.Tensor, phrases: tf.Tensor, tokens: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Reads one token of each hypothesis.

    Args:
        matched: Whether a hypothesis ends with the first l + 1 tokens of a phrase, `[b, K, N, L]`;
            the shift-and automaton of Baeza-Yates and Gonnet (1992).
        met: Whether it holds the phrase, `[b, K, N]`.
        phrases: `[b, N, L]`.
        tokens: `[b, K]`; 0 is of no phrase.
    """
    before = tf.pad(matched[..., :-1], [[0, 0], [0, 0], [0, 0], [1, 0]], constant_values=True)
    matched = before & tf.equal(tokens[..., None, None], phrases[:, None]) & (phrases > 0)[:, None]
    last = tf.one_hot(_lengths(phrases) - 1, tf.shape(phrases)[2], True, False)
    return matched, met | tf.reduce_any(matched & last[:, None], axis=3)


def _progress(matched: tf.Tensor) -> tf.Tensor:
    """Returns how many tokens of each phrase a hypothesis ends with, `[b, K, N]`."""
    return tf.reduce_max(tf.where(matched, tf.range(1, tf.shape(matched)[3] + 1), 0), axis=3)


def _banks(matched: tf.Tensor, met: tf.Tensor, phrases: tf.Tensor) -> tf.Tensor:
    """Returns how many tokens of the phrases a hypothesis holds, `[b, K]`.

    They are those of phrases it holds, and of the one begun that has most.
    """
    held = tf.reduce_sum(tf.where(met, _lengths(phrases)[:, None], 0), axis=2)
    return held + tf.reduce_max(tf.where(met, 0, _progress(matched)), axis=2)


def _next_tokens(matched: tf.Tensor, met: tf.Tensor, phrases: tf.Tensor) -> tf.Tensor:
    """Returns the token with which each phrase goes on, `[b, K, N]`; 0 where it is held."""
    here = tf.one_hot(_progress(matched), tf.shape(phrases)[2], dtype=tf.int32)
    return tf.where(met, 0, tf.reduce_sum(here * phrases[:, None], axis=3))
