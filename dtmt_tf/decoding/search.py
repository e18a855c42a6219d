"""Beam search bound to a model's functions, over any number of sentences."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import tensorflow as tf

from dtmt_tf.config import DecodingConfig
from dtmt_tf.decoding.beam_search import Hypotheses, Step, beam_search
from dtmt_tf.decoding.by_length import by_length, lengths_of, longest_of
from dtmt_tf.decoding.shortlist import Shortlist

Search = Callable[..., Hypotheses]


def longest_hypotheses(
    source_ids: tf.Tensor, decoding: DecodingConfig, prefixes: tf.Tensor | None = None
) -> tf.Tensor:
    """Returns the most tokens of each sentence's hypotheses, `[B]`.

    Args:
        source_ids: `[B, S]`, padded with 0.
        decoding: Gives how much longer than its source a translation may be; `min_length` and the
            end after it always fit.
        prefixes: What the hypotheses begin with, `[B, P]`, if anything.
    """
    most = lengths_of(source_ids) + decoding.extra_length
    most = tf.maximum(most, decoding.min_length + 1)
    if prefixes is None:
        return most
    return most + lengths_of(prefixes)


def make_search(
    encode: Callable[[Any], tuple[Any, Any]],
    decode_step: Callable[[Any, Any], tuple[Any, Any]],
    decoding: DecodingConfig,
    shortlist: Shortlist | None = None,
    among: Callable[[tf.Tensor | None], AbstractContextManager[None]] = contextlib.nullcontext,
    never: Sequence[int] = (),
    begins: np.ndarray | None = None,
) -> Search:
    """Returns the beam search over any number of sentences.

    Args:
        encode: Reads source ids `[b, S]`, padded with 0; returns the search's first state.
        decode_step: `decode_step(ids, state) -> (logits, state)`, see `beam_search`.
        decoding: Beam size, length penalty, maximum length, sentences at once.
        shortlist: Chooses the tokens that sentences are translated by; all by default.
        among: Within `among(tokens)`, `decode_step` gives logits of these alone; within
            `among(None)` of all, by what is made once and not at each step.
        never: Tokens that are not written, see `beam_search`.
        begins: Which tokens begin a word, see `beam_search`.

    Returns:
        `search(source_ids [B, S], prefixes=None, wanted=None)`, see `beam_search` for the prefixes
        `[B, P]` and how many hypotheses are wanted.
    """

    def search(
        source_ids: tf.Tensor,
        prefixes: tf.Tensor | None = None,
        wanted: int | tf.Tensor | None = None,
    ) -> Hypotheses:
        def find(rows: tf.Tensor, sources: tf.Tensor, max_lengths: tf.Tensor) -> Hypotheses:
            own = None if prefixes is None else tf.gather(prefixes, rows)
            if shortlist is None:
                with among(None):
                    return beam_search(
                        *(normalised(decode_step), encode(sources), max_lengths, decoding),
                        prefixes=own,
                        wanted=wanted,
                        never=never,
                        begins=begins,
                    )
            # each hypothesis alone gives the best of its own, or all of them together
            chunks = 2 * decoding.beam_size if decoding.prune else 2
            few = shortlist(sources, chunks, own)
            with among(few.tokens):
                hypotheses = beam_search(
                    *(few.step(decode_step), few.first(encode(sources)), max_lengths, decoding),
                    prefixes=None if own is None else tf.gather(few.places, own),
                    wanted=wanted,
                    never=tf.gather(few.places, never) if never else (),
                    begins=None if begins is None else tf.gather(begins, few.tokens),
                )
            return hypotheses._replace(ids=tf.gather(few.tokens, hypotheses.ids))

        max_lengths = longest_hypotheses(source_ids, decoding, prefixes)
        return find_by_length(
            find, source_ids, max_lengths, decoding.beam_size, decoding.batch_size
        )

    return search


def normalised(decode_step: Callable[[Any, Any], tuple[Any, Any]]) -> Step:
    """Returns a step that gives log probabilities, for one that gives logits."""

    def step(ids: tf.Tensor, state: Any) -> tuple[tf.Tensor, Any]:
        logits, state = decode_step(ids, state)
        return tf.nn.log_softmax(tf.cast(logits, tf.float32)), state

    return step


def find_by_length(
    find: Callable[[tf.Tensor, tf.Tensor, tf.Tensor], Hypotheses],
    source_ids: tf.Tensor,
    max_lengths: tf.Tensor,
    count: int,
    batch_size: int,
) -> Hypotheses:
    """Finds hypotheses for any number of sentences, like lengths together.

    Args:
        find: Numbers of the sentences `[b]`, their source ids `[b, s]` and maximum lengths `[b]`
            to their hypotheses.
        source_ids: Of all sentences, `[B, S]`, padded with 0.
        max_lengths: Of all, `[B]`.
        count: Hypotheses of each sentence, K.
        batch_size: Sentences at once.

    Returns:
        The hypotheses of all sentences, `[B, K, ...]`.
    """
    lengths = lengths_of(source_ids)
    size = longest_of(max_lengths)

    def find_rows(rows: tf.Tensor) -> Hypotheses:
        longest = longest_of(tf.gather(lengths, rows))
        sources = tf.gather(source_ids, rows)[:, :longest]
        hypotheses = find(rows, sources, tf.gather(max_lengths, rows))
        missing = size - tf.shape(hypotheses.ids)[2]
        return hypotheses._replace(ids=tf.pad(hypotheses.ids, [[0, 0], [0, 0], [0, missing]]))

    numbers = tf.TensorSpec([None, count], tf.float32)
    specs = Hypotheses(
        tf.TensorSpec([None, count, None], tf.int32),
        *(numbers, numbers, tf.TensorSpec(numbers.shape, tf.int32)),
    )
    return Hypotheses(*by_length(find_rows, lengths, batch_size, specs))
