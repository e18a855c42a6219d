"""Beam search over any step function, in the graph."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import tensorflow as tf

from dtmt_tf.config import EOS_ID, PAD_ID, DecodingConfig
from dtmt_tf.decoding.alive import Alive
from dtmt_tf.decoding.by_length import longest_of
from dtmt_tf.decoding.length_penalty import length_penalty

MINUS_INFINITY = -1e30  # stays finite in sums
CHUNK_SIZE = 32  # scores whose largest stands for them all at first

Step = Callable[[tf.Tensor, Any], tuple[tf.Tensor, Any]]
Penalty = Callable[[tf.Tensor], tf.Tensor]
Choose = Callable[[tf.Tensor, Any, int], tuple[tf.Tensor, tf.Tensor]]


class Hypotheses(NamedTuple):
    """The n-best list of each sentence, best first; K is the beam size."""

    ids: tf.Tensor  # [B, K, T] int32, with <eos> if finished, padded with 0
    scores: tf.Tensor  # [B, K] float32, log probability over length penalty; or -1e30
    log_probs: tf.Tensor  # [B, K] float32, natural logarithms; -1e30 where there is none
    lengths: tf.Tensor  # [B, K] int32, with <eos> if finished; 0 where there is no hypothesis


class _Beams(NamedTuple):
    """The sentences that are still searched, b of B; every tensor has them as its first axis."""

    rows: tf.Tensor  # [b] which of the B sentences each is
    max_lengths: tf.Tensor  # [b]
    prefixes: tf.Tensor  # [b, P]
    state: Any  # (hidden [b, K, ...], memory [b, ...])
    ids: tf.Tensor  # [b, K, T] of the hypotheses alive
    log_probs: tf.Tensor  # [b, K]
    finished: Hypotheses  # b sentences' own


def beam_search(
    step: Step,
    state: tuple[Any, Any],
    max_lengths: tf.Tensor,
    decoding: DecodingConfig,
    *,
    prefixes: tf.Tensor | None = None,
    wanted: int | tf.Tensor | None = None,
    choose: Choose | None = None,
    never: Sequence[int] | tf.Tensor = (),
    begins: tf.Tensor | None = None,
) -> Hypotheses:
    """Finds the best hypotheses of every sentence.

    At each step the 2K best continuations of a sentence's K hypotheses are taken; the best K that
    do not end stay alive; those that end join the finished list, whose best K are kept. A sentence
    is done at its maximum length, or when its worst wanted finished hypothesis beats the bound of
    the best one alive: `log p / lp(L)`, where L is the maximum length, or `lookahead` more tokens
    if that is less. (Bounded by the maximum length alone, the search would end late.) The sentence
    then leaves the batch: its result does not depend on its neighbours, and they do not wait for
    it. If nothing finished, the hypotheses alive are returned. K = 1 is greedy: the best token at
    each step, until <eos>.

    With `prune` a hypothesis dies if its log probability is so much below that of its sentence's
    best one alive (Freitag and Al-Onaizan, 2017, arXiv:1702.01806); the step is made for those
    alive only.

    Args:
        step: `step(ids [b, K], state) -> (log_probs [b, K, V], state)`. At the first step the ids
            are 0 and stand for nothing. Fewer sentences come from step to step.
        state: `(hidden, memory)`. Tensors of `hidden` are `[B, 1, ...]`, one hypothesis; they are
            repeated K times and follow the hypotheses; an axis that is empty at first may grow
            from step to step. Tensors of `memory` are `[B, ...]` and stay as they are.
        max_lengths: Most tokens of each sentence's hypotheses, <eos> included, `[B]` int32.
        decoding: Gives the beam size K, the length penalty, `prune`, `lookahead` and the fewest
            tokens of a hypothesis, <eos> not counted.
        prefixes: Tokens that every hypothesis of a sentence begins with, `[B, P]` int32, padded
            with 0 at the end, fewer than `max_lengths`; none by default.
        wanted: How many of the best hypotheses are final; all K by default. With fewer the search
            ends earlier, and those further down the list may be others than with all.
        choose: Proposes continuations in another way: `choose(totals [b, K, V], state, number)`
            gives log probabilities `[b, C]` of continuations, those that are to stay alive first,
            and their places in `[K * V]`, `[b, C]`; C is at least the number, 2K or with K = 1 one.
        never: Tokens that no hypothesis has but by its prefix.
        begins: Which tokens begin a word, `[V]` bool: an <eos> at the end of a prefix stands for
            any of them, or the end. By default <eos> is a token like others.

    Returns:
        Hypotheses, T being the largest of `max_lengths`.

    Raises:
        ValueError: If there is `choose` and hypotheses are to be pruned.
    """
    if choose and decoding.prune:
        raise ValueError(f"prune should be 0 with choose. Received: {decoding.prune:g}.")
    wanted = decoding.beam_size if wanted is None else wanted
    search = _Search(step, decoding, wanted, choose, never, begins, prefixes is not None)
    start, nothing = search.begin(state, max_lengths, prefixes)
    shapes = (tf.TensorShape([]), _shapes(start), _shapes(nothing))
    _, _, results = tf.while_loop(
        lambda time, beams, results: tf.size(beams.rows) > 0,
        search.advance,
        (tf.constant(0), start, nothing),
        shape_invariants=shapes,
    )
    return results


@dataclass(frozen=True)
class _Search:
    """The rules of a search; see `beam_search` for what they are."""

    step: Step
    decoding: DecodingConfig
    wanted: int | tf.Tensor
    choose: Choose | None
    never: Sequence[int] | tf.Tensor
    begins: tf.Tensor | None
    has_prefixes: bool

    @property
    def candidates(self) -> int:
        """How many continuations of a sentence are taken."""
        return 2 * self.decoding.beam_size if self.decoding.beam_size > 1 else 1

    def penalty(self, lengths: tf.Tensor) -> tf.Tensor:
        """Returns what log probabilities of such lengths are divided by."""
        return length_penalty(lengths, self.decoding.length_penalty, self.decoding.length_offset)

    def begin(
        self, state: tuple[Any, Any], max_lengths: tf.Tensor, prefixes: tf.Tensor | None
    ) -> tuple[_Beams, Hypotheses]:
        """Returns the sentences that may have a token, and results of all B without any."""
        beam_size, batch = self.decoding.beam_size, tf.shape(max_lengths)[0]
        hidden, memory = state
        hidden = tf.nest.map_structure(lambda tensor: tf.repeat(tensor, beam_size, axis=1), hidden)
        no_scores = tf.fill([batch, beam_size], MINUS_INFINITY)
        no_ids = tf.zeros([batch, beam_size, longest_of(max_lengths)], tf.int32)
        no_lengths = tf.zeros([batch, beam_size], tf.int32)
        nothing = Hypotheses(no_ids, no_scores, no_scores, no_lengths)
        one_alive = tf.concat([[0.0], tf.fill([beam_size - 1], MINUS_INFINITY)], axis=0)
        everyone = _Beams(
            tf.range(batch),
            max_lengths,
            tf.zeros([batch, 0], tf.int32) if prefixes is None else prefixes,
            (hidden, memory),
            no_ids,
            tf.repeat(one_alive[None], batch, axis=0),
            nothing,
        )
        some = tf.where(max_lengths > 0)[:, 0]
        return tf.nest.map_structure(lambda tensor: tf.gather(tensor, some), everyone), nothing

    def advance(self, time: tf.Tensor, b: _Beams, results: Hypotheses) -> Any:
        """Makes one step of all sentences; those that are done leave for the results."""
        beam_size, prune = self.decoding.beam_size, self.decoding.prune
        previous = tf.gather(b.ids, tf.maximum(time - 1, 0), axis=2)
        alive = Alive(b.log_probs > MINUS_INFINITY / 2) if prune else None
        if alive:
            totals, origins, tokens, hidden = self._expand_alive(alive, previous, time, b)
        else:
            totals, origins, tokens, hidden = self._expand(previous, time, b)
        time = time + 1
        ids = write(tf.gather(b.ids, origins, batch_dims=1), time - 1, tokens)
        ends = tf.equal(tokens, EOS_ID)

        places = tf.range(totals.shape[1] or tf.shape(totals)[1])  # best first, if they go on
        _, best = tf.math.top_k(-tf.where(ends, tf.size(places), places), beam_size)
        log_probs = tf.gather(tf.where(ends, MINUS_INFINITY, totals), best, batch_dims=1)
        best_origins = tf.gather(origins, best, batch_dims=1)
        if alive:
            hidden = alive.unpack(hidden, best_origins)
            least = tf.reduce_max(log_probs, axis=1, keepdims=True) - prune
            log_probs = tf.where(log_probs < least, MINUS_INFINITY, log_probs)
        else:
            hidden = tf.nest.map_structure(
                lambda tensor: tf.gather(tensor, best_origins, batch_dims=1), hidden
            )
        possible = ends & (totals > MINUS_INFINITY / 2)
        finished = _best_of(
            b.finished,
            Hypotheses(
                ids,
                tf.where(possible, totals / self.penalty(time), MINUS_INFINITY),
                totals,
                tf.where(possible, time, 0),
            ),
            beam_size,
        )
        new_ids = tf.gather(ids, best, batch_dims=1)
        beams = b._replace(
            state=(hidden, b.state[1]), ids=new_ids, log_probs=log_probs, finished=finished
        )
        longest = time + tf.minimum(b.max_lengths - time, self.decoding.lookahead)
        done = _settled(beams, self.penalty(longest), self.wanted) | (time >= b.max_lengths)
        return (time, *tf.cond(tf.reduce_any(done), lambda: self._leave(beams, results, done),
                               lambda: (beams, results)))  # fmt: skip

    def _expand(self, previous: tf.Tensor, time: tf.Tensor, b: _Beams) -> Any:
        """Returns the best continuations `[b, C]`, their origins and tokens; hidden states."""
        log_probs, hidden = self._stepped(previous, b.state, b.prefixes, time)
        # 1 and an unknown number would not be 1
        log_probs.set_shape([None, self.decoding.beam_size, None])
        totals = tf.expand_dims(b.log_probs, 2) + log_probs
        vocab_size = log_probs.shape[2] or tf.shape(log_probs)[2]
        if self.choose:
            totals, flat = self.choose(totals, (hidden, b.state[1]), self.candidates)
        else:
            totals, flat = best_continuations(totals, self.candidates)
        return totals, flat // vocab_size, flat % vocab_size, hidden

    def _expand_alive(self, alive: Alive, previous: tf.Tensor, time: tf.Tensor, b: _Beams) -> Any:
        """Does so for those alive; hidden states are packed. The best are some of each one's."""
        hidden, memory = b.state
        state = alive.pack(hidden), alive.share(memory)
        log_probs, hidden = self._stepped(
            alive.pack(previous), state, alive.share(b.prefixes), time
        )
        each = min(self.candidates, log_probs.shape[2] or self.candidates)
        values, tokens = best_continuations(log_probs, each)  # [R, C]
        values, tokens = alive.unpack((values[:, None], tokens[:, None]))  # [b, K, C]
        totals = tf.where(alive.alive[..., None], b.log_probs[..., None] + values, MINUS_INFINITY)
        width = self.decoding.beam_size * each
        totals, flat = tf.math.top_k(tf.reshape(totals, [-1, width]), self.candidates)
        tokens = tf.gather(tf.reshape(tokens, [-1, width]), flat, batch_dims=1)
        return totals, flat // each, tokens, hidden

    def _stepped(
        self, ids: tf.Tensor, state: Any, prefixes: tf.Tensor, time: tf.Tensor
    ) -> tuple[tf.Tensor, Any]:
        """Returns log probabilities that prefixes `[b, P]` and length allow, and hidden states."""
        log_probs, (hidden, _) = self.step(ids, state)
        free = writable(log_probs, time, self.decoding.min_length, self.never)
        if self.has_prefixes:
            free = tf.cond(
                time < tf.shape(prefixes)[1],
                lambda: self._prefixed(log_probs, free, prefixes[:, time]),
                lambda: free,
            )
        return free, hidden

    def _prefixed(self, log_probs: tf.Tensor, free: tf.Tensor, tokens: tf.Tensor) -> tf.Tensor:
        """Leaves of `[b, K, V]` the next token of each prefix, `[b]`; past it what is `free`."""
        ids = tf.range(tf.shape(log_probs)[2])
        tokens = tokens[:, None, None]
        left = tf.where(tf.equal(ids, tokens), log_probs, MINUS_INFINITY)
        if self.begins is not None:
            word = tf.where(self.begins | tf.equal(ids, EOS_ID), free, MINUS_INFINITY)
            left = tf.where(tf.equal(tokens, EOS_ID), word, left)
        return tf.where(tf.equal(tokens, PAD_ID), free, left)

    def _leave(
        self, beams: _Beams, results: Hypotheses, done: tf.Tensor
    ) -> tuple[_Beams, Hypotheses]:
        """Moves sentences that are done from the beams to the results."""
        rows = tf.boolean_mask(beams.rows, done)[:, None]
        results = tf.nest.map_structure(
            lambda all_rows, new: tf.tensor_scatter_nd_update(
                all_rows, rows, tf.boolean_mask(new, done)
            ),
            results,
            _ranked(beams, self.penalty),
        )
        stay = tf.where(~done)[:, 0]
        return tf.nest.map_structure(lambda tensor: tf.gather(tensor, stay), beams), results


