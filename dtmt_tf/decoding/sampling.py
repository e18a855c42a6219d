"""Translations drawn at random from what a step function finds probable, in the graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from dtmt_tf.config import EOS_ID, DecodingConfig
from dtmt_tf.decoding.beam_search import Hypotheses, Step, writable, write
from dtmt_tf.decoding.by_length import longest_of
from dtmt_tf.decoding.length_penalty import length_penalty
from dtmt_tf.errors import UserError

MOST_SEED = 2**31 - 1


@dataclass(frozen=True)
class Sampling:
    """How tokens are drawn.

    Attributes:
        temperature: Logits are divided by it; below 1 probable tokens become more probable.
        top_k: Only the k most probable tokens are drawn (Fan et al., 2018, arXiv:1805.04833); 0
            for all.
        top_p: Only the fewest tokens that are together at least so probable are drawn (nucleus
            sampling, Holtzman et al., 2020, arXiv:1904.09751); 1 for all. Counted among those
            that `top_k` leaves.
        seed: The same text with the same seed gives the same samples.

    Raises:
        UserError: If a value is out of range.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        sound = {
            "temperature": (1e-6 <= self.temperature <= 1000, "from 0.000001 to 1,000"),
            "top_k": (self.top_k >= 0, "at least 0"),
            "top_p": (1e-30 <= self.top_p <= 1, "above 0, at least 1e-30, and at most 1"),
            "seed": (0 <= self.seed <= MOST_SEED, f"at least 0 and at most {MOST_SEED:,}"),
        }
        for name, (is_sound, where) in sound.items():
            if not is_sound:
                raise UserError(f"{name} should be {where}. Received: {getattr(self, name)}.")


def sample(
    step: Step,
    state: tuple[Any, Any],
    max_lengths: tf.Tensor,
    seeds: tf.Tensor,
    sampling: Sampling,
    decoding: DecodingConfig,
    *,
    never: Sequence[int] = (),
) -> Hypotheses:
    """Draws translations of every sentence, token by token.

    What a sample is depends on its seed and its sentence alone: each sample has one uniform number
    for each of its tokens, and takes the token at which the cumulated probability exceeds it.

    Args:
        step: See `beam_search`.
        state: See `beam_search`.
        max_lengths: Most tokens of each sentence's samples, <eos> included, `[B]` int32.
        seeds: Two numbers for each of a sentence's K samples, `[B, K, 2]` int64.
        sampling: How tokens are drawn; its seed is not read.
        decoding: Gives the length penalty, and the fewest tokens of a sample, <eos> not counted.
        never: Tokens that no sample has.

    Returns:
        The samples as they were drawn, not sorted. Log probabilities are those of the model,
        whatever the temperature and the tokens that `sampling` leaves out.
    """
    batch, samples = tf.shape(seeds)[0], seeds.shape[1]
    size = longest_of(max_lengths)
    hidden, memory = state
    hidden = tf.nest.map_structure(lambda tensor: tf.repeat(tensor, samples, axis=1), hidden)
    numbers = uniform(seeds, max_lengths)

    def keep_going(time: tf.Tensor, alive: tf.Tensor, *_: Any) -> tf.Tensor:
        return tf.reduce_any(alive)

    def advance(time: tf.Tensor, alive: tf.Tensor, state: Any, ids: Any, log_probs: Any) -> Any:
        logs, state = step(ids[:, :, tf.maximum(time - 1, 0)], state)
        logs = writable(logs, time, decoding.min_length, never)
        tokens = tf.where(alive, draw(logs, numbers[:, :, time], sampling), 0)
        drawn = tf.gather(logs, tokens, batch_dims=2)
        log_probs += tf.where(alive, drawn, 0.0)
        ids = write(ids, time, tokens)
        time += 1
        alive &= tf.not_equal(tokens, EOS_ID) & (time < max_lengths)[:, None]
        return time, alive, state, ids, log_probs

    start = (
        tf.constant(0),
        tf.repeat((max_lengths > 0)[:, None], samples, axis=1),
        (hidden, memory),
        tf.zeros([batch, samples, size], tf.int32),
        tf.zeros([batch, samples]),
    )
    shapes = tf.nest.map_structure(  # an axis that is empty at first may grow
        lambda tensor: tf.TensorShape([size or None for size in tensor.shape]), start
    )
    *_, ids, log_probs = tf.while_loop(keep_going, advance, start, shape_invariants=shapes)
    lengths = tf.reduce_sum(tf.cast(_written(ids, max_lengths), tf.int32), axis=2)
    scores = log_probs / length_penalty(
        tf.maximum(lengths, 1), decoding.length_penalty, decoding.length_offset
    )
    return Hypotheses(ids, scores, log_probs, lengths)


