"""Beam search over any step function, in the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from dtmt_tf.decoding.length_penalty import length_penalty

MINUS_INFINITY = -1e30  # stays finite in sums

Step = Callable[[tf.Tensor, Any], tuple[tf.Tensor, Any]]


class Hypotheses(NamedTuple):
    """The n-best list of each sentence, best first; K is the beam size."""

    ids: tf.Tensor  # [B, K, T] int32, with <eos> if finished, padded with 0
    scores: tf.Tensor  # [B, K] float32, log probability over length penalty
    log_probs: tf.Tensor  # [B, K] float32, natural logarithms
    lengths: tf.Tensor  # [B, K] int32, with <eos>; 0 where there are fewer than K hypotheses


class _Search(NamedTuple):
    """Loop variables."""

    time: tf.Tensor  # [] sub-words generated so far
    done: tf.Tensor  # [B] nothing can change any more
    ids: tf.Tensor  # [B, K, T] of the hypotheses alive
    log_probs: tf.Tensor  # [B, K]
    state: Any  # (hidden [B, K, ...], memory [B, ...])
    finished_ids: tf.Tensor  # [B, K, T]
    finished_scores: tf.Tensor  # [B, K]
    finished_log_probs: tf.Tensor  # [B, K]
    finished_lengths: tf.Tensor  # [B, K], 0 where unfilled


def beam_search(
    step: Step,
    state: tuple[Any, Any],
    max_lengths: tf.Tensor,
    *,
    beam_size: int,
    alpha: float,
    eos_id: int,
) -> Hypotheses:
    """Finds the best hypotheses of every sentence.

    At each step the 2K best continuations of a sentence's K hypotheses are taken; the best K that
    do not end stay alive; those that end join the finished list, whose best K are kept. A sentence
    is done when it has a finished hypothesis and the worst one kept beats what the best one alive
    can still reach, `log p / lp(max length)`, or at its maximum length. From then on it is frozen,
    so that its result does not depend on its neighbours in the batch. If nothing finished, the
    hypotheses alive are returned.

    Args:
        step: `step(ids [B, K], state) -> (log_probs [B, K, V], state)`. At the first step the ids
            are 0 and stand for nothing.
        state: `(hidden, memory)`. Tensors of `hidden` are `[B, 1, ...]`, one hypothesis; they are
            repeated K times and follow the hypotheses; an axis that is empty at first may grow
            from step to step. Tensors of `memory` are `[B, ...]` and stay as they are.
        max_lengths: Most sub-words of each sentence's hypotheses, <eos> included, `[B]` int32.
        beam_size: Hypotheses kept, K. 1 is greedy.
        alpha: Length penalty.
        eos_id: Id that ends a hypothesis.

    Returns:
        Hypotheses, T being the largest of `max_lengths`.
    """
    batch = tf.shape(max_lengths)[0]
    size = tf.reduce_max(tf.concat([max_lengths, [1]], axis=0))
    hidden, memory = state
    hidden = tf.nest.map_structure(lambda tensor: tf.repeat(tensor, beam_size, axis=1), hidden)
    bound_penalty = length_penalty(max_lengths, alpha)
    live_first = tf.concat([[0.0], tf.fill([beam_size - 1], MINUS_INFINITY)], axis=0)
    no_scores = tf.fill([batch, beam_size], MINUS_INFINITY)
    no_ids = tf.zeros([batch, beam_size, size], tf.int32)

    def keep_going(*search: Any) -> tf.Tensor:
        return tf.logical_not(tf.reduce_all(_Search(*search).done))

    def advance(*loop_variables: Any) -> _Search:
        s = _Search(*loop_variables)
        previous = tf.gather(s.ids, tf.maximum(s.time - 1, 0), axis=2)
        log_probs, (hidden, memory) = step(previous, s.state)
        vocab_size = log_probs.shape[-1]
        time = s.time + 1
        penalty = length_penalty(time, alpha)

        totals = tf.reshape(s.log_probs[:, :, None] + log_probs, [batch, beam_size * vocab_size])
        totals, flat = tf.math.top_k(totals, 2 * beam_size)
        origins, words = flat // vocab_size, flat % vocab_size
        ids = _write(tf.gather(s.ids, origins, batch_dims=1), time - 1, words)
        ends = tf.equal(words, eos_id)

        alive_log_probs, best = tf.math.top_k(tf.where(ends, MINUS_INFINITY, totals), beam_size)
        hidden = tf.nest.map_structure(
            lambda tensor: tf.gather(tensor, tf.gather(origins, best, batch_dims=1), batch_dims=1),
            hidden,
        )
        new_ids = tf.gather(ids, best, batch_dims=1)

        possible = ends & (totals > MINUS_INFINITY / 2)
        scores = tf.where(possible, totals / penalty, MINUS_INFINITY)
        finished_scores, best = tf.math.top_k(
            tf.concat([s.finished_scores, scores], axis=1), beam_size
        )

        def select(finished: tf.Tensor, new: tf.Tensor) -> tf.Tensor:
            return tf.gather(tf.concat([finished, new], axis=1), best, batch_dims=1)

        finished_lengths = select(s.finished_lengths, tf.where(possible, time, 0))
        filled = finished_lengths > 0
        worst = tf.reduce_min(tf.where(filled, finished_scores, -MINUS_INFINITY), axis=1)
        settled = tf.reduce_any(filled, axis=1) & (worst > alive_log_probs[:, 0] / bound_penalty)

        def unless_done(new: tf.Tensor, old: tf.Tensor) -> tf.Tensor:
            done = tf.reshape(s.done, [batch] + [1] * (len(new.shape) - 1))
            return tf.where(done, old, new)

        return _Search(
            time,
            s.done | settled | (time >= max_lengths),
            unless_done(new_ids, s.ids),
            unless_done(alive_log_probs, s.log_probs),
            (hidden, memory),
            unless_done(select(s.finished_ids, ids), s.finished_ids),
            unless_done(finished_scores, s.finished_scores),
            unless_done(select(s.finished_log_probs, totals), s.finished_log_probs),
            unless_done(finished_lengths, s.finished_lengths),
        )

    start = _Search(
        tf.constant(0),
        max_lengths <= 0,
        no_ids,
        tf.repeat(live_first[None], batch, axis=0),
        (hidden, memory),
        no_ids,
        no_scores,
        no_scores,
        tf.zeros([batch, beam_size], tf.int32),
    )
    shapes = tf.nest.map_structure(_shape_in_the_loop, start)
    end = _Search(*tf.while_loop(keep_going, advance, start, shape_invariants=shapes))
    return _ranked(end, max_lengths, alpha)


def _shape_in_the_loop(tensor: tf.Tensor) -> tf.TensorShape:
    """The shape that a loop variable keeps; axes that are empty at first may grow."""
    return tf.TensorShape([size or None for size in tensor.shape])


def _write(ids: tf.Tensor, position: tf.Tensor, words: tf.Tensor) -> tf.Tensor:
    """Puts words `[B, K]` at a position of ids `[B, K, T]`."""
    here = tf.equal(tf.range(tf.shape(ids)[2]), position)
    return tf.where(here, words[:, :, None], ids)


def _ranked(end: _Search, max_lengths: tf.Tensor, alpha: float) -> Hypotheses:
    """Takes the finished hypotheses, or those alive where nothing finished."""
    alive = tf.where(end.log_probs > MINUS_INFINITY / 2, max_lengths[:, None], 0)
    alive_scores = end.log_probs / length_penalty(max_lengths, alpha)[:, None]
    none = tf.reduce_all(tf.equal(end.finished_lengths, 0), axis=1, keepdims=True)
    lengths = tf.where(none, alive, end.finished_lengths)
    ids = tf.where(none[:, :, None], end.ids, end.finished_ids)
    return Hypotheses(
        tf.where(lengths[:, :, None] > 0, ids, 0),
        tf.where(none, alive_scores, end.finished_scores),
        tf.where(none, end.log_probs, end.finished_log_probs),
        lengths,
    )
