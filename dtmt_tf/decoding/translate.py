"""Search bound to a model's functions, and lines through it."""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import tensorflow as tf
from tqdm import tqdm

from dtmt_tf.config import DecodingConfig
from dtmt_tf.decoding.beam_search import Hypotheses, beam_search
from dtmt_tf.decoding.by_length import by_length
from dtmt_tf.machine import cores
from dtmt_tf.resumable_lines import ResumableLines

Search = Callable[..., Hypotheses]
MOST_AT_ONCE = 8  # batches; each takes memory


def longest_hypotheses(
    source_ids: tf.Tensor, decoding: DecodingConfig, prefixes: tf.Tensor | None = None
) -> tf.Tensor:
    """Returns the most tokens of each sentence's hypotheses, `[B]`.

    Args:
        source_ids: `[B, S]`, padded with 0.
        decoding: Gives how much longer than its source a translation may be.
        prefixes: What the hypotheses begin with, `[B, P]`, if anything.
    """
    most = tf.math.count_nonzero(source_ids, axis=1, dtype=tf.int32) + decoding.extra_length
    if prefixes is None:
        return most
    return most + tf.math.count_nonzero(prefixes, axis=1, dtype=tf.int32)


def make_search(
    encode: Callable[[Any], tuple[Any, Any]],
    decode_step: Callable[[Any, Any], tuple[Any, Any]],
    decoding: DecodingConfig,
    eos_id: int,
) -> Search:
    """Returns the beam search over any number of sentences.

    Args:
        encode: Reads source ids `[b, S]`, padded with 0; returns the search's first state.
        decode_step: `decode_step(ids, state) -> (logits, state)`, see `beam_search`.
        decoding: Beam size, length penalty, maximum length, sentences at once.
        eos_id: Id that ends a hypothesis.

    Returns:
        `search(source_ids [B, S], prefixes=None, wanted=None)`, see `beam_search` for the prefixes
        `[B, P]` and how many hypotheses are wanted.
    """

    def step(ids: tf.Tensor, state: Any) -> tuple[tf.Tensor, Any]:
        logits, state = decode_step(ids, state)
        return tf.nn.log_softmax(logits), state

    def search(
        source_ids: tf.Tensor,
        prefixes: tf.Tensor | None = None,
        wanted: int | tf.Tensor | None = None,
    ) -> Hypotheses:
        lengths = tf.math.count_nonzero(source_ids, axis=1, dtype=tf.int32)
        max_lengths = longest_hypotheses(source_ids, decoding, prefixes)
        size = tf.reduce_max(tf.concat([max_lengths, [1]], axis=0))

        def search_rows(rows: tf.Tensor) -> Hypotheses:
            longest = tf.reduce_max(tf.concat([tf.gather(lengths, rows), [1]], axis=0))
            hypotheses = beam_search(
                step,
                encode(tf.gather(source_ids, rows)[:, :longest]),
                tf.gather(max_lengths, rows),
                beam_size=decoding.beam_size,
                alpha=decoding.length_penalty,
                offset=decoding.length_offset,
                eos_id=eos_id,
                prefixes=None if prefixes is None else tf.gather(prefixes, rows),
                wanted=wanted,
            )
            missing = size - tf.shape(hypotheses.ids)[2]
            return hypotheses._replace(ids=tf.pad(hypotheses.ids, [[0, 0], [0, 0], [0, missing]]))

        numbers = tf.TensorSpec([None, decoding.beam_size], tf.float32)
        specs = Hypotheses(
            tf.TensorSpec([None, decoding.beam_size, None], tf.int32),
            *(numbers, numbers, tf.TensorSpec(numbers.shape, tf.int32)),
        )
        return Hypotheses(*by_length(search_rows, lengths, decoding.batch_size, specs))

    return search


def progress_bar(total: int, text: str, done: int = 0) -> tqdm:
    """Returns a bar that counts lines, `done` of them already; none is shown if it says nothing."""
    return tqdm(
        total=total,
        initial=done,
        desc=text,
        unit="line",
        disable=not text,
        leave=False,
        ncols=79,
        mininterval=0.2 if sys.stderr.isatty() else 20.0,  # seconds; a log wants few lines
    )


