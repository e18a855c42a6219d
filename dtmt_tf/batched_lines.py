"""Any number of lines or pairs through a function of batches."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import tensorflow as tf

from dtmt_tf.machine import cores
from dtmt_tf.resumable_lines import ResumableLines
from dtmt_tf.terminal import line_bar

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")
MAX_CONCURRENT_BATCHES = 8  # each takes memory


def concurrent_batches() -> int:
    """Returns how many batches are answered side by side.

    On a processor as many as it has cores, at most `MAX_CONCURRENT_BATCHES`: the products of one
    are too small to keep more than a core busy.
    """
    on_gpu = bool(tf.config.list_logical_devices("GPU"))
    return 1 if on_gpu else min(cores(), MAX_CONCURRENT_BATCHES)


def in_batches(
    rows: Sequence[Asked],
    answer: Callable[[list[Asked]], Sequence[Answer]],
    batch_size: int,
    length: Callable[[Asked], int] = len,  # type: ignore[assignment]
    advance: Callable[[int], object] | None = None,
) -> list[Answer]:
    """Answers any number of rows, batches sorted by length, answers in the rows' order.

    Long rows come first, and `concurrent_batches` are answered side by side.

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
    pool = ThreadPoolExecutor(concurrent_batches())
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