def _shapes(tensors: Any) -> Any:
    """The shapes that loop variables keep: rows leave, axes that are empty at first may grow."""
    return tf.nest.map_structure(
        lambda tensor: tf.TensorShape([None, *(size or None for size in tensor.shape[1:])]), tensors
    )


def writable(
    log_probs: tf.Tensor,
    time: tf.Tensor,
    min_length: int,
    never: Sequence[int] | tf.Tensor,
) -> tf.Tensor:
    """Leaves of log probabilities `[b, K, V]` all but `never` and an end that is too early."""
    some = tf.is_tensor(never) or len(never) > 0
    if not min_length and not some:
        return log_probs
    ids = tf.range(tf.shape(log_probs)[2])
    barred = tf.equal(ids, EOS_ID) & (time < min_length)
    if some:
        barred |= tf.reduce_any(tf.equal(ids[:, None], never), axis=1)
    return log_probs + tf.where(barred, MINUS_INFINITY, 0.0)


def write(ids: tf.Tensor, position: tf.Tensor, tokens: tf.Tensor) -> tf.Tensor:
    """Puts tokens `[b, K]` at a position of ids `[b, K, T]`."""
    here = tf.equal(tf.range(tf.shape(ids)[2]), position)
    return tf.where(here, tf.expand_dims(tokens, 2), ids)


