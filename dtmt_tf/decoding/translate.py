"""Search bound to a model's functions, and lines through it."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import tensorflow as tf

from dtmt_tf.config import DecodingConfig
from dtmt_tf.decoding.beam_search import Hypotheses, Step, beam_search
from dtmt_tf.decoding.by_length import by_length, lengths_of, longest_of
from dtmt_tf.decoding.shortlist import Shortlist
from dtmt_tf.machine import cores
from dtmt_tf.resumable_lines import ResumableLines
from dtmt_tf.terminal import line_bar

Search = Callable[..., Hypotheses]
Asked = TypeVar("Asked")
Answer = TypeVar("Answer")
MOST_AT_ONCE = 8  # batches; each takes memory


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
) -> Search:
    """Returns the beam search over any number of sentences.

    Args:
        encode: Reads source ids `[b, S]`, padded with 0; returns the search's first state.
        decode_step: `decode_step(ids, state) -> (logits, state)`, see `beam_search`.
        decoding: Beam size, length penalty, maximum length, sentences at once.
        shortlist: Chooses the words that sentences are translated by; all by default.
        among: Within `among(words)`, `decode_step` gives logits of these alone; within
            `among(None)` of all, by what is made once and not at each step.
        never: Tokens that are not written, see `beam_search`.

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
                    )
            few = shortlist(sources, decoding.beam_size, own)
            with among(few.words):
                hypotheses = beam_search(
                    *(few.step(decode_step), few.first(encode(sources)), max_lengths, decoding),
                    prefixes=None if own is None else tf.gather(few.places, own),
                    wanted=wanted,
                    never=tf.gather(few.places, never) if never else (),
                )
            return hypotheses._replace(ids=tf.gather(few.words, hypotheses.ids))

        max_lengths = longest_hypotheses(source_ids, decoding, prefixes)
        return find_by_length(
            find, source_ids, max_lengths, decoding.beam_size, decoding.batch_size
        )

    return search


def normalised(decode_step: Callable[[Any, Any], tuple[Any, Any]]) -> Step:
    """Returns a step that gives log probabilities, for one that gives logits."""

    def step(ids: tf.Tensor, state: Any) -> tuple[tf.Tensor, Any]:
        logits, state = decode_step(ids, state)
        return tf.nn.log_softmax(logits), state

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


def in_batches(
    rows: Sequence[Asked],
    answer: Callable[[list[Asked]], Sequence[Answer]],
    batch_size: int,
    length: Callable[[Asked], int] = len,  # type: ignore[assignment]
    advance: Callable[[int], object] | None = None,
) -> list[Answer]:
    """Answers any number of rows, batches sorted by length, answers in the rows' order.

    Long rows come first. On a processor as many batches as it has cores, `MOST_AT_ONCE` at most,
    are answered side by side: the products of one are too small to keep more than a core busy.

    Args:
        rows: What is asked.
        answer: Returns as many answers as it is given rows; called by several threads at once.
        batch_size: Rows at once.
        length: How long a row is.
        advance: Called with the number of rows of each batch that is done.
    """
    order = sorted(range(len(rows)), key=lambda k: -length(rows[k]))
    batches = [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
    found: dict[int, Answer] = {}
    on_gpu = bool(tf.config.list_logical_devices("GPU"))
    pool = ThreadPoolExecutor(1 if on_gpu else min(cores(), MOST_AT_ONCE))
    try:
        answers = pool.map(lambda batch: answer([rows[k] for k in batch]), batches)
        for batch, texts in zip(batches, answers, strict=True):
            found.update(zip(batch, texts, strict=True))
            if advance:
                advance(len(batch))
    finally:  # when one fails, or the user has had enough, the rest is not begun
        pool.shutdown(cancel_futures=True)
    return [found[k] for k in range(len(rows))]


def translate_lines(
    lines: Sequence[str],
    translate: Callable[[tf.Tensor], tf.Tensor],
    batch_size: int,
    advance: Callable[[int], object] | None = None,
) -> list[str]:
    """Returns the translations of any number of lines, see `in_batches`.

    Args:
        lines: Source text.
        translate: Strings `[B]` to their translations; called by several threads at once.
        batch_size: Sentences at once.
        advance: Called with the number of lines of each batch that is done.
    """

    def answer(texts: list[str]) -> list[str]:
        translations = translate(tf.constant(texts)).numpy()
        return [text.decode("utf-8", "replace") for text in translations]

    return in_batches(lines, answer, batch_size, advance=advance)


def score_pairs(
    pairs: Sequence[tuple[str, str]],
    score: Callable[[list[tuple[str, str]]], Sequence[Answer]],
    batch_size: int,
    progress: str = "",
) -> list[Answer]:
    """Scores given translations, see `in_batches`; equal pairs are scored once.

    Args:
        pairs: Source and translation.
        score: Returns as many scores as it is given pairs; called by several threads at once.
        batch_size: Pairs at once.
        progress: What the progress bar says; no bar if empty.
    """
    different = list(dict.fromkeys(pairs))
    with line_bar(len(different), progress) as bar:
        found = in_batches(different, score, batch_size, lambda pair: sum(map(len, pair)),
                           bar.update)  # fmt: skip
    scores = dict(zip(different, found, strict=True))
    return [scores[pair] for pair in pairs]


def translate_to(
    output: ResumableLines,
    lines: Sequence[str],
    translate: Callable[[tf.Tensor], tf.Tensor],
    batch_size: int,
    batches: int,
    progress: str = "",
) -> None:
    """Translates lines into a file that keeps what is finished, see `ResumableLines`.

    Args:
        output: The file, open.
        lines: Source text.
        translate: See `translate_lines`.
        batch_size: Sentences at once.
        batches: So many are sorted by length, and kept, together.
        progress: What the progress bar says; no bar if empty.
    """
    rest = output.remaining(lines)
    with line_bar(len(lines), progress, output.done) as bar:
        while chunk := list(itertools.islice(rest, batches * batch_size)):
            output.write(translate_lines(chunk, translate, batch_size, bar.update))