def translate_lines(
    lines: Sequence[str],
    translate: Callable[[tf.Tensor], tuple[Any, Any]],
    batch_size: int,
    progress: str | tqdm = "",
) -> tuple[list[str], list[float]]:
    """Translates any number of lines, batches sorted by length, results in the lines' order.

    Args:
        lines: Source text.
        translate: Strings `[B]` to translations and scores, such as an exported signature; called
            by several threads at once.
        batch_size: Sentences at once.
        progress: What the progress bar says, no bar if empty; or a bar to go on with.

    Returns:
        As many translations and scores as lines.
    """
    translations, scores = [""] * len(lines), [0.0] * len(lines)

    def answer(rows: list[int]) -> tuple[Any, Any]:
        return translate(tf.constant([lines[k] for k in rows]))

    for rows, (texts, values) in side_by_side(answer, lines, batch_size, progress):
        for k, text, value in zip(rows, texts.numpy(), values.numpy(), strict=True):
            translations[k], scores[k] = text.decode("utf-8", "replace"), float(value)
    return translations, scores


def side_by_side(
    answer: Callable[[list[int]], Any],
    lines: Sequence[str],
    batch_size: int,
    progress: str | tqdm = "",
) -> Iterator[tuple[list[int], Any]]:
    """Yields the answers to batches of lines of like length, the longest first.

    On a processor as many batches as it has cores, `MOST_AT_ONCE` at most, are answered side by
    side: the products of one are too small to keep more than a core busy.

    Args:
        answer: Row numbers to their answer; called by several threads at once.
        lines: What the rows hold.
        batch_size: Most rows of a batch.
        progress: What the progress bar says, no bar if empty; or a bar to go on with.
    """
    order = sorted(range(len(lines)), key=lambda k: -len(lines[k]))
    batches = [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
    with contextlib.ExitStack() as stack:
        bar = progress
        if isinstance(bar, str):
            bar = stack.enter_context(progress_bar(len(lines), bar))
        on_gpu = bool(tf.config.list_logical_devices("GPU"))
        pool = ThreadPoolExecutor(1 if on_gpu else min(cores(), MOST_AT_ONCE))
        try:
            for rows, found in zip(batches, pool.map(answer, batches), strict=True):
                yield rows, found
                bar.update(len(rows))
        finally:  # when one fails, or the user has had enough, the rest is not begun
            pool.shutdown(cancel_futures=True)


def score_pairs(
    pairs: Sequence[tuple[str, str]],
    score: Callable[[tf.Tensor, tf.Tensor], tuple[Any, Any]],
    batch_size: int,
    progress: str = "",
) -> list[tuple[float, int]]:
    """Scores given translations, batches sorted by length, results in the pairs' order.

    A pair that stands there several times is scored once.

    Args:
        pairs: Source and translation.
        score: Strings `[B]` and `[B]` to log probabilities and numbers of sub-words, such as an
            exported signature; called by several threads at once.
        batch_size: Pairs at once.
        progress: What the progress bar says; no bar if empty.

    Returns:
        Of each pair the log probability of the translation with its <eos>, and of how many
        sub-words that is.
    """
    different = list(dict.fromkeys(pairs))
    found: dict[tuple[str, str], tuple[float, int]] = {}

    def answer(rows: list[int]) -> tuple[Any, Any]:
        sides = zip(*(different[k] for k in rows), strict=True)
        return score(*(tf.constant(side) for side in sides))

    joined = [source + target for source, target in different]
    for rows, (values, lengths) in side_by_side(answer, joined, batch_size, progress):
        for k, value, length in zip(rows, values.numpy(), lengths.numpy(), strict=True):
            found[different[k]] = float(value), int(length)
    return [found[pair] for pair in pairs]


def translate_to(
    output: ResumableLines,
    lines: Sequence[str],
    translate: Callable[[tf.Tensor], tuple[Any, Any]],
    batch_size: int,
    batches: int,
    progress: str = "",
    row: Callable[[str, str, float], str] = lambda line, translation, score: translation,
) -> None:
    """Translates lines into a file that keeps what is finished, see `ResumableLines`.

    Args:
        output: The file, open.
        lines: Source text.
        translate: See `translate_lines`.
        batch_size: Sentences at once.
        batches: So many are sorted by length, and kept, together.
        progress: What the progress bar says; no bar if empty.
        row: What is written of a line, its translation and its score.
    """
    rest = output.remaining(lines)
    with progress_bar(len(lines), progress, output.done) as bar:
        while chunk := list(itertools.islice(rest, batches * batch_size)):
            texts, scores = translate_lines(chunk, translate, batch_size, bar)
            output.write([row(*each) for each in zip(chunk, texts, scores, strict=True)])
