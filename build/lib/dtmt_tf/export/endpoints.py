"""Strings in, strings out: what the signatures compute, in the graph."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from dtmt_tf.cells import products_in
from dtmt_tf.config import EOS_ID, PAD_ID, DecodingConfig
from dtmt_tf.decoding import Hypotheses, by_length, make_search
from dtmt_tf.models import TranslationModel
from dtmt_tf.text import Vocabulary, joiner

ROWS = 8  # scored, or aligned, at once; [rows, T, V] and [rows, T, S, H] are in memory then
READ = 4  # a given target, prefix or scored source may have so many times the longest part

Tensors = dict[str, tf.Tensor]


class Endpoints:
    """A model and its sub-words as functions of strings `[B]`.

    A text of more sub-words than the model was trained on is cut (`text/parts.py`), translated in
    parts and joined; its score is the mean of theirs, weighted by their sub-words. Blanks around a
    text to translate are not read; a text of nothing else has an empty translation with score 0.

    Args:
        model: The model; functions use its present weights.
        vocabulary: Its sub-words.
        decoding: Beam search.
        longest: Most sub-words of a part, <eos> included.
        target_language: Decides whether parts are joined with a blank.
    """

    def __init__(
        self,
        model: TranslationModel,
        vocabulary: Vocabulary,
        decoding: DecodingConfig,
        longest: int,
        target_language: str,
    ) -> None:
        self.model = model
        self.source, self.target = vocabulary.source, vocabulary.target
        self.decoding = decoding
        self.longest = longest
        self.most = READ * longest
        self._between = joiner(target_language)
        ids = tf.TensorSpec([None, None], tf.int32)
        # one graph for all signatures that search, another for those with a prefix
        search = make_search(model.encode, model.decode_step, decoding, EOS_ID)

        def searched(
            source: tf.Tensor, prefixes: tf.Tensor | None = None, wanted: int | tf.Tensor = 1
        ) -> Hypotheses:
            with products_in(decoding.precision, model.trainable_variables):
                return search(source, prefixes, wanted)

        self._search = tf.function(
            lambda source, wanted: searched(source, wanted=wanted),
            input_signature=[ids, tf.TensorSpec([], tf.int32)],
        )
        self._search_from = tf.function(searched, input_signature=[ids, ids])

    def limits(self) -> dict[str, Any]:
        """Returns the limits that a user should know, in words where a number does not do."""
        return {
            "longest_part": self.longest,
            "longer_texts": "translate, translate_nbest and complete cut them at sentence ends, "
            "else clause ends, blanks, anywhere, and join the translations; align reads the first "
            "part alone",
            "longest_scored": self.most,
            "longer_targets": "score, and complete's prefix, read the first longest_scored "
            "sub-words",
            "extra_length": self.decoding.extra_length,
        }

    def translate(self, text: tf.Tensor) -> Tensors:
        """The best translation, and its log probability over the length penalty."""
        translations, scores, _ = self._translate(text, best=1)
        return {"translation": translations[:, 0], "score": scores[:, 0]}

    def translate_nbest(self, text: tf.Tensor) -> Tensors:
        """All K translations, `[B, K]`; lengths are in sub-words, 0 where there is none."""
        translations, scores, lengths = self._translate(text, best=self.decoding.beam_size)
        return {"translations": translations, "scores": scores, "lengths": lengths}

    def align(self, text: tf.Tensor) -> Tensors:
        """The translation of the first part, and its attention over the source, `[B, T, S]`.

        The mean over heads, under teacher forcing; what is past the lengths is "" and 0.
        """
        text = _stripped(text)
        blank = text == ""
        parts, owners = self.source.encode_parts(text, self.longest)
        first = tf.math.segment_min(tf.range(parts.nrows(tf.int32)), owners)
        source = _dense(tf.gather(parts, first))
        found = self._search(source, 1)
        length = tf.where(blank, 1, found.lengths[:, 0])
        size = tf.reduce_max(tf.concat([length, [1]], axis=0))
        only_end = tf.one_hot(tf.zeros_like(length), size, EOS_ID, PAD_ID)
        target = tf.where(blank[:, None], only_end, found.ids[:, 0, :size])

        def attend(rows: tf.Tensor) -> tf.Tensor:
            _, attention = self.model.inspect(tf.gather(source, rows), tf.gather(target, rows))
            there = tf.sequence_mask(tf.gather(length, rows), size)
            return tf.where(there[..., None], attention, 0.0)

        return {
            "translation": self.target.decode(target),
            "source_subwords": self.source.pieces(source),
            "target_subwords": self.target.pieces(target),
            "attention": by_length(
                attend, length, ROWS, tf.TensorSpec([None, None, None], tf.float32)
            ),
            "source_length": tf.math.count_nonzero(source, axis=1, dtype=tf.int32),
            "target_length": length,
        }

    def score(self, source: tf.Tensor, target: tf.Tensor) -> Tensors:
        """Log probability of each target with its <eos>, and how many sub-words that is of."""
        source_ids = _dense(self.source.encode(_stripped(source))[:, : self.most])
        target_ids = _dense(self.target.encode(target)[:, : self.most])
        tokens = tf.math.count_nonzero(target_ids, axis=1, dtype=tf.int32)

        def sums(rows: tf.Tensor) -> tf.Tensor:
            length = tf.reduce_max(tf.concat([tf.gather(tokens, rows), [1]], axis=0))
            ids = tf.gather(target_ids, rows)[:, :length]
            logits = self.model(tf.gather(source_ids, rows), ids)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(ids, logits)
            return -tf.reduce_sum(tf.where(ids > PAD_ID, losses, 0.0), axis=1)

        log_probabilities = by_length(sums, tokens, ROWS, tf.TensorSpec([None], tf.float32))
        return {"log_probability": log_probabilities, "tokens": tokens}

    def complete(self, source: tf.Tensor, prefix: tf.Tensor) -> Tensors:
        """The best translation that begins with the prefix."""
        prefix = tf.strings.unicode_transcode(prefix, "UTF-8", "UTF-8")
        ids = self.target.tokenizer.tokenize(prefix)[:, : self.most]
        translations, scores, _ = self._translate(source, best=1, prefixes=ids)
        whole = translations[:, 0]
        size = tf.strings.length(whole)
        read = tf.minimum(tf.strings.length(self.target.decode(_dense(ids))), size)
        return {
            "translation": prefix + tf.strings.substr(whole, read, size),
            "score": scores[:, 0],
        }

    def _translate(
        self, text: tf.Tensor, best: int, prefixes: tf.RaggedTensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns the `best` translations (1 with prefixes), scores, lengths, `[B, best]` each."""
        text = _stripped(text)
        blank = text == ""
        parts, owners = self.source.encode_parts(text, self.longest)
        ids = _dense(parts)
        if prefixes is None:
            hypotheses = self._search(ids, best)
        else:  # of the first part of each text
            first = tf.concat([[-1], owners[:-1]], axis=0) < owners
            mine = tf.where(first[:, None], tf.gather(_dense(prefixes), owners), PAD_ID)
            hypotheses = self._search_from(ids, mine)
        hypotheses = Hypotheses(*(tensor[:, :best] for tensor in hypotheses))
        translations = self._join(hypotheses.ids, owners, tf.size(text))
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

    def _join(self, ids: tf.Tensor, owners: tf.Tensor, texts: tf.Tensor) -> tf.Tensor:
        """Turns ids `[P, K, T]` of parts into strings `[B, K]`."""
        best = tf.shape(ids)[1]
        parts = self.target.decode(tf.reshape(ids, [-1, tf.shape(ids)[2]]))
        places = tf.reshape(owners[:, None] * best + tf.range(best), [-1])
        there = parts != ""
        joined = tf.strings.unsorted_segment_join(
            tf.boolean_mask(parts, there),
            tf.boolean_mask(places, there),
            texts * best,
            self._between,
        )
        return tf.reshape(joined, [texts, best])


def _stripped(text: tf.Tensor) -> tf.Tensor:
    """Returns texts without the blanks at either end, which would fill parts of a text."""
    return tf.strings.regex_replace(text, r"^[\s\p{Z}]+|[\s\p{Z}]+$", "")


def _dense(ids: tf.RaggedTensor) -> tf.Tensor:
    """Pads ids with 0; at least one column, also where there is no row."""
    padded = ids.to_tensor(PAD_ID)
    return tf.pad(padded, [[0, 0], [0, tf.maximum(1 - tf.shape(padded)[1], 0)]])
