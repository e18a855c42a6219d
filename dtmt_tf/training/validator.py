"""Validation and inspection of the model's present weights, as a trainer asks for them."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any, NamedTuple


class Validation(NamedTuple):
    """Scores of the present weights."""

    scores: dict[str, float]  # by name; "bleu" and "cross_entropy" among them
    samples: list[tuple[str, str, str]]  # source, reference, translation
    faults: Sequence[str] = ()  # of the translations, in words


class Inspection(NamedTuple):
    """Gates and attention of the model on a few pairs."""

    gates: dict[str, float]  # means by name
    attention: Any  # weights, [B, T, S]
    subwords: list[list[str]]  # source and target of each pair, in turn: 2B lists


class Validator(abc.ABC):
    """Scores and inspects a model during training.

    Attributes:
        scores: Whether there is a validation split to score it on.
        fingerprint: Hash of that split's text; nothing if there is none.
    """

    scores: bool
    fingerprint: str = ""

    @abc.abstractmethod
    def validate(self) -> Validation:
        """Scores the validation split by the present weights."""

    @abc.abstractmethod
    def inspect(self) -> Inspection:
        """Returns gates and attention of a few pairs."""

    @abc.abstractmethod
    def texts(self, source_ids: Any, target_ids: Any) -> list[tuple[str, str]]:
        """Returns the pairs that a batch's ids stand for."""
