"""Source text in the characters that a sub-word model knows."""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Callable, Iterable

import tensorflow as tf
import tensorflow_text as tf_text

MOST_BLANKS = 16  # longer runs of blanks inside a text are read as one; they would fill parts
ANY_BLANK = r"[\s\x0b\x1c-\x1f\x{85}\p{Z}]"  # a blank of any kind, as a pattern
_BLANKS = [chr(k) for k in range(0x3001) if chr(k).isspace()]  # the same, one by one
# controls, and what Unicode calls default ignorable: marks of direction, soft hyphens, selectors
_HIDDEN = [
    chr(k)
    for first, last in (
        *((0x0, 0x8), (0xE, 0x1B), (0x7F, 0x84), (0x86, 0x9F), (0xAD, 0xAD), (0x34F, 0x34F)),
        *((0x61C, 0x61C), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x200B, 0x200B)),
        *((0x200E, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164)),
        *((0xFE00, 0xFE0F), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFFB)),
        (0xE0000, 0xE01EF),
    )
    for k in range(first, last + 1)
]
_JOINERS = "\u200c\u200d"  # they change the letters beside them, in Persian and Indic scripts
_NOTHING = re.compile(f"[{re.escape(''.join([*_BLANKS, *_HIDDEN, *_JOINERS]))}]*")


def is_blank(text: str) -> bool:
    """Whether a text shows nothing: it is empty, or of blanks and hidden characters alone."""
    return _NOTHING.fullmatch(text) is not None


class Reader:
    """Reads source text as the text is that sub-words were learnt from.

    What the sub-words know stays. Of the rest, what shows as a blank is read as a blank, and what
    does not show is left out. Letters with marks are composed (NFC), if the sub-words hold nothing
    that this would change. Blanks around a text and a byte order mark are left out, all but one of
    more than `MOST_BLANKS` in a row, too; a text that shows nothing is empty. Bytes that are no
    UTF-8 become U+FFFD.

    Args:
        alphabet: The characters that sub-words are made of.
        knows: Whether a character can be told from an unknown one.
    """

    def __init__(self, alphabet: Iterable[str], knows: Callable[[str], bool]) -> None:
        as_blanks, left_out = (
            [one for one in kind if not knows(one)] for kind in (_BLANKS, _HIDDEN)
        )
        self._composes = not (knows("\u0308") or any(map(_may_compose, alphabet)))
        nothing = _any_of([*_BLANKS, *_HIDDEN, *_JOINERS])
        self._before = [
            (_any_of(each), by) for each, by in ((as_blanks, " "), (left_out, "")) if each
        ]
        self._after = [
            (rf"^{nothing}+$|^({ANY_BLANK}|\x{{FEFF}})+|{ANY_BLANK}+$", ""),
            (rf"{ANY_BLANK}{{{MOST_BLANKS + 1},}}", " "),
        ]

    def __call__(self, texts: tf.Tensor) -> tf.Tensor:
        """Returns strings `[B]` as they are read."""
        texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8")
        for pattern, by in self._before:
            texts = tf.strings.regex_replace(texts, pattern, by)
        if self._composes:
            texts = tf_text.normalize_utf8(texts, "NFC")
        for pattern, by in self._after:
            texts = tf.strings.regex_replace(texts, pattern, by)
        return texts


def _any_of(characters: Iterable[str]) -> str:
    """Returns a pattern for one of these characters."""
    return "[" + "".join(rf"\x{{{ord(one):x}}}" for one in characters) + "]"


def _may_compose(character: str) -> bool:
    """Whether NFC may change a text for this character.

    It moves marks of a combining class and joins what stands second in a composed character, vowels
    of Hangul among them. The selector in a red heart, a mark too, it never touches.
    """
    return (
        unicodedata.combining(character) > 0
        or "\u1100" <= character <= "\u11ff"
        or character in _seconds()
        or not unicodedata.is_normalized("NFC", character)
    )


@functools.cache
def _seconds() -> frozenset[str]:
    """The characters that a composed one ends in."""
    parts = (unicodedata.decomposition(chr(k)).split() for k in range(0x20000))
    pairs = (part for part in parts if len(part) == 2 and not part[0].startswith("<"))
    return frozenset(chr(int(second, 16)) for _, second in pairs)
