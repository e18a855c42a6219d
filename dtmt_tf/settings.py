"""What a setting knows about itself: its one-line meaning and the values that it may have.

A section of settings is a frozen dataclass on `Section` whose fields are made by `setting`. Ranges
are checked when a section is made, so `__post_init__` is left to what several settings together
have to be.
"""

from __future__ import annotations

import dataclasses
import numbers
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from dtmt_tf.errors import UserError

_KEY = "setting"  # in a field's metadata
INT32_MAX = 2**31 - 1
FLOAT32_MAX = 3.4e38
BUILT_IN = re.compile(r"default|(?:task|model) [\w-]+")  # origins of values that nobody gave
TYPE_LIMITS = {INT32_MAX: f"at most {INT32_MAX:,}", FLOAT32_MAX: "finite"}


@dataclass(frozen=True)
class Setting:
    """What is known about a setting.

    Args:
        meaning: One line for people.
        at_least: Smallest number, or
        above: a number that every value exceeds.
        at_most: Largest number, or
        below: a number that exceeds every value.
        choices: All texts that it may be, or that may be in it; any, if there are none.
    """

    meaning: str
    at_least: Any = None
    above: Any = None
    at_most: Any = None
    below: Any = None
    choices: tuple[str, ...] = ()

    def problem(self, value: Any) -> str:
        """Returns what a value should be if it is not, as in `at least 1`; else nothing."""
        if self.choices:
            values = value if isinstance(value, tuple) else (value,)
            if len({*values}) < len(values):
                return "all different"
            return "" if {*values} <= {*self.choices} else one_of(self.choices)
        if not self._is_of_numbers():
            return ""
        if not isinstance(value, numbers.Real) or isinstance(value, bool):
            return "a number"
        high_enough = value > self.above if self.at_least is None else value >= self.at_least
        low_enough = value < self.below if self.at_most is None else value <= self.at_most
        return "" if high_enough and low_enough else self._range(not low_enough)

    @property
    def allowed(self) -> str:
        """The range or the choices, as documents show them."""
        if self.choices:
            return one_of(self.choices)
        return self._range() if self._is_of_numbers() else ""

    def _is_of_numbers(self) -> bool:
        return self.at_least is not None or self.above is not None

    def _range(self, with_type: bool = False) -> str:
        """Returns the range; a limit that the type of number sets is told only if asked for."""
        low = self.above if self.at_least is None else self.at_least
        if self.at_least == -FLOAT32_MAX:
            return "finite"
        if self.at_most is None:
            return f"in {'[' if self.above is None else '('}{low}, {self.below})"
        text = f"above {low}" if self.at_least is None else f"at least {low}"
        top = TYPE_LIMITS.get(self.at_most, f"at most {self.at_most:,}")
        return f"{text} and {top}" if with_type or self.at_most not in TYPE_LIMITS else text


def setting(
    default: Any,
    meaning: str,
    *,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
    choices: Sequence[str] = (),
) -> Any:
    """Returns the field of a setting.

    Every number is bounded on both sides: where no limit is given, by what computes with it, an
    int32 or a float32. NaN is outside of every range.

    Args: those of `Setting`, and `default`, its value unless another is set.
    """
    limits = at_least, above, at_most, below
    kinds = {type(value) for value in (default, *limits) if value is not None}
    if kinds <= {int, float}:
        limit = FLOAT32_MAX if float in kinds else INT32_MAX
        if at_least is None and above is None:
            at_least = -limit
        if at_most is None and below is None:
            at_most = limit
    known = Setting(meaning, at_least, above, at_most, below, tuple(choices))
    return dataclasses.field(default=default, metadata={_KEY: known})


def about(item: dataclasses.Field) -> Setting:
    """Returns what a field knows about itself; nothing but its type if it is a plain one."""
    known: Setting = item.metadata.get(_KEY, Setting(""))
    return known


def require(condition: object, message: str) -> None:
    """Raises a `UserError` unless a condition holds."""
    if not condition:
        raise UserError(message)


def one_of(names: Sequence[str]) -> str:
    """Returns `a, b or c`."""
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last


@dataclass(frozen=True)
class Section:
    """Base of settings that belong together.

    Raises:
        UserError: If a setting is out of its range; the message names it.
    """

    section: ClassVar[str] = ""  # how users name it

    def __post_init__(self) -> None:
        for item in dataclasses.fields(self):
            value = getattr(self, item.name)
            if value is None and item.default is None:
                continue
            problem = about(item).problem(value) or _problem_of_type(value, item.default)
            shown = repr(value) if isinstance(value, str) else value
            require(
                not problem, f"`{self.section}.{item.name}` should be {problem}. Received: {shown}."
            )


def _problem_of_type(value: Any, default: Any) -> str:
    """Returns what a value should be by its type, as a saved file may have another; else nothing.

    Numbers are for `Setting.problem`, and what is None by default may be of any type.
    """
    if isinstance(default, bool):
        return "" if isinstance(value, bool) else "true or false"
    if isinstance(default, str):
        return "" if isinstance(value, str) else "text"
    texts = isinstance(value, tuple) and all(isinstance(text, str) for text in value)
    return "a list of texts" if isinstance(default, tuple) and not texts else ""


def other_side(name: str, joint_vocabulary: bool) -> str:
    """Returns the setting of `data` that says of target or source what this one says of the other.

    A joint vocabulary has one size, which `source_vocab_size` gives.
    """
    if joint_vocabulary and "vocab_size" in name:
        return name
    sides = {"source": "target", "target": "source"}
    return "_".join(sides.get(word, word) for word in name.split("_"))


def is_built_in(origin: str) -> bool:
    """Whether a value comes from a default, a task or a preset, and not from the user."""
    return BUILT_IN.fullmatch(origin) is not None


def as_override(value: Any) -> str:
    """Returns a setting's value, as JSON has it, in the form that `--set` reads."""
    if isinstance(value, list):
        return ",".join(value)
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, str]:
    """Returns the settings in which two `experiment.to_dict` results differ, as `old -> new`."""
    found = {}
    sections = [name for name, value in {**old, **new}.items() if isinstance(value, Mapping)]
    for section in sections:
        names = {**old.get(section, {}), **new.get(section, {})}
        for name in names:
            before, after = old.get(section, {}).get(name), new.get(section, {}).get(name)
            if before != after:
                found[f"{section}.{name}"] = f"{before} -> {after}"
    return found


def as_lines(differences: Mapping[str, str]) -> list[str]:
    """Returns settings as lines, `name: old -> new`."""
    return [f"{name}: {change}" for name, change in differences.items()]