def _best_of(finished: Hypotheses, new: Hypotheses, beam_size: int) -> Hypotheses:
    """The best hypotheses of both lists."""
    both = Hypotheses(*(tf.concat(pair, axis=1) for pair in zip(finished, new, strict=True)))
    _, best = tf.math.top_k(both.scores, beam_size)
    return Hypotheses(*(tf.gather(tensor, best, batch_dims=1) for tensor in both))


def best_continuations(totals: tf.Tensor, number: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the highest of log probabilities `[b, K, V]`, and where in `[K * V]` they are.

    Like `tf.math.top_k`, in a quarter of the time: the highest lie in the `number` chunks that have
    the highest maxima. A V that is not known while the graph is made has to be a multiple of
    `CHUNK_SIZE`, and to give at least `number` chunks.
    """
    beams, vocab_size = totals.shape[1:]
    if vocab_size is None:
        chunks = tf.reshape(totals, [tf.shape(totals)[0], -1, CHUNK_SIZE])
    else:
        size = beams * vocab_size
        values = tf.reshape(totals, [-1, size])
        if size <= number * CHUNK_SIZE:
            return tf.math.top_k(values, number)
        if missing := -size % CHUNK_SIZE:
            values = tf.pad(values, [[0, 0], [0, missing]], constant_values=-math.inf)
        chunks = tf.reshape(values, [-1, (size + missing) // CHUNK_SIZE, CHUNK_SIZE])
    _, best = tf.math.top_k(tf.reduce_max(chunks, axis=2), number)
    best = -tf.math.top_k(-best, number)[0]  # ascending: among equals the first comes first
    few = tf.gather(chunks, best, batch_dims=1)
    top, where = tf.math.top_k(tf.reshape(few, [-1, number * CHUNK_SIZE]), number)
    return top, tf.gather(best, where // CHUNK_SIZE, batch_dims=1) * CHUNK_SIZE + where % CHUNK_SIZE


def _settled(b: _Beams, penalties: tf.Tensor, wanted: int | tf.Tensor) -> tf.Tensor:
    """Whether nothing alive is among a sentence's best wanted at these penalties, `[b]`."""
    filled = (b.finished.lengths > 0) & (tf.range(b.log_probs.shape[1]) < wanted)
    worst = tf.reduce_min(tf.where(filled, b.finished.scores, -MINUS_INFINITY), axis=1)
    bound = tf.reduce_max(b.log_probs, axis=1) / penalties
    return tf.reduce_any(filled, axis=1) & (worst > bound)


def _ranked(b: _Beams, penalty: Penalty) -> Hypotheses:
    """The finished hypotheses, or those alive where nothing finished."""
    alive = tf.where(b.log_probs > MINUS_INFINITY / 2, b.max_lengths[:, None], 0)
    alive_scores = b.log_probs / penalty(b.max_lengths)[:, None]
    none = tf.reduce_all(tf.equal(b.finished.lengths, 0), axis=1, keepdims=True)
    lengths = tf.where(none, alive, b.finished.lengths)
    ids = tf.where(none[:, :, None], b.ids, b.finished.ids)
    return Hypotheses(
        tf.where(lengths[:, :, None] > 0, ids, 0),
        tf.where(none, alive_scores, b.finished.scores),
        tf.where(none, b.log_probs, b.finished.log_probs),
        lengths,
    )
