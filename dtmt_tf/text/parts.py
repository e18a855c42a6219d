"""Long texts cut into parts that a model can read."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from dtmt_tf.config import BLANK
from dtmt_tf.languages import script

SENTENCE_ENDS = ".!?…؟۔।॥။។།።։。｡．！？"
CLAUSE_ENDS = ",;:)–—،؛、，；："
UNSPACED_ENDS = "။។།።。｡！？、，；："  # no blank needs to follow them
NARROW_ENDS = "!?,;:"  # nor these, which NFKC makes of wide ones, before letters of SCRIPTS
SCRIPTS = ("CJK", "HIRAGANA", "KATAKANA")
CLOSING = ("Pe", "Pf")  # categories of brackets and quotes that end, and go with what they end
SENTENCE, CLAUSE, WORD, INSIDE = 3, 2, 1, 0  # how good a place is to cut


class Cutter:
    """Cuts sentences of sub-words at sentence ends, or else clause ends, blanks, anywhere.

    Each part ends at the best place in reach, as late as possible.

    Args:
        pieces: The vocabulary.
    """

    def __init__(self, pieces: Sequence[str]) -> None:
        last = [(piece.rstrip("".join(filter(_closes, piece))) or piece)[-1:] for piece in pieces]
        self._ends = np.array(
            [SENTENCE * (c in SENTENCE_ENDS) or CLAUSE * (c in CLAUSE_ENDS) if c else INSIDE
             for c in last], np.int32
        )  # fmt: skip
        self._unspaced = np.array([c != "" and c in UNSPACED_ENDS for c in last])
        self._narrow = np.array([c != "" and c in NARROW_ENDS for c in last])
        self._begins = np.array([piece.startswith(BLANK) for piece in pieces])
        self._touches = np.array([script(piece[:1]) in SCRIPTS for piece in pieces])
        # what only closes is as good a place as what it closes, and nothing is cut before it
        self._closes = np.array([piece != "" and all(map(_closes, piece)) for piece in pieces])
        ends = {*UNSPACED_ENDS, *NARROW_ENDS}
        self._goes_on = np.array([piece[:1] in ends or _closes(piece[:1]) for piece in pieces])

    def __call__(
        self, ids: tf.RaggedTensor, longest: int | tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.Tensor]:
        """Cuts rows that are too long.

        Args:
            ids: Sub-words `[B, (n)]`.
            longest: Most sub-words of a part; one number, or `[B]`, one for each row.

        Returns:
            Parts `[P, (m)]`, P >= B, in order, and the row of each, `[P]`. Joined they are
            `ids`; an empty row is one empty part.
        """
        lengths, starts = ids.row_lengths(), ids.row_starts()
        flat = tf.pad(ids.flat_values, [[0, 1]])
        ends, unspaced = (tf.gather(of, flat[:-1]) for of in (self._ends, self._unspaced))
        rows = ids.value_rowids()  # what is before the first of a row is of another
        closes = tf.gather(self._closes, flat[:-1]) & tf.equal(rows, _before(rows))
        for _ in range(2):  # a quote in a quote
            ends = tf.where(closes, tf.maximum(ends, _before(ends)), ends)
            unspaced |= closes & _before(unspaced)
        places = tf.maximum(ends, WORD)
        free = tf.gather(self._begins, flat[1:]) | unspaced
        free |= tf.gather(self._narrow, flat[:-1]) & tf.gather(self._touches, flat[1:])
        free &= ~tf.gather(self._goes_on, flat[1:])
        places = tf.pad(tf.where(free, places, INSIDE), [[0, 1]])
        longest = tf.broadcast_to(tf.cast(longest, tf.int64), tf.shape(lengths))
        most = tf.reduce_max(tf.concat([[1], longest], axis=0))
        reach = tf.range(most)
        in_reach = reach < longest[:, None]

        def cut(done: tf.Tensor, cuts: tf.TensorArray) -> tuple[tf.Tensor, tf.TensorArray]:
            window = tf.minimum((starts + done)[:, None] + reach, tf.size(places, tf.int64) - 1)
            worth = tf.cast(tf.gather(places, window), tf.int64) * most + reach
            worth = tf.where(in_reach, worth, -1)
            left = lengths - done
            size = tf.where(left <= longest, left, tf.argmax(worth, axis=1) + 1)
            return done + size, cuts.write(cuts.size(), size)

        def unfinished(done: tf.Tensor, cuts: tf.TensorArray) -> tf.Tensor:
            return tf.equal(cuts.size(), 0) | tf.reduce_any(done < lengths)

        cuts = tf.TensorArray(tf.int64, 0, dynamic_size=True, element_shape=[None])
        _, cuts = tf.while_loop(unfinished, cut, (tf.zeros_like(lengths), cuts))
        sizes = tf.transpose(cuts.stack())  # [B, rounds]
        real = (sizes > 0) | tf.equal(tf.range(tf.shape(sizes)[1]), 0)
        parts = tf.RaggedTensor.from_row_lengths(ids.flat_values, tf.boolean_mask(sizes, real))
        return parts, tf.cast(tf.where(real)[:, 0], tf.int32)


def _closes(character: str) -> bool:
    return character != "" and unicodedata.category(character) in CLOSING


def _before(values: tf.Tensor) -> tf.Tensor:
    """Returns the value before each, of the first its own."""
    return tf.concat([values[:1], values[:-1]], axis=0)
