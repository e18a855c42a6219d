"""The corpus that needs no download: short phrases rendered in two languages from Unicode CLDR."""

from dtmt_tf.data.cldr.corpus import render_corpus

__all__ = ["render_corpus"]
