"""Strings to ids and back."""

from dtmt_tf.text.parts import joiner
from dtmt_tf.text.subword import Subwords, Vocabulary, train_subwords

__all__ = ["Subwords", "Vocabulary", "joiner", "train_subwords"]
