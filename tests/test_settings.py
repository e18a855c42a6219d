"""Every setting says what it means and which values it may have."""

import dataclasses
import math
import typing
from dataclasses import dataclass

import pytest

from dtmt_tf.config import (
    DataConfig,
    DecodingConfig,
    EvaluationConfig,
    ExportConfig,
    TrainingConfig,
)
from dtmt_tf.errors import UserError
from dtmt_tf.models import MODELS
from dtmt_tf.settings import Section, about, is_built_in, one_of, setting

SECTIONS = [
    *(DataConfig, TrainingConfig, DecodingConfig, ExportConfig, EvaluationConfig),
    *sorted({type(config) for config in MODELS.values()}, key=lambda kind: kind.__name__),
]
ITEMS = [(section, item) for section in SECTIONS for item in dataclasses.fields(section)]
NAMES = [f"{section.__name__}.{item.name}" for section, item in ITEMS]


def is_number(section, item):
    return typing.get_type_hints(section)[item.name] in (int, float, int | None)


@pytest.mark.parametrize("section, item", ITEMS, ids=NAMES)
def test_every_setting_says_in_one_line_what_it_means(section, item):
    meaning = about(item).meaning
    assert 3 <= len(meaning) <= 70 and "\n" not in meaning and meaning[-1] != "."


@pytest.mark.parametrize("section, item", ITEMS, ids=NAMES)
def test_every_number_and_no_other_setting_has_bounds(section, item):
    known = about(item)
    if not is_number(section, item):
        assert (known.at_least, known.above, known.at_most, known.below) == (None,) * 4
        return
    for value in (math.nan, math.inf, -math.inf, 2.0**200, -(10**39)):
        with pytest.raises(UserError, match=rf"`{section.section}.{item.name}` should be "):
            dataclasses.replace(section(), **{item.name: value})
    if "int" in str(item.type):
        assert known.at_most < 2**31 and known.at_least >= 0


@pytest.mark.parametrize("section, item", ITEMS, ids=NAMES)
def test_a_default_is_within_its_range(section, item):
    if item.default is not None:
        assert about(item).problem(item.default) == ""


@dataclass(frozen=True)
class Toy(Section):
    """Each kind of range."""

    section = "toy"

    count: int = setting(1, "a count", at_least=1)
    share: float = setting(0.5, "a share", at_least=0, below=1)
    inside: float = setting(0.5, "an open interval", above=0, below=1)
    factor: float = setting(1.0, "a factor", above=0)
    few: int = setting(2, "a few", at_least=2, at_most=2000)
    any_number: float = setting(0.0, "any number")
    width: int | None = setting(None, "a width", at_least=1)
    cell: str = setting("gru", "a cell", choices=("gru", "lau", "lgru"))
    cells: tuple[str, ...] = setting((), "cells", choices=("gru", "lau", "lgru"))
    files: tuple[str, ...] = setting((), "files")
    name: str = setting("", "a name")
    switch: bool = setting(False, "a switch")
    plain: int = 3


@pytest.mark.parametrize(
    "name, value, message",
    [
        ("count", 0, "at least 1. Received: 0."),
        ("count", 2**31, "at least 1 and at most 2,147,483,647. Received: 2147483648."),
        ("count", math.nan, "at least 1 and at most 2,147,483,647. Received: nan."),
        ("count", True, "a number. Received: True."),
        ("count", "1", "a number. Received: '1'."),
        ("count", None, "a number. Received: None."),
        ("share", 1, "in [0, 1). Received: 1."),
        ("share", -0.1, "in [0, 1). Received: -0.1."),
        ("inside", 0, "in (0, 1). Received: 0."),
        ("inside", 1, "in (0, 1). Received: 1."),
        ("factor", 0, "above 0. Received: 0."),
        ("factor", math.inf, "above 0 and finite. Received: inf."),
        ("factor", 1e39, "above 0 and finite. Received: 1e+39."),
        ("few", 1, "at least 2 and at most 2,000. Received: 1."),
        ("few", 2001, "at least 2 and at most 2,000. Received: 2001."),
        ("any_number", -math.inf, "finite. Received: -inf."),
        ("any_number", math.nan, "finite. Received: nan."),
        ("width", 0, "at least 1. Received: 0."),
        ("cell", "lstm", "gru, lau or lgru. Received: 'lstm'."),
        ("cell", 3, "gru, lau or lgru. Received: 3."),
        ("cell", ("gru",), "text. Received: ('gru',)."),
        ("cells", "gru", "a list of texts. Received: 'gru'."),
        ("files", 5, "a list of texts. Received: 5."),
        ("files", (5,), "a list of texts. Received: (5,)."),
        ("name", 5, "text. Received: 5."),
        ("switch", "false", "true or false. Received: 'false'."),
        ("cells", ("gru", "lstm"), "gru, lau or lgru. Received: ('gru', 'lstm')."),
        ("cells", ("gru", "lau", "gru"), "all different. Received: ('gru', 'lau', 'gru')."),
    ],
)
def test_a_value_out_of_its_range_is_refused_with_the_range(name, value, message):
    with pytest.raises(UserError) as error:
        Toy(**{name: value})
    assert str(error.value) == f"`toy.{name}` should be {message}"


@pytest.mark.parametrize(
    "name, value",
    [
        *(("count", 1), ("count", 2**31 - 1), ("share", 0), ("share", 0.999), ("inside", 1e-9)),
        *(("factor", 1e-9), ("factor", 3e38), ("few", 2), ("few", 2000), ("any_number", -3e38)),
        *(("width", None), ("width", 1), ("cell", "lau"), ("plain", -(10**30))),
    ],
)
def test_the_edges_of_a_range_are_in_it(name, value):
    assert getattr(Toy(**{name: value}), name) == value


def test_what_nobody_gave_is_built_in():
    for origin in ("default", "task multi30k_ende", "model dtmt_tiny"):
        assert is_built_in(origin)
    for origin in ("--set", "model small.yaml", "task mine.yaml", "run model a", "default.yaml"):
        assert not is_built_in(origin)


def test_a_range_can_be_shown():
    shown = {item.name: about(item).allowed for item in dataclasses.fields(Toy)}
    assert shown == {
        "count": "at least 1",
        "share": "in [0, 1)",
        "inside": "in (0, 1)",
        "factor": "above 0",
        "few": "at least 2 and at most 2,000",
        "any_number": "finite",
        "width": "at least 1",
        "cell": "gru, lau or lgru",
        "cells": "gru, lau or lgru",
        **dict.fromkeys(("files", "name", "switch", "plain"), ""),
    }
    assert (one_of(["a"]), one_of(["a", "b"])) == ("a", "a or b")
