"""Strings in, strings out: what the signatures compute, in the graph."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, NoReturn

import tensorflow as tf

from dtmt_tf.cells import products_in
from dtmt_tf.config import EOS_ID, PAD_ID, UNK_ID, UNKNOWN, DecodingConfig, ExportConfig
from dtmt_tf.decoding import (
    Hypotheses,
    Shortlist,
    by_length,
    lengths_of,
    longest_hypotheses,
    longest_of,
    make_search,
)
from dtmt_tf.export.limits import described, limit_lines, limit_parts, limit_tokens
from dtmt_tf.export.stored import StoredWeights
from dtmt_tf.export.unknown import UnknownWords, begins_word, never_written
from dtmt_tf.languages import between_sentences
from dtmt_tf.models import TranslationModel
from dtmt_tf.text import ANY_BLANK, Vocabulary

TOKENS_AT_ONCE = 2048  # of targets that are scored; [TOKENS_AT_ONCE, V] is in memory then
PAIRS_AT_ONCE = 130_000  # of target and source tokens aligned; [PAIRS_AT_ONCE, H] in memory
MAX_PARTS = 4  # that a given target, prefix or scored source may be as long as

Tensors = dict[str, tf.Tensor]


class _Accepted(Exception):
    """Ends a request where its work would begin: after all checks."""


class Endpoints:
    """A model and its sub-words as functions of strings `[B]`.

    A text of more sub-words than the model was trained on is cut (`text/parts.py`), translated in
    parts and joined; its score is the mean of theirs, weighted by their sub-words. Source text is
    read as the sub-words know it (`text/reading.py`); one without any has an empty translation with
    score 0.

    Args:
        model: The model; functions use its present weights.
        vocabulary: Its sub-words.
        decoding: Beam search.
        longest: Most sub-words of a part, <eos> included.
        target_language: Decides whether parts are joined with a blank.
        limits: How weights are kept, and what a request may ask for at most; by default as they
            are, and anything.
        dictionary: Translations of words, for `decoding.replace_unknown`.
        shortlist: The target words that a search tries; all by default.
    """

    def __init__(
        self,
        model: TranslationModel,
        vocabulary: Vocabulary,
        decoding: DecodingConfig,
        longest: int,
        target_language: str,
        limits: ExportConfig | None = None,
        dictionary: Mapping[str, str] | None = None,
        shortlist: Shortlist | None = None,
    ) -> None:
        self.model = model
        self.vocabulary = vocabulary
        self.source, self.target = vocabulary.source, vocabulary.target
        self.decoding = decoding
        self.longest = longest
        self.most = MAX_PARTS * longest
        self.limits = limits
        self.stored = StoredWeights(model, limits.quantize if limits else "none")
        words = self._as_read(dictionary or {})
        self.unknown = UnknownWords(words) if decoding.replace_unknown else None
        self._between = " " if self.target.of_words else between_sentences(target_language)
        self._begins = begins_word(self.target) if self._between else None
        ids = tf.TensorSpec([None, None], tf.int32)
        search = make_search(
            *(model.encode, model.decode_step, decoding, shortlist, model.among),
            never=never_written(self.target, decoding),
            begins=self._begins,
        )

        def searched(source: tf.Tensor, prefixes: tf.Tensor, wanted: tf.Tensor) -> Hypotheses:
            with self.stored.read(), products_in(decoding.precision, model.trainable_variables):
                return search(source, prefixes, wanted)

        # one graph for all signatures that search
        self._search_from = tf.function(
            searched,
            input_signature=[ids, ids, tf.TensorSpec([], tf.int32)],
            autograph=False,
        )

        def cut(text: tf.Tensor) -> tuple[tf.Tensor, tf.RaggedTensor, tf.Tensor]:
            text = self.source.read(text)
            return text, *self.source.encode_parts(text, longest)

        # and one for all that read
        self._cut = tf.function(
            cut, input_signature=[tf.TensorSpec([None], tf.string)], autograph=False
        )

    def described_limits(self) -> dict[str, Any]:
        """Returns the limits that a user should know, in words where a number does not do."""
        return {
            **(described(self.limits) if self.limits else {}),
            **self.stored.described(),
            "longest_part": self.longest,
            "longer_texts": "translate, translate_nbest and complete cut them at sentence ends, "
            "else clause ends, blanks, anywhere, and join the translations; align reads the first "
            "part alone",
            "longest_scored": self.most,
            "longer_pairs": "score reads the first longest_scored sub-words of source and target, "
            "the end among them, complete those of its prefix",
            "extra_length": self.decoding.extra_length,
        }

    def accepts(self, name: str, *texts: Sequence[str]) -> bool:
        """Whether the limits let a request through; nothing is searched or scored.

        Args:
            name: A signature.
            texts: Its inputs.
        """

        def begin(*_: Any) -> NoReturn:
            raise _Accepted

        checks: Any = copy.copy(self)
        checks._search_from, checks.stored = begin, SimpleNamespace(read=begin)
        try:
            checked = limit_lines(self.limits, *map(tf.constant, texts))
            if name != "info":  # which reads nothing
                getattr(checks, name)(*checked)
        except _Accepted:
            return True
        except tf.errors.InvalidArgumentError:
            return False
        return True

    def translate(self, text: tf.Tensor) -> Tensors:
        """The best translation, and its log probability over the length penalty."""
        translations, scores, _ = self._translate(text, best=1)
        return {"translation": translations[:, 0], "score": scores[:, 0]}

    serving_default = translate

    def translate_nbest(self, text: tf.Tensor) -> Tensors:
        """All K translations, `[B, K]`; lengths are in sub-words, 0 where there is none."""
        translations, scores, lengths = self._translate(text, best=self.decoding.beam_size)
        return {"translations": translations, "scores": scores, "lengths": lengths}

    def align(self, text: tf.Tensor) -> Tensors:
        """The translation of the first part, and its attention over the source, `[B, T, S]`.

        The mean over heads, under teacher forcing; what is past the lengths is "" and 0.
        """
        text, parts, owners = self._parts(text)
        blank = _without_subwords(parts, owners)
        first = tf.math.segment_min(tf.range(parts.nrows(tf.int32)), owners)
        source = self._within(dense(tf.gather(parts, first)), times=2)  # written, then scored
        found = self._search(source, 1)
        length = tf.where(blank, 1, found.lengths[:, 0])
        only_end = tf.one_hot(tf.zeros_like(length), longest_of(length), EOS_ID, PAD_ID)
        target = tf.where(blank[:, None], only_end, found.ids[:, 0, : longest_of(length)])
        attention = self._attention(source, target, length)
        unknown = None
        if self.unknown:
            with tf.control_dependencies([found.ids]):  # what is refused takes no memory for it
                surfaces = self.source.part_surfaces(text, self.longest, parts, owners)
            surfaces = dense(tf.gather(surfaces, first), "")
            unknown = self.unknown(source, surfaces, attention)
        return {
            "translation": self.target.decode(target, unknown),
            "source_subwords": self.source.pieces(source),
            "target_subwords": self.target.pieces(target),
            "attention": attention,
            "source_length": lengths_of(source),
            "target_length": length,
        }

    def score(self, source: tf.Tensor, target: tf.Tensor) -> Tensors:
        """Log probability of each target with its <eos>, and how many sub-words that is of."""
        source_ids = dense(self.source.encode(self.source.read(source), self.most))
        target_ids = dense(self.target.encode(self.target.read(target), self.most))
        source_length, tokens = lengths_of(source_ids), lengths_of(target_ids)
        if self.limits:
            target_ids = limit_tokens(self.limits, target_ids, source_length + tokens)

        def sums(rows: tf.Tensor) -> tf.Tensor:
            s, t = (longest_of(tf.gather(lengths, rows)) for lengths in (source_length, tokens))
            ids = tf.gather(target_ids, rows)[:, :t]
            logits = self.model(tf.gather(source_ids, rows)[:, :s], ids)
            logits = tf.cast(logits, tf.float32)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(ids, logits)
            return -tf.reduce_sum(tf.where(ids > PAD_ID, losses, 0.0), axis=1)

        with self.stored.read():
            log_probabilities = by_length(
                sums,
                tf.maximum(source_length, tokens),
                self.decoding.batch_size,
                tf.TensorSpec([None], tf.float32),
                TOKENS_AT_ONCE,
            )
        return {"log_probability": log_probabilities, "tokens": tokens}

    def complete(self, source: tf.Tensor, prefix: tf.Tensor) -> Tensors:
        """The best translation that begins with the prefix; after a blank there a word begins."""
        prefix = tf.strings.unicode_transcode(_without_mark(prefix), "UTF-8", "UTF-8")
        begun = tf.strings.regex_replace(prefix, f"{ANY_BLANK}+$", "")
        ids = self.target.tokens(self.target.read(begun))[:, : self.most]
        wanted = ids
        if self._begins is not None:
            word = tf.cast((begun != prefix) & (begun != ""), tf.int64)
            ends = tf.RaggedTensor.from_row_lengths(tf.fill([tf.reduce_sum(word)], EOS_ID), word)
            wanted = tf.concat([ids, ends], axis=1)[:, : self.most]
        translations, scores, _ = self._translate(source, best=1, prefixes=wanted)
        whole = translations[:, 0]
        size = tf.strings.length(whole)
        given = dense(ids)
        sign = tf.fill(tf.shape(given), UNKNOWN) if self.unknown else None
        read = tf.minimum(tf.strings.length(self.target.decode(given, sign)), size)
        rest = tf.strings.substr(whole, read, size)
        rest = tf.where(prefix == begun, rest, tf.strings.regex_replace(rest, "^ +", ""))
        return {"translation": prefix + rest, "score": scores[:, 0]}

    def _search(self, source: tf.Tensor, wanted: int) -> Hypotheses:
        """Returns the hypotheses of source ids `[P, S]`, of which so many are final."""
        return self._search_from(source, tf.zeros([tf.shape(source)[0], 0], tf.int32), wanted)

    def _as_read(self, dictionary: Mapping[str, str]) -> dict[str, str]:
        """Returns a dictionary with its words in the characters that source text is read in."""
        if not dictionary:
            return {}
        found: dict[str, str] = {}
        words = self.source.read(tf.constant(list(dictionary))).numpy()
        for word, by in zip(words, dictionary.values(), strict=True):
            if word:  # else nothing of it shows
                found.setdefault(word.decode(), by)
        return found

    def read(self, text: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns all parts of texts: ids `[P, S]`, the number of their text, what they say.

        What the sub-words do not know is said as it stands in the text.
        """
        text, parts, owners = self._cut(text)
        ids = dense(parts)
        surfaces = self.source.part_surfaces(text, self.longest, parts, owners)
        return ids, owners, self.source.decode(ids, dense(surfaces, ""))

    def _translate(
        self, text: tf.Tensor, best: int, prefixes: tf.RaggedTensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns the `best` translations (1 with prefixes), scores, lengths, `[B, best]` each."""
        text, parts, owners = self._parts(text)
        blank = _without_subwords(parts, owners)
        ids = dense(parts)
        times = 2 if self.unknown else 1  # what is written is scored, then
        if prefixes is None:
            mine = tf.zeros([tf.shape(ids)[0], 0], tf.int32)
            hypotheses = self._search(self._within(ids, times=times), best)
        else:  # of the first part of each text
            first = tf.concat([[-1], owners[:-1]], axis=0) < owners
            mine = tf.where(first[:, None], tf.gather(dense(prefixes), owners), PAD_ID)
            hypotheses = self._search_from(self._within(ids, mine, times), mine, best)
        hypotheses = Hypotheses(*(tensor[:, :best] for tensor in hypotheses))
        unknown = None
        if self.unknown:
            with tf.control_dependencies([hypotheses.ids]):  # as in `align`
                surfaces = self.source.part_surfaces(text, self.longest, parts, owners)
            surfaces = dense(surfaces, "")
            given = tf.reduce_sum(tf.cast(mine > EOS_ID, tf.int32), axis=1)
            unknown = self._replacements(self.unknown, ids, surfaces, hypotheses, given)
        translations = self._join(hypotheses.ids, unknown, owners, tf.size(text))
        weights = tf.cast(parts.row_lengths(), tf.float32)[:, None]
        scores = tf.math.segment_sum(hypotheses.scores * weights, owners)
        scores /= tf.math.segment_sum(weights, owners)
        lengths = tf.math.segment_sum(hypotheses.lengths, owners)
        missing = tf.math.segment_min(hypotheses.lengths, owners) < 1
        blank = blank[:, None]
        return (
            tf.where(blank | missing, "", translations),
            tf.where(blank, 0.0, scores),
            tf.where(blank | missing, 0, lengths),
        )

    def _parts(self, text: tf.Tensor) -> tuple[tf.Tensor, tf.RaggedTensor, tf.Tensor]:
        """Returns texts without what is not read, their parts, and the text of each part."""
        text, parts, owners = self._cut(text)
        if self.limits:
            parts = limit_parts(self.limits, parts, owners)
        return text, parts, owners

    def _within(
        self, source: tf.Tensor, prefixes: tf.Tensor | None = None, times: int = 1
    ) -> tf.Tensor:
        """Returns source ids `[P, S]` to be searched; they are refused if that is too much work."""
        if not self.limits:
            return source
        tokens = longest_hypotheses(source, self.decoding, prefixes)
        return limit_tokens(self.limits, source, times * tokens)

    def _attention(self, source: tf.Tensor, target: tf.Tensor, length: tf.Tensor) -> tf.Tensor:
        """Returns what targets `[N, T]` of a length attend to, `[N, T, S]`, 0 past the lengths."""
        source_length = lengths_of(source)
        size, width = tf.shape(target)[1], tf.shape(source)[1]

        def attend(rows: tf.Tensor) -> tf.Tensor:
            s, t = (longest_of(tf.gather(lengths, rows)) for lengths in (source_length, length))
            attention = self.model.attention(
                tf.gather(source, rows)[:, :s], tf.gather(target, rows)[:, :t]
            )
            there = tf.sequence_mask(tf.gather(length, rows), t)
            attention = tf.where(there[..., None], attention, 0.0)
            return tf.pad(attention, [[0, 0], [0, size - t], [0, width - s]])

        with self.stored.read():
            return by_length(
                attend,
                tf.cast(tf.maximum(source_length, length), tf.int64) ** 2,
                self.decoding.batch_size,
                tf.TensorSpec([None, None, None], tf.float32),
                PAIRS_AT_ONCE,
            )

    def _replacements(
        self,
        unknown: UnknownWords,
        source: tf.Tensor,
        surfaces: tf.Tensor,
        found: Hypotheses,
        given: tf.Tensor,
    ) -> tf.Tensor:
        """Returns what each <unk> of hypotheses becomes, strings `[P, K, T]`; a sign if given."""
        best, size = tf.shape(found.ids)[1], tf.shape(found.ids)[2]
        ids, lengths = tf.reshape(found.ids, [-1, size]), tf.reshape(found.lengths, [-1])
        new = tf.range(size) >= tf.repeat(given, best)[:, None]
        places = tf.equal(ids, UNK_ID) & new
        rows = tf.where(tf.reduce_any(places, axis=1))[:, 0]
        ids, lengths = tf.gather(ids, rows), tf.gather(lengths, rows)
        owners = tf.cast(rows, tf.int32) // best
        source = tf.gather(source, owners)
        attention = self._attention(source, ids, lengths)
        words = unknown(source, tf.gather(surfaces, owners), attention)
        signs = tf.fill(tf.shape(places), UNKNOWN)
        words = tf.tensor_scatter_nd_update(signs, rows[:, None], words)
        return tf.reshape(tf.where(places, words, signs), [-1, best, size])

    def _join(
        self, ids: tf.Tensor, unknown: tf.Tensor | None, owners: tf.Tensor, texts: tf.Tensor
    ) -> tf.Tensor:
        """Turns ids `[P, K, T]` of parts, and what <unk> becomes, into strings `[B, K]`."""
        best, size = tf.shape(ids)[1], tf.shape(ids)[2]
        if unknown is not None:
            unknown = tf.reshape(unknown, [-1, size])
        parts = self.target.decode(tf.reshape(ids, [-1, size]), unknown)
        places = tf.reshape(owners[:, None] * best + tf.range(best), [-1])
        there = parts != ""
        joined = tf.strings.unsorted_segment_join(
            tf.boolean_mask(parts, there),
            tf.boolean_mask(places, there),
            texts * best,
            self._between,
        )
        return tf.reshape(joined, [texts, best])


def _without_subwords(parts: tf.RaggedTensor, owners: tf.Tensor) -> tf.Tensor:
    """Returns whether the parts of each text, `[P, (n)]`, are <eos> alone, `[B]`."""
    return tf.equal(tf.math.segment_sum(parts.row_lengths(), owners), 1)


def _without_mark(text: tf.Tensor) -> tf.Tensor:
    """Returns texts without the byte order mark (BOM) that some editors put before them."""
    return tf.strings.regex_replace(text, r"^\x{FEFF}", "")


def dense(rows: tf.RaggedTensor, padding: Any = PAD_ID) -> tf.Tensor:
    """Pads rows; at least one column, also where there is no row."""
    padded = rows.to_tensor(padding)
    missing = tf.maximum(1 - tf.shape(padded)[1], 0)
    return tf.pad(padded, [[0, 0], [0, missing]], constant_values=padding)
