"""Language codes: those of ISO 639 that Unicode CLDR knows, and private ones."""

from __future__ import annotations

import functools
import re
import unicodedata

from dtmt_tf.errors import UserError

_FORM = re.compile(r"[A-Za-z0-9]{1,8}([-_][A-Za-z0-9]{1,8})*")  # as RFC 5646; safe in file names
_PRIVATE = re.compile(r"x-.+|q[a-t][a-z](-.+)?")  # of RFC 5646, and qaa to qtz of ISO 639-2
_OF_LETTERS = {  # how letters' names begin in Unicode where CLDR's name for the script does not
    **dict.fromkeys(("Hani", "Hans", "Hant"), ("CJK",)),
    "Hanb": ("CJK", "BOPOMOFO"),
    "Hrkt": ("HIRAGANA", "KATAKANA"),
    "Jpan": ("CJK", "HIRAGANA", "KATAKANA"),
    "Kore": ("HANGUL", "CJK"),
    "Jamo": ("HANGUL",),
    "Aran": ("ARABIC",),
    "Beng": ("BENGALI",),
    "Cans": ("CANADIAN",),
    "Cpmn": ("CYPRO",),
    "Cyrs": ("CYRILLIC",),
    "Lana": ("TAI",),
    **dict.fromkeys(("Latf", "Latg"), ("LATIN",)),
    "Lisu": ("LISU",),
    "Mand": ("MANDAIC",),
    "Mtei": ("MEETEI",),
    "Nkoo": ("NKO",),
    "Nshu": ("NUSHU",),
    "Orkh": ("OLD",),
    "Orya": ("ORIYA",),
    "Phag": ("PHAGS",),
    "Plrd": ("MIAO",),
    "Qaag": ("MYANMAR",),
    **dict.fromkeys(("Syre", "Syrj", "Syrn"), ("SYRIAC",)),
    "Wara": ("WARANG",),
    "Xsux": ("CUNEIFORM",),
}
CHINESE = ("zh", "yue", "wuu", "nan", "hak", "gan", "hsn", "lzh")
ANY_LANGUAGE = ("", "mul", "und")  # what a text's language is if nobody says which
_WITHOUT_BLANKS = (*CHINESE, "ja", "th", "lo", "km", "my", "shn", "bo", "dz")


def base_language(code: str) -> str:
    """Returns `"zh"` for `"zh-TW"`, `"zh_Hans"`, `"ZH"` and `"zho"`; a private code as it is."""
    whole = code.lower().replace("_", "-")
    base = whole.partition("-")[0]
    if base == "x":
        return whole
    return _shorter(base) if len(base) == 3 else base


@functools.cache
def _shorter(code: str) -> str:
    """Returns the code of two letters that CLDR has for one of three, or that one."""
    from babel.core import get_global

    other: str = get_global("language_aliases").get(code, code).partition("_")[0]
    return other if len(other) == 2 else code


def are_opposite(one: tuple[str, str], other: tuple[str, str]) -> bool:
    """Whether two directions are each other's: what is source of one is target of the other.

    They are not if a language is not known.
    """
    if {*one, *other} & {*ANY_LANGUAGE}:
        return False
    ours, theirs = ([base_language(code) for code in pair] for pair in (one, other))
    return ours == theirs[::-1] != theirs


def are_different(one: tuple[str, str], other: tuple[str, str]) -> bool:
    """Whether two directions differ in a language known of both; `"zh-TW"` does not from `"zh"`."""
    return any(
        base_language(ours) != base_language(theirs)
        for ours, theirs in zip(one, other, strict=True)
        if not {ours, theirs} & {*ANY_LANGUAGE}
    )


def has_blanks(code: str) -> bool:
    """Whether a language divides its words by blanks, as all do in Latin letters."""
    in_latin = "latn" in code.lower().replace("_", "-").split("-")
    return in_latin or base_language(code) not in _WITHOUT_BLANKS


def between_sentences(code: str) -> str:
    """Returns what stands between two sentences of a language: nothing in Chinese and Japanese.

    Thai and others that write their words together put a blank between sentences.
    """
    return " " if has_blanks(code) or base_language(code) not in (*CHINESE, "ja") else ""


@functools.cache
def scripts(code: str) -> frozenset[str]:
    """Returns the scripts that a language is written in, as `script` calls them.

    Args:
        code: Such as `"de"`, which gives `{"LATIN"}`. `"sr"` gives the scripts of all countries
            that CLDR knows of, `"sr-ME"` those of one, `"sr-Latn"` the one that it names. Nothing
            is known of private codes, nor of scripts that no letter's name begins with.
    """
    from babel import Locale
    from babel.core import get_global

    whole = code.replace("-", "_")
    language, *others = whole.split("_")
    likely, base = get_global("likely_subtags"), base_language(code)
    own = [part.capitalize() for part in others if len(part) == 4 and part.isalpha()][:1]
    if not own and base not in ANY_LANGUAGE:
        same = [key for key in likely if key.partition("_")[0] in (language.lower(), base)]
        keys = [whole] if others and whole in likely else [k for k in same if not _names_script(k)]
        own = [likely[key].split("_")[1] for key in keys]
    names = ((each, Locale("en").scripts.get(each, "").upper().split()[:1]) for each in own)
    found = (letters for each, name in names for letters in _OF_LETTERS.get(each, name))
    return frozenset(found) & _scripts_of_letters()


def _names_script(key: str) -> bool:
    return any(len(part) == 4 for part in key.split("_")[1:])


def script(character: str) -> str:
    """Returns the script of a letter, the first word of its name in Unicode; else nothing."""
    if not character.isalpha():
        return ""
    name = unicodedata.name(character, "").removeprefix("FULLWIDTH ").removeprefix("HALFWIDTH ")
    return name.partition(" ")[0].partition("-")[0]


@functools.cache
def _scripts_of_letters() -> frozenset[str]:
    """Returns the scripts of all letters; from U+20000 on there is only CJK."""
    return frozenset(map(script, map(chr, range(0x20000)))) - {""}


def check_form(setting: str, code: str) -> None:
    """Refuses what can be no language code, such as a path; nothing at all is allowed.

    Raises:
        UserError: If it is none; the message names the setting.
    """
    if code and not _FORM.fullmatch(code):
        raise UserError(_message(setting, code))


def check_language(setting: str, code: str) -> None:
    """Refuses a code that stands for no language; nothing at all is allowed.

    Raises:
        UserError: If it is unknown and not private; the message names the setting.
    """
    check_form(setting, code)
    names = _names()
    private = _PRIVATE.fullmatch(code.lower().replace("_", "-"))
    if code and not private and base_language(code) not in names:
        named = [known for known, name in names.items() if name.lower() == code.lower()]
        hint = f" Did you mean {named[0]!r}?" if named else ""
        raise UserError(_message(setting, code) + hint)


def _message(setting: str, code: str) -> str:
    return (
        f"`{setting}` should be a language code, such as en or pt-BR, or a private one, such as "
        f"x-mine. Received: {code!r}."
    )


@functools.cache
def _names() -> dict[str, str]:
    """Returns the languages that CLDR names in English, and other codes of the same."""
    from babel import Locale
    from babel.core import get_global

    return dict.fromkeys(get_global("language_aliases"), "") | dict(Locale("en").languages)
