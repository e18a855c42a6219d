"""What translations do without, where words begin, <unk> replaced by words of the source."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from dtmt_tf.config import BLANK, EOS_ID, PAD_ID, UNK_ID, DecodingConfig
from dtmt_tf.text import Subwords


def never_written(target: Subwords, decoding: DecodingConfig) -> tuple[int, ...]:
    """Returns the ids that translations do without.

    That is padding, and <unk> where pieces spell translations and nothing replaces it.
    """
    return (PAD_ID,) if target.of_words or decoding.replace_unknown else (PAD_ID, UNK_ID)


def begins_word(target: Subwords) -> np.ndarray | None:
    """Returns which tokens stand after a blank, `[V]` bool; nothing if all do, as words do."""
    if target.of_words:
        return None
    pieces = target.pieces(tf.range(target.size))
    return tf.strings.regex_full_match(pieces, f"(?s){BLANK}.*").numpy()


class UnknownWords:
    """What each <unk> of a translation is replaced by: PosUnk of Wang et al. (2017), Section 4.3.

    As Jean et al. (2015), arXiv:1412.2007, Section 3.3, take it: the source word with most
    attention, translated by a dictionary if that has it, or else copied. In a source of sub-words
    it is the sub-word with most attention.

    Args:
        dictionary: Translations of source words; may be empty.

    Attributes:
        dictionary: These.
    """

    def __init__(self, dictionary: Mapping[str, str]) -> None:
        self.dictionary = dict(dictionary)
        self.table: tf.lookup.StaticHashTable | None = None
        if dictionary:
            pairs = (tf.constant(list(side)) for side in (dictionary, dictionary.values()))
            self.table = tf.lookup.StaticHashTable(
                tf.lookup.KeyValueTensorInitializer(*pairs), default_value=""
            )

    def __call__(
        self, source_ids: tf.Tensor, surfaces: tf.Tensor, attention: tf.Tensor
    ) -> tf.Tensor:
        """Returns the replacement at each place of translations, strings `[N, T]`.

        Args:
            source_ids: `[N, S]`, padded with 0; <eos>, padding and what shows nothing are no words.
            surfaces: What each of them is in the text, strings `[N, S]`.
            attention: `[N, T, S]`.
        """
        shown = (source_ids > EOS_ID) & (surfaces != "")
        attention = tf.where(shown[:, None], attention, -1.0)
        best = tf.argmax(attention, axis=2, output_type=tf.int32)
        words = tf.gather(surfaces, best, batch_dims=1)
        if self.table is None:
            return words
        translated = self.table.lookup(words)
        return tf.where(translated == "", words, translated)
