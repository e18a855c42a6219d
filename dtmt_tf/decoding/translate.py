"""Search bound to a model's functions, and text through it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from tqdm import tqdm

from dtmt_tf.config import DecodingConfig
from dtmt_tf.decoding.beam_search import Hypotheses, beam_search

Search = Callable[[tf.Tensor], Hypotheses]


def make_search(
    encode: Callable[[Any], tuple[Any, Any]],
    advance: Callable[[Any, Any], tuple[Any, Any]],
    decoding: DecodingConfig,
    eos_id: int,
) -> Search:
    """Returns the beam search over source ids `[B, S]`.

    Args:
        encode: Reads source ids `[B, S]`, padded with 0; returns the search's first state.
        advance: `advance(ids, state) -> (logits, state)`, see `beam_search`.
        decoding: Beam size, length penalty, maximum length.
        eos_id: Id that ends a hypothesis.
    """

    def step(ids: tf.Tensor, state: Any) -> tuple[tf.Tensor, Any]:
        logits, state = advance(ids, state)
        return tf.nn.log_softmax(logits), state

    def search(source_ids: tf.Tensor) -> Hypotheses:
        lengths = tf.math.count_nonzero(source_ids, axis=1, dtype=tf.int32)
        return beam_search(
            step,
            encode(source_ids),
            lengths + decoding.extra_length,
            beam_size=decoding.beam_size,
            alpha=decoding.length_penalty,
            eos_id=eos_id,
        )

    return search


def translate_texts(texts: Any, source: Any, target: Any, search: Search) -> tuple[Any, Any]:
    """Translates strings in the graph.

    Args:
        texts: Strings, `[B]`.
        source: Sub-words of the source, with `encode`.
        target: Sub-words of the target, with `decode`.
        search: What `make_search` returned.

    Returns:
        Translations `[B]` and scores `[B]`; a blank text gives an empty one with score 0.
    """
    blank = tf.strings.regex_full_match(texts, r"[\s\p{Z}]*")
    ids = source.encode(texts).to_tensor()
    ids = tf.pad(ids, [[0, 0], [0, tf.maximum(1 - tf.shape(ids)[1], 0)]])  # no texts: [0, 1]
    hypotheses = search(ids)
    translations = target.decode(hypotheses.ids[:, 0])
    return tf.where(blank, "", translations), tf.where(blank, 0.0, hypotheses.scores[:, 0])


def translate_lines(
    lines: Sequence[str],
    translate: Callable[[tf.Tensor], tuple[Any, Any]],
    batch_size: int,
    progress: str = "",
) -> tuple[list[str], list[float]]:
    """Translates any number of lines, batches sorted by length, results in the lines' order.

    Args:
        lines: Source text.
        translate: Strings `[B]` to translations and scores, such as an exported signature.
        batch_size: Sentences at once.
        progress: What the progress bar says; no bar if empty.

    Returns:
        As many translations and scores as lines.
    """
    order = sorted(range(len(lines)), key=lambda k: len(lines[k]))
    translations, scores = [""] * len(lines), [0.0] * len(lines)
    interval = 0.2 if sys.stderr.isatty() else 20.0  # seconds; a log wants few lines
    with tqdm(
        total=len(lines),
        desc=progress,
        unit="line",
        disable=not progress,
        leave=False,
        ncols=79,
        mininterval=interval,
    ) as bar:
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            texts, values = translate(tf.constant([lines[k] for k in rows]))
            for k, text, value in zip(rows, texts.numpy(), values.numpy(), strict=True):
                translations[k], scores[k] = text.decode("utf-8", "replace"), float(value)
            bar.update(len(rows))
    return translations, scores
