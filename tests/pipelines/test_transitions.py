"""The tables of transitions that start shallow hold every run, and means over its seeds."""

import statistics

import pytest

from pipelines.papers import records, shown, tables, transitions
from tests.pipelines.test_results import cells, record

CURVE = {str(step): 30.0 + k for k, step in enumerate(transitions.QUARTERS)}


@pytest.fixture
def runs(monkeypatch):
    """Two runs of one system, the second without BLEU after each quarter."""
    systems = ("deep", ("a", "a-2", "a-3")), ("absent", ("b",))
    monkeypatch.setattr(transitions, "SHALLOW_START", systems)
    of = {"task": shown.CASED}
    return [
        record(name="a", curve=CURVE, cross_entropy={"9": 2.0, "10": 1.5}, **of),
        record(name="a-3", seed=3, curve={"2700": 33.0}, cross_entropy={"10": 1.75}, **of),
        record(name="b", **of | {"task": "another"}),
    ]


def test_runs_are_compared_by_their_common_seeds(monkeypatch):
    runs = {"a1": (1, 0.4), "a2": (2, 0.4), "b2": (2, 0.2), "b3": (3, 0.2)}
    found = [record(seed=seed, rate=rate, name=name) for name, (seed, rate) in runs.items()]
    pair = shown.Pair("custom", ("A", ("a1", "a2")), ("B", ("b2", "b3")), 0.5)
    monkeypatch.setattr(transitions, "COMPARED", (pair,))
    change = found[2]["scores"]["test"]["bleu"] - found[1]["scores"]["test"]["bleu"]
    line = cells(transitions.differences_table(found), "A", "B")
    assert line[2:] == [f"{change:+.2f}"] * 2 + ["0.001", "+0.50", "not judged by one seed"]
    assert transitions.differences_table(found[:2]) == tables.NOTHING


def test_means_are_over_the_seeds_of_a_system(runs):
    bleu = [run["scores"]["test"]["bleu"] for run in runs[:2]]
    spread = f"± {statistics.stdev(bleu):.2f}"
    scores = [f"{statistics.mean(bleu) + more:.2f} {spread}" for more in (1, 0)]
    text = transitions.means_table(runs)
    assert cells(text, "deep") == ["deep", "2", scores[0], "1.625", scores[1]]
    assert "absent" not in text
    assert transitions.means_table([]) == tables.NOTHING


def test_runs_show_their_bleu_after_each_quarter_if_they_have_it(runs):
    text = transitions.runs_table(runs)
    test = f"{runs[0]['scores']['test']['bleu']:.2f}"
    line = ["deep", "`a`", "30.00", "31.00", "32.00", "33.00", "1.500", test]
    assert cells(text, "deep") == line


def test_every_recorded_run_of_the_search_is_shown():
    found = records.read_records(records.RECORDS)
    names = {run["name"] for run in found if run["name"].startswith("depth")}
    text = transitions.runs_table(found)
    assert names
    assert not {name for name in names if f"`{name}`" not in text}
    rows = {name for _, each in shown.SHALLOW_START for name in each if "-seed" in name}
    systems = {name.rpartition("-seed")[0] for name in rows}
    assert not {
        run["name"]
        for run in found
        if run["name"].rpartition("-seed")[0] in systems and run["name"] not in rows
    }
