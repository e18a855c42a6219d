"""Filters of real text: pairs that are no translations of each other, or that were there before.

What they drop of clean text, and what they catch, is measured in EXPERIMENTS.md, "Filters".
"""

from __future__ import annotations

import functools
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import metadata
from typing import Any

import numpy as np
import numpy.typing as npt

from dtmt_tf.config import DataConfig
from dtmt_tf.errors import UserError
from dtmt_tf.languages import base_language, script, scripts

SHORT = 20  # characters; a pair without a longer side may be a name or a number; only duplicates go
MIN_SCRIPT_SHARE = 0.1  # of a side's letters that are in a script of its language
ODDS = 99.0  # of another language against a side's own
IDENTIFIER = "py3langid"  # tells languages; not among the requirements

_script = functools.cache(script)

Rule = Callable[[str, str], bool]  # source and target -> whether the pair is dropped
Masks = Mapping[str, npt.NDArray[np.bool_]]


def judge(pairs: Iterable[tuple[str, str]], data: DataConfig) -> Masks:
    """Returns for each filter of `data.filters` which pairs it drops, `[N]`, in their order.

    Args:
        pairs: Source and target, read once. What is kept takes 9 to 22 bytes a pair;
            while lengths and duplicates are compared, up to some 40 more.
        data: Names the filters and the languages.

    Raises:
        UserError: If a filter needs languages that are not set, or a library that is not there or
            does not know them.
    """
    languages = data.source_language, data.target_language
    if {"script", "language"} & {*data.filters} and not all(languages):
        raise UserError(
            "data.filters: script and language need data.source_language and data.target_language. "
            f"Received: {languages[0]!r} and {languages[1]!r}."
        )
    rules = {name: RULES[name](languages) for name in data.filters if name in RULES}
    hits = {name: bytearray() for name in rules}
    lengths, hashes = array("i"), array("q")
    for source, target in pairs:
        text = untagged(source, data.reserved_symbols)
        lengths.extend((len(text), len(target)))
        if "duplicates" in data.filters:
            hashes.append(hash((source, target)))
        is_long = max(len(text), len(target)) >= SHORT
        for name, rule in rules.items():
            hits[name].append(is_long and rule(text, target))
    masks = {name: np.frombuffer(found, np.bool_) for name, found in hits.items()}
    sizes = np.frombuffer(lengths, np.int32).reshape(-1, 2)
    if "length_ratio" in data.filters:
        masks["length_ratio"] = _unequal(sizes, data.max_length_ratio)
    if "duplicates" in data.filters:
        masks["duplicates"] = _repeated(np.frombuffer(hashes, np.int64))
    return {name: masks[name] for name in data.filters}


def version(data: DataConfig) -> str:
    """Returns what changes if filters would judge otherwise, besides this file and the settings."""
    found = []
    if "script" in data.filters:
        languages = data.source_language, data.target_language
        found += [str(sorted(scripts(language))) for language in languages]
    if "language" in data.filters:
        _identifier()
        found.append(metadata.version(IDENTIFIER))
    return "".join(found)


def usual_ratio(sizes: npt.NDArray[np.int32]) -> float:
    """Returns how many times longer the source is than the target: the median over pairs.

    Args:
        sizes: Characters of source and target, `[N, 2]`.
    """
    source, target = sizes[(sizes > 0).all(axis=1)].T
    return float(np.median(source / target)) if len(source) else 1.0


def untagged(source: str, tags: Sequence[str]) -> str:
    """Returns a source without the tags that it begins with, such as that of back-translations."""
    while tag := next(filter(source.startswith, tags), ""):
        source = source.removeprefix(tag).lstrip()
    return source


def _unequal(sizes: npt.NDArray[np.int32], limit: float) -> npt.NDArray[np.bool_]:
    """Returns which pairs have a side over `limit` times longer than is usual in this text."""
    source, target = np.maximum(sizes, 1).T
    ratio = source / target / usual_ratio(sizes)
    return (np.maximum(ratio, 1 / ratio) > limit) & (sizes.max(axis=1, initial=0) >= SHORT)


def _repeated(hashes: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Returns which pairs were there before."""
    repeated = np.ones(len(hashes), np.bool_)
    repeated[np.unique(hashes, return_index=True)[1]] = False
    return repeated


def _identical(_: tuple[str, str]) -> Rule:
    return lambda source, target: source.strip() == target.strip()


def _wrong_script(languages: tuple[str, str]) -> Rule:
    """Returns the rule that drops what is written in letters of other languages."""
    own = [scripts(language) for language in languages]
    return lambda source, target: any(
        bool(theirs) and share_of_script(text, theirs) < MIN_SCRIPT_SHARE
        for text, theirs in zip((source, target), own, strict=True)
    )


def share_of_script(text: str, own: frozenset[str]) -> float:
    """Returns which share of a text's letters is in some scripts; 1 if it has no letters.

    Args:
        text: The text.
        own: Scripts, see `languages.scripts`.
    """
    letters = inside = 0
    for character, count in Counter(text).items():
        if of_letter := _script(character):
            letters += count
            inside += count * (of_letter in own)
    return inside / letters if letters else 1.0


def _wrong_language(languages: tuple[str, str]) -> Rule:
    """Returns the rule that drops what is more likely to be in another language.

    Raises:
        UserError: If the library is missing, or does not know a language.
    """
    rank = _identifier().rank
    own = [base_language(language) for language in languages]
    if strange := sorted({*own} - {name for name, _ in rank("")}):
        raise UserError(f"data.filters: language: {IDENTIFIER} does not know {', '.join(strange)}.")

    def is_other(text: str, language: str) -> bool:
        chances = dict(rank(text))
        mine = chances.pop(language)
        return bool(max(chances.values()) > ODDS * mine)

    return lambda source, target: any(map(is_other, (source, target), own))


def _identifier() -> Any:
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    except ImportError as error:
        raise UserError(
            f"data.filters: language needs {IDENTIFIER}: pip install {IDENTIFIER}"
        ) from error
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


RULES: Mapping[str, Callable[[tuple[str, str]], Rule]] = {  # those that look at a pair alone
    "identical": _identical,
    "script": _wrong_script,
    "language": _wrong_language,
}
