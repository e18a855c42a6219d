"""Searches that run in this process, over the parts of an exported model."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from dtmt_tf.config import EOS_ID, DecodingConfig
from dtmt_tf.decoding import (
    Hypotheses,
    Sampling,
    find_by_length,
    longest_hypotheses,
    normalised,
    sample,
)
from dtmt_tf.languages import has_blanks

Found = list[tuple[tuple[str, float], ...]]  # for each text its translations with their scores
Search = Callable[[list[str]], Found]
_IDS = tf.TensorSpec([None, None], tf.int32)


class Searches:
    """What can be searched for in other ways than the signatures do.

    Args:
        steps: The exported functions, see `dtmt_tf.export.steps`.
        card: The model card; tells the target language and how the model searches.
        batch_size: Sentences at once.
    """

    def __init__(self, steps: Any, card: Mapping[str, Any], batch_size: int) -> None:
        self._steps = steps
        self._decoding = DecodingConfig(**card["decoding"], batch_size=batch_size)
        self._between = " " if has_blanks(card["target_language"]) else ""
        self._graphs: dict[Any, Any] = {}

    def sampler(self, sampling: Sampling, count: int) -> Search:
        """Returns what draws `count` translations of each text, see `decoding.sample`.

        The k-th of a text is the same whatever other texts are asked for with it.
        """
        key = dataclasses.replace(sampling, seed=0), count
        if key not in self._graphs:
            self._graphs[key] = self._sampling_graph(sampling, count)
        graph = self._graphs[key]

        def search(texts: list[str]) -> Found:
            ids, owners = self._steps.read(tf.constant(texts, tf.string))
            rows = _rows(owners)
            named = [(texts[text], part) for text, part in rows]
            seeds = [[(_hash(*name, k), sampling.seed) for k in range(count)] for name in named]
            found = graph(ids, tf.reshape(tf.constant(seeds, tf.int64), [len(rows), count, 2]))
            return self._joined(texts, ids, rows, found)

        return search

    def _sampling_graph(self, sampling: Sampling, count: int) -> Any:
        steps, decoding = self._steps, self._decoding
        step = normalised(self._step)

        def draw(source_ids: tf.Tensor, seeds: tf.Tensor) -> Hypotheses:
            def find(rows: tf.Tensor, sources: tf.Tensor, max_lengths: tf.Tensor) -> Hypotheses:
                return sample(
                    step,
                    steps.encode(sources),
                    max_lengths,
                    tf.gather(seeds, rows),
                    sampling,
                    alpha=decoding.length_penalty,
                    offset=decoding.length_offset,
                    eos_id=EOS_ID,
                )

            max_lengths = longest_hypotheses(source_ids, decoding)
            return find_by_length(find, source_ids, max_lengths, count, decoding.batch_size)

        seeds_spec = tf.TensorSpec([None, count, 2], tf.int64)
        return tf.function(draw, input_signature=[_IDS, seeds_spec], autograph=False)

    def _step(self, ids: tf.Tensor, state: Any) -> tuple[tf.Tensor, Any]:
        """The exported step; the number of hypotheses, which it leaves open, stays known."""
        logits, (hidden, memory) = self._steps.step(ids, state)
        for tensor in (logits, *hidden):
            tensor.set_shape([None, ids.shape[1], *[None] * (tensor.shape.rank - 2)])
        return logits, (hidden, memory)

    def _joined(
        self, texts: Sequence[str], ids: tf.Tensor, rows: Sequence[tuple[int, int]], found: Any
    ) -> Found:
        """Joins the translations of parts; scores are means weighted by the parts' sub-words."""
        parts, count, size = found.ids.shape
        written = self._steps.write(tf.reshape(found.ids, [parts * count, size])).numpy()
        weights = tf.math.count_nonzero(ids, axis=1).numpy()
        scores = found.scores.numpy()
        numbers: list[list[int]] = [[] for _ in texts]
        for number, (text, _) in enumerate(rows):
            numbers[text].append(number)
        answers: Found = []
        for text, own in zip(texts, numbers, strict=True):
            if not text.strip():
                answers.append((("", 0.0),) * count)
                continue
            pieces = [
                [written[number * count + k].decode("utf-8", "replace") for number in own]
                for k in range(count)
            ]
            means = weights[own] @ scores[own] / weights[own].sum()
            answers.append(
                tuple(
                    (self._between.join(filter(None, each)), float(mean))
                    for each, mean in zip(pieces, means, strict=True)
                )
            )
        return answers


def _rows(owners: tf.Tensor) -> list[tuple[int, int]]:
    """Returns the text of each part, and how many parts of that text come before it."""
    rows: list[tuple[int, int]] = []
    for text in owners.numpy().tolist():
        rows.append((text, rows[-1][1] + 1 if rows and rows[-1][0] == text else 0))
    return rows


def _hash(text: str, part: int, number: int) -> int:
    """Returns a number of 64 bits for a sample of a part of a text."""
    digest = hashlib.blake2b(f"{part} {number} {text}".encode("utf-8", "replace"), digest_size=8)
    return int.from_bytes(digest.digest(), "big", signed=True)