def uniform(seeds: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """Returns numbers in [0, 1), each row by its own seed, `[B, K, T]`; 0 past its length.

    Args:
        seeds: `[B, K, 2]` int64.
        lengths: `[B]`, T at most.
    """
    batch, samples = tf.shape(seeds)[0], seeds.shape[1]
    size = longest_of(lengths)

    def row(seed_and_length: Any) -> tf.Tensor:
        seed, length = seed_and_length
        numbers = tf.random.stateless_uniform([length], seed, alg="philox")
        return tf.pad(numbers, [[0, size - length]])

    rows = tf.reshape(seeds, [-1, 2]), tf.repeat(lengths, samples)
    found = tf.map_fn(row, rows, fn_output_signature=tf.TensorSpec([None], tf.float32))
    return tf.reshape(found, [batch, samples, size])


def draw(log_probs: tf.Tensor, numbers: tf.Tensor, sampling: Sampling) -> tf.Tensor:
    """Returns the token that each number stands for, `[B, K]` int32.

    Args:
        log_probs: `[B, K, V]`.
        numbers: `[B, K]`, in [0, 1).
        sampling: How tokens are drawn.
    """
    probabilities, tokens = allowed(log_probs, sampling)
    cumulated = tf.cumsum(probabilities, axis=-1)
    # what has no probability is never drawn: it ends where the token before it ends
    passed = cumulated <= numbers[..., None] * cumulated[..., -1:]
    place = tf.math.count_nonzero(passed, axis=-1, dtype=tf.int32)
    return place if tokens is None else tf.gather(tokens, place, batch_dims=2)


def allowed(log_probs: tf.Tensor, sampling: Sampling) -> tuple[tf.Tensor, tf.Tensor | None]:
    """Returns the probabilities with which tokens are drawn, and the tokens.

    Args:
        log_probs: `[..., V]`.
        sampling: How tokens are drawn.

    Returns:
        Probabilities `[..., N]`, 0 for what is left out, and the ids they are of, `[..., N]`, the
        most probable first; none for all V in their order, if none is left out.
    """
    logits = log_probs / sampling.temperature
    size = logits.shape[-1]
    most = min(sampling.top_k or size, size)
    if most == size and sampling.top_p == 1:
        return tf.nn.softmax(logits), None
    logits, tokens = tf.math.top_k(logits, most)
    probabilities = tf.nn.softmax(logits)
    if sampling.top_p < 1:
        before = tf.cumsum(probabilities, axis=-1, exclusive=True)
        probabilities = tf.where(before < sampling.top_p, probabilities, 0.0)
    return probabilities, tokens


def _written(ids: tf.Tensor, max_lengths: tf.Tensor) -> tf.Tensor:
    """Which tokens of `[B, K, T]` are drawn: those up to <eos>, or to the maximum length."""
    ended = tf.cumsum(tf.cast(tf.equal(ids, EOS_ID), tf.int32), axis=2, exclusive=True)
    within = tf.sequence_mask(max_lengths, tf.shape(ids)[2])
    return tf.equal(ended, 0) & within[:, None]
