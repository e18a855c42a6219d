"""Strings to ids and back."""

from dtmt_tf.text.reading import ANY_BLANK, is_blank
from dtmt_tf.text.subword import Subwords, TooFewSubwords, train_subwords
from dtmt_tf.text.vocabulary import Vocabulary

__all__ = [
    "ANY_BLANK",
    "Subwords",
    "TooFewSubwords",
    "Vocabulary",
    "is_blank",
    "train_subwords",
]
