"""What the results of benchmark.py become in SPEED.md."""

import re

from dtmt_tf.files import write_json
from pipelines.benchmark import speed
from pipelines.papers import records


def test_tables_show_shares_of_the_rate_of_products():
    one = {
        "name": "small", "parameters": 5_430_000,
        "rate": {"median": 6000, "best": 7000, "worst": 1},
        "megaflop_per_target_word": 37.0, "gflops": 222.0, "peak_memory": 2.5,
        "start": {"TensorFlow": 5.0, "first update": 8.25}, "traces": {"warm-up": 1, "later": 0},
        "parts": {"input": 1.0, "backward": 3.0}, "own_shape": "1x2x3",
    }  # fmt: skip
    rates = {name: {"median": rate} for name, rate in (("2048x2048x2048", 444), ("1x2x3", 300))}
    record = {
        "benchmark": "train", "name": "small", "windows": 5, "products": rates,
        "configurations": [one, one | {"name": "other", "own_shape": "2x2x3"}],
        "ratio": {"median": 1.5, "worst": 1.25, "best": 1.75},
        "machine": {"processor": "P", "threads": 2, "gpus": 0}, "versions": {"keras": "3"},
        "commit": "abc1234",
    }  # fmt: skip
    text = speed.section([record, record | {"autotuned": True, "ratio": {}}])
    for line in (
        "| small | 5,430,000 | 6,000 | 7,000 | 37.0 | 222.0 | 444 | 50% | 74% | 2.50 | 13.2 | 0 "
        "| 5 | abc1234 |",
        "| other | 5,430,000 | 6,000 | 7,000 | 37.0 | 222.0 | 444 | 50% |  | 2.50 | 13.2 | 0 "
        "| 5 | abc1234 |",
        "| small | 25.0 | 75.0 | 5 | abc1234 |",
        "| small † | 25.0 | 75.0 | 5 | abc1234 |",
        "| train | other | small | 1.500 | 1.250 | 1.750 | 5 | abc1234 |",
        "- P, 2 threads; keras 3",
    ):
        assert line in text.splitlines()
    assert "Translating" not in text


def test_of_a_setting_that_stands_twice_the_last_is_named():
    name = "small, data.max_tokens_per_batch=4096, plain form, data.max_tokens_per_batch=2048"
    shown = "small, data.max_tokens_per_batch=2048, plain form"
    assert speed._named({}, {"name": name}) == shown


def test_published_results_name_their_commit():
    for found in records.read_speeds(records.RECORDS):
        assert re.fullmatch("[0-9a-f]{7,}", found["commit"])


def test_records_of_speed_are_no_runs(tmp_path):
    for name in ("benchmark-train", "run"):
        found = {"name": name, "settings_hash": "abc"}
        write_json(tmp_path / f"{name}.json", found)
    assert [record["name"] for record in records.read_records(tmp_path)] == ["run"]
    assert [record["name"] for record in records.read_speeds(tmp_path)] == ["benchmark-train"]
