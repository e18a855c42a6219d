"""The embedded corpus as a source of text: rendered from Unicode CLDR on first use."""

from __future__ import annotations

import functools
import logging
from importlib import metadata
from pathlib import Path

from dtmt_tf.data import cldr
from dtmt_tf.data.check import TRAIN, check_pairs
from dtmt_tf.data.parallel_text import Facts, PreparedText, Split, fingerprint, prepare
from dtmt_tf.data.request import Request
from dtmt_tf.errors import UserError

logger = logging.getLogger(__name__)


def load(request: Request) -> PreparedText:
    """Returns the corpus, rendered anew when Babel or the code that renders it has changed."""
    data, languages = request.data, request.languages
    if languages != (data.source_language, data.target_language):
        raise UserError(
            "The CLDR corpus is of two languages: data.source_language and data.target_language. "
            f"Received: {data.source_language!r} and {data.target_language!r}."
        )
    code = [path.read_text("utf-8") for path in sorted(Path(cldr.__file__).parent.glob("*.py"))]

    def render() -> tuple[dict[str, Split], Facts]:
        logger.info("Rendering the corpus from Unicode CLDR")
        try:
            pairs = cldr.render_corpus(*languages)
        except (ValueError, KeyError) as error:
            raise UserError(
                f"CLDR does not give enough to translate between {' and '.join(languages)}: {error}"
            ) from error
        sides = {
            split: [[line.encode() for line in side] for side in both]
            for split, both in pairs.items()
        }
        splits = {
            split: Split(len(source), functools.partial(zip, source, target, strict=True))
            for split, (source, target) in sides.items()
        }
        return splits, Facts(tuple(check_pairs(pairs)), fingerprint(*sides[TRAIN]))

    key = ["cldr", metadata.version("babel"), *code]
    return prepare(request.datasets, languages, key, render)
