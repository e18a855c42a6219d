"""Verdicts are counted by table: each budget and each series for itself."""

from pipelines.papers import PAPERS, tables
from tests.pipelines.test_results import record

DTMT = PAPERS["dtmt"]


def counted(found):
    """The cells of each line below the head, by table."""
    lines = tables.verdicts_table(found, [DTMT]).splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {name: dict(zip(tables.VERDICTS, counts, strict=True)) for _, name, *counts in cells}


def of(row, rate, seeds=(1, 2), **others):
    return [record(row, seed, rate, **others) for seed in seeds]


def test_differences_are_counted_by_what_came_of_them():
    better = [*of("gru0", 0.4), *of("lgru0", 0.2)]  # in the paper by 2.26
    blank = dict.fromkeys(tables.VERDICTS, "")
    assert counted(better)["3"] == blank | {"confirmed": "1"}
    worse = [*of("gru0", 0.2, max_steps=200), *of("lgru0", 0.4, max_steps=200)]
    assert counted(better + worse)["3"] == blank | {"confirmed": "1", "contradicted": "1"}
    alone = [*of("gru0", 0.3, [1], max_steps=300), *of("lgru0", 0.2, [1], max_steps=300)]
    assert counted(better + alone)["3"] == blank | {"confirmed": "1", "not judged by one seed": "1"}
    same = [run | {"row": row} for row in ("gru0", "lgru0") for run in of("gru0", 0.3)]
    assert counted(same)["3"] == blank | {"neither": "1"}


def test_tables_without_a_difference_are_left_out():
    assert tables.verdicts_table(of("gru0", 0.4), [DTMT]) == tables.NOTHING
    other = PAPERS["recurrence"]
    assert tables.verdicts_table([*of("gru0", 0.4), *of("lgru0", 0.2)], [other]) == tables.NOTHING
