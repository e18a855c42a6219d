"""Strings to ids and back."""

from dtmt_tf.text.parts import base_language, joiner
from dtmt_tf.text.subword import Subwords, Vocabulary, train_subwords

__all__ = ["Subwords", "Vocabulary", "base_language", "joiner", "train_subwords"]
