"""Searches that run in this process, over the parts of an exported model."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from dtmt_tf.config import PAD_ID, UNK_ID, UNKNOWN, DecodingConfig
from dtmt_tf.decoding import (
    Hypotheses,
    Sampling,
    beam_search,
    constrained,
    find_by_length,
    holding,
    limited,
    longest_hypotheses,
    normalised,
    sample,
)
from dtmt_tf.errors import UserError
from dtmt_tf.languages import between_sentences, has_blanks
from dtmt_tf.translator.constraints import Constraints, Phrase

Found = list[tuple[tuple[str, float], ...]]  # for each text its translations with their scores
Search = Callable[[list[str]], Found]
MOST_GRAPHS = 32  # of searches and samplers that are kept; a trace of each takes seconds
BEAM_STEP = 8  # places that a beam gets at once beside its own, one for each token of terms
_IDS = tf.TensorSpec([None, None], tf.int32)
_PHRASES = tf.TensorSpec([None, None, None], tf.int32)
_ALLOWED = tf.TensorSpec([None], tf.bool)


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
        self._blanks = has_blanks(card["source_language"]), has_blanks(card["target_language"])
        languages = card["source_language"], card["target_language"]
        self._between_read, self._between = map(between_sentences, languages)
        self._graphs: dict[Any, Any] = {}
        self._lock = threading.Lock()

    def constraints(
        self, glossary: Mapping[str, str], vocabulary: Iterable[str] | None
    ) -> Constraints:
        """Returns terms and words in the model's sub-words, source terms as it reads them."""
        sources = self._read(list(glossary)).whole if glossary else []
        terms: dict[str, str] = {}
        for source, (term, target) in zip(sources, glossary.items(), strict=True):
            if terms.setdefault(source, target) != target:
                raise UserError(
                    f"The glossary's term {term!r} is read as {source!r}, which has two "
                    f"translations: {terms[source]!r} and {target!r}."
                )
        return Constraints(self._steps.subwords, self._size(), self._blanks, terms, vocabulary)

    def targets(self, texts: list[str], constraints: Constraints) -> list[list[str]]:
        """Returns the translations of the terms that each text, as the model reads it, holds."""
        return list(map(constraints.targets, self._read(texts).whole))

    def sampler(self, sampling: Sampling, allowed: tf.Tensor | None, count: int) -> Search:
        """Returns what draws `count` translations of each text, see `decoding.sample`.

        The k-th of a text is the same whatever other texts are asked for with it.

        Args:
            sampling: How they are drawn.
            allowed: Which sub-words may be drawn, `[V]`; all by default.
            count: How many.
        """
        key = dataclasses.replace(sampling, seed=0), allowed is None, count
        graph = self._graph(key, lambda: self._sampling_graph(sampling, allowed is None, count))

        def search(texts: list[str]) -> Found:
            ids, owners, _ = self._steps.read(_bytes(texts))
            rows = _rows(owners)
            named = [(texts[text], part) for text, part in rows]
            seeds = [[(_hash(*name, k), sampling.seed) for k in range(count)] for name in named]
            shaped = tf.reshape(tf.constant(seeds, tf.int64), [len(rows), count, 2])
            found = graph(ids, shaped, self._mask(allowed))
            return self._joined(texts, ids, rows, found)

        return search

    def searcher(self, constraints: Constraints, count: int) -> Search:
        """Returns what finds the best `count` translations that meet constraints."""
        least = max(count, self._decoding.beam_size)

        def search(texts: list[str]) -> Found:
            together: dict[int, list[int]] = {}  # by the size of the beam, whatever the neighbours
            held = _phrases(self._read(texts), constraints)
            for number, own in enumerate(held):
                tokens = max(sum(map(len, part)) for part in own)
                together.setdefault(least + BEAM_STEP * -(-tokens // BEAM_STEP), []).append(number)
            found: dict[int, tuple[tuple[str, float], ...]] = {}
            for size, numbers in together.items():
                some = self._held([texts[k] for k in numbers], constraints, count, size)
                found.update(zip(numbers, some, strict=True))
            return [found[k] for k in range(len(texts))]

        return search

    def _held(self, texts: list[str], constraints: Constraints, count: int, size: int) -> Found:
        read = self._read(texts)
        phrases = tf.constant(_padded(itertools.chain(*_phrases(read, constraints))))
        key = size, constraints.has_terms, constraints.allowed is None
        graph = self._graph(key, lambda: self._search_graph(*key))
        found = graph(read.ids, phrases, self._mask(constraints.allowed), count)
        some = Hypotheses(*(each[:, :count] for each in found))
        return self._joined(texts, read.ids, read.rows, some)

    def _read(self, texts: list[str]) -> _Read:
        ids, owners, parts = self._steps.read(_bytes(texts))
        rows = _rows(owners)
        own: list[list[str]] = [[] for _ in texts]
        for (text, _), part in zip(rows, parts.numpy().tolist(), strict=True):
            own[text].append(part.decode("utf-8", "replace"))
        whole = [self._between_read.join(each) for each in own]
        # an export of an earlier version reads any unknown word as that sign
        pairs = zip(whole, texts, strict=True)
        whole = [b if UNKNOWN in a and UNKNOWN not in b else a for a, b in pairs]
        return _Read(ids, rows, own, whole)

    def _graph(self, key: Any, make: Callable[[], Any]) -> Any:
        with self._lock:
            if key not in self._graphs:
                while len(self._graphs) >= MOST_GRAPHS:
                    self._graphs.pop(next(iter(self._graphs)))
                self._graphs[key] = make()
            return self._graphs[key]

    def _size(self) -> int:
        """Returns the number of target sub-words."""
        logits, _ = self._steps.step.concrete_functions[0].structured_outputs
        return int(logits.shape[-1])

    @functools.cached_property
    def _writes_words(self) -> bool:
        """Whether the target vocabulary is one of words, not of sub-words."""
        (written,) = self._steps.write(tf.constant([[UNK_ID]])).numpy()
        return bool(written == written.strip())

    def _never(self) -> tuple[int, ...]:
        """Returns padding and <unk>, which stands for others where a model writes words."""
        return (PAD_ID,) if self._writes_words else (PAD_ID, UNK_ID)

    def _mask(self, allowed: tf.Tensor | None) -> tf.Tensor:
        return tf.zeros([0], tf.bool) if allowed is None else allowed

    def _sampling_graph(self, sampling: Sampling, free: bool, count: int) -> Any:
        steps, decoding, never = self._steps, self._decoding, self._never()

        def draw(source_ids: tf.Tensor, seeds: tf.Tensor, allowed: tf.Tensor) -> Hypotheses:
            step = normalised(self._step)

            def find(rows: tf.Tensor, sources: tf.Tensor, max_lengths: tf.Tensor) -> Hypotheses:
                return sample(
                    step if free else limited(step, allowed),
                    steps.encode(sources),
                    max_lengths,
                    tf.gather(seeds, rows),
                    sampling,
                    decoding,
                    never=never,
                )

            max_lengths = longest_hypotheses(source_ids, decoding)
            return find_by_length(find, source_ids, max_lengths, count, self._rows_at_once(count))

        seeds = tf.TensorSpec([None, count, 2], tf.int64)
        return tf.function(draw, input_signature=[_IDS, seeds, _ALLOWED], autograph=False)

    def _search_graph(self, size: int, has_terms: bool, free: bool) -> Any:
        steps, never = self._steps, self._never()
        decoding = dataclasses.replace(self._decoding, beam_size=size, prune=0.0)

        def best(
            source_ids: tf.Tensor, phrases: tf.Tensor, allowed: tf.Tensor, wanted: tf.Tensor
        ) -> Hypotheses:
            def find(rows: tf.Tensor, sources: tf.Tensor, max_lengths: tf.Tensor) -> Hypotheses:
                step, choose = normalised(self._step), None
                step = step if free else limited(step, allowed)
                state = steps.encode(sources)
                own = tf.gather(phrases, rows)
                if has_terms:
                    step, state, choose = constrained(step, state, own)
                found = beam_search(
                    *(step, state, max_lengths, decoding),
                    wanted=wanted,
                    choose=choose,
                    never=never,
                )
                return holding(found, own) if has_terms else found

            room = tf.math.count_nonzero(phrases, axis=[1, 2], dtype=tf.int32)
            max_lengths = longest_hypotheses(source_ids, decoding) + room
            # with terms candidates are compared by pairs
            rows = self._rows_at_once(size, 2 if has_terms else 1)
            return find_by_length(find, source_ids, max_lengths, size, rows)

        wanted = tf.TensorSpec([], tf.int32)
        signature = [_IDS, _PHRASES, _ALLOWED, wanted]
        return tf.function(best, input_signature=signature, autograph=False)

    def _rows_at_once(self, count: int, power: int = 1) -> int:
        """Returns how many sentences with `count` hypotheses take the memory of a plain search."""
        batch, beam = self._decoding.batch_size, self._decoding.beam_size
        return max(1, min(batch, int(batch * beam**power // count**power)))

    def _step(self, ids: tf.Tensor, state: Any) -> tuple[tf.Tensor, Any]:
        """The exported step; the number of hypotheses, which it leaves open, stays known."""
        logits, (hidden, memory) = self._steps.step(ids, state)
        for tensor in (logits, *hidden):
            tensor.set_shape([None, ids.shape[1], *[None] * (tensor.shape.rank - 2)])
        return logits, (hidden, memory)

    def _joined(
        self, texts: Sequence[str], ids: tf.Tensor, rows: Sequence[tuple[int, int]], found: Any
    ) -> Found:
        """Joins the translations of parts; scores are means weighted by the parts' sub-words.

        Where a part has fewer translations than others, so has the whole.
        """
        parts, count, size = found.ids.shape
        written = self._steps.write(tf.reshape(found.ids, [parts * count, size])).numpy()
        weights = tf.math.count_nonzero(ids, axis=1).numpy()
        scores = found.scores.numpy()
        numbers: list[list[int]] = [[] for _ in texts]
        for number, (owner, _) in enumerate(rows):
            numbers[owner].append(number)
        between = " " if self._writes_words else self._between
        answers: Found = []
        for own in numbers:
            if weights[own].sum() == 1:  # <eos> alone
                answers.append(())
                continue
            there = found.lengths.numpy()[own].min(axis=0) > 0
            pieces = [
                [written[number * count + k].decode("utf-8", "replace") for number in own]
                for k in range(count)
            ]
            means = weights[own] @ scores[own] / weights[own].sum()
            answers.append(
                tuple(
                    (between.join(filter(None, each)), float(mean))
                    for each, mean, is_there in zip(pieces, means, there, strict=True)
                    if is_there
                )
            )
        return answers


class _Read(NamedTuple):
    """Texts as the model reads them."""

    ids: tf.Tensor  # of all parts, `[P, S]`
    rows: list[tuple[int, int]]  # see `_rows`
    parts: list[list[str]]  # of each text
    whole: list[str]  # each text


def _bytes(texts: list[str]) -> tf.Tensor:
    return tf.constant([text.encode("utf-8", "replace") for text in texts], tf.string)


def _rows(owners: tf.Tensor) -> list[tuple[int, int]]:
    """Returns the text of each part, and how many parts of that text come before it."""
    rows: list[tuple[int, int]] = []
    for text in owners.numpy().tolist():
        rows.append((text, rows[-1][1] + 1 if rows and rows[-1][0] == text else 0))
    return rows


def _phrases(read: _Read, constraints: Constraints) -> list[list[list[Phrase]]]:
    """Returns the terms of each part of each text.

    A term that a cut divides is its text's first part's.
    """
    found = []
    for whole, parts in zip(read.whole, read.parts, strict=True):
        there = [constraints.phrases(part) for part in parts]
        wanted: list[list[Phrase]] = [[] for _ in parts]
        for term, phrase in constraints.phrases(whole).items():
            part = next((k for k, terms in enumerate(there) if term in terms), 0)
            if phrase not in wanted[part]:
                wanted[part].append(phrase)
        found.append(wanted)
    return found


def _padded(parts: Iterable[list[Phrase]]) -> np.ndarray:
    """Returns the terms of parts as one array, `[P, N, L]`."""
    rows = list(parts)
    longest = max((len(phrase) for each in rows for phrase in each), default=1)
    result = np.zeros([len(rows), max([1, *map(len, rows)]), longest], np.int32)
    for k, each in enumerate(rows):
        for n, phrase in enumerate(each):
            result[k, n, : len(phrase)] = phrase
    return result


def _hash(text: str, part: int, number: int) -> int:
    """Returns a number of 64 bits for a sample of a part of a text."""
    digest = hashlib.blake2b(f"{part} {number} {text}".encode("utf-8", "replace"), digest_size=8)
    return int.from_bytes(digest.digest(), "big", signed=True)
