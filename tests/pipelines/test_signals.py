"""What records and pictures tell of gates and gradients."""

import math
import types

import pytest

from dtmt_tf.training.summaries import Summaries
from pipelines.papers import panels, signals


def test_signals_are_read_from_what_a_training_writes(tmp_path):
    model = types.SimpleNamespace(trainable_variables=[], depths=dict)
    written = Summaries(tmp_path, model)
    for step, norm in ((10, 1.0), (15, math.nan), (20, 3.0), (25, math.inf), (30, 7.0)):
        written._numbers(step, {"5 gradient norms/query/lgru": norm, "1 progress/loss": 9.0})
    for step, gate in ((20, 0.25), (30, 0.5)):
        written._numbers(step, {"6 gates/query/tgru_1/z": gate})
    written.writer.flush()
    run = types.SimpleNamespace(events=tmp_path)
    assert signals.read(run, [20, 30]) == {
        "gradient norms": {"query/lgru": {"20": 2.0, "30": 7.0}},
        "gates": {"query/tgru_1/z": {"20": 0.25, "30": 0.5}},
    }
    assert signals.read(run, []) == {}


def test_what_t_grus_hand_on_is_their_product():
    gates = {
        "query/lgru/z": {"9": 0.9},
        "query/tgru_1/z": {"10": 0.5, "9": 0.2},
        "query/tgru_1/r": {"10": 0.9, "9": 0.9},
        "query/tgru_2/z": {"10": 0.5, "9": 0.5},
        "transition/tgru_1/z": {"10": 0.75, "9": 0.8},
        "transition/tgru_2/z": {"10": 0.0, "9": 0.5},
    }
    assert signals.kept(gates) == pytest.approx({9: (0.4 + 0.1) / 2, 10: 0.25})
    assert list(signals.kept(gates)) == [9, 10]
    norms = {
        "query/lgru": {"1": 1.0, "2": 3.0},
        "transition/lgru": {"1": 6.0},
        "query/tgru_1": {"1": 0.5},
    }
    assert signals.norms_by_cell(norms) == [4.0, 0.5]


def test_pictures_show_means_over_runs(monkeypatch):
    def run(name, gate, norm):
        told = {
            "gates": {"query/tgru_1/z": {"5": gate}},
            "gradient norms": {"query/lgru": {"5": norm}, "query/tgru_1": {"5": 2 * norm}},
        }
        return {"task": task, "name": name, "signals": told}

    label, task, names = "depth 1", "t", ("a", "b")
    monkeypatch.setattr(panels, "EXPLAINED", ((label, task, names), ("depth 2", task, ("c",))))
    found = [
        run(names[0], 0.5, 1.0),
        run(names[1], 0.25, 2.0),
        {"task": task, "name": "c"},
    ]
    shares, norms = panels.signals_panels(found)
    assert [(line.label, line.points) for line in shares.lines] == [(label, [(5, 0.625)])]
    assert norms.lines[0].points == [(0, 1.5), (1, 3.0)]
    assert norms.ticks == {0: "L-GRU", 1: "1"}
    assert panels.signals_panels(found[2:]) == []
