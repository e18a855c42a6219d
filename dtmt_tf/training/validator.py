"""What a trainer asks about the model's present weights."""

from __future__ import annotations

import abc
from typing import Any, NamedTuple


class Validation(NamedTuple):
    """How good the present weights are."""

    scores: dict[str, float]  # by name; "bleu" and "cross_entropy" among them
    samples: list[tuple[str, str, str]]  # source, reference, translation


class Inspection(NamedTuple):
    """What goes on inside the model on a few pairs."""

    gates: dict[str, float]  # means by name
    attention: Any  # weights, [B, T, S]
    subwords: list[list[str]]  # source and target of each pair, in turn: 2B lists


class Validator(abc.ABC):
    """Scores and shows a model that is being trained.

    Attributes:
        scores: Whether there is a validation split, on which it can be scored.
    """

    scores: bool

    @abc.abstractmethod
    def validate(self) -> Validation:
        """Scores the validation split by the present weights."""

    @abc.abstractmethod
    def inspect(self) -> Inspection:
        """Looks at gates and attention of a few pairs."""

    @abc.abstractmethod
    def texts(self, source_ids: Any, target_ids: Any) -> list[tuple[str, str]]:
        """Returns the pairs that a batch's ids stand for."""
