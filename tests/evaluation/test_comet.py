"""COMET is asked with source, translation and reference, and its mean has an interval."""

import sys
import types

import pytest

from dtmt_tf.errors import UserError
from dtmt_tf.evaluation import format_scores, score_hypotheses
from dtmt_tf.evaluation.comet import Comet, with_comet

SOURCES = [f"line {k}" for k in range(50)]
REFERENCES = [f"Zeile {k} und mehr" for k in range(50)]


@pytest.fixture
def library(monkeypatch):
    """Stands for COMET: a sentence is worth 1 if it is its reference, else 0.5."""

    class Model:
        def predict(self, rows, batch_size, gpus):
            assert set(rows[0]) == {"src", "mt", "ref"} and rows[7]["src"] == "line 7"
            assert batch_size > 0 and gpus == 0
            scores = [1.0 if row["mt"] == row["ref"] else 0.5 for row in rows]
            return types.SimpleNamespace(scores=scores, system_score=sum(scores) / len(scores))

    comet = types.SimpleNamespace(
        download_model=lambda name: f"/models/{name}",
        load_from_checkpoint=lambda path: {"/models/some/model": Model()}[path],
    )
    torch = types.SimpleNamespace(cuda=types.SimpleNamespace(is_available=lambda: False))
    monkeypatch.setitem(sys.modules, "comet", comet)
    monkeypatch.setitem(sys.modules, "torch", torch)


def test_comet_is_the_mean_of_its_sentences_with_an_interval(library):
    hypotheses = REFERENCES[:30] + ["nichts"] * 20
    plain = score_hypotheses(hypotheses, REFERENCES, full=True)
    comet = Comet("some/model")
    scores = with_comet(plain, comet, SOURCES, hypotheses, REFERENCES)
    assert scores.comet == pytest.approx(80.0) and scores.bleu == plain.bleu
    low, high = scores.intervals["comet"]
    assert 70 < low < 75 < 85 < high < 90  # 80 ± 1.96 * 50 * sqrt(0.6 * 0.4 / 50)
    assert "COMET        80.00\n  95 %" in format_scores(scores)
    assert "  model      some/model" in format_scores(scores)
    with pytest.raises(UserError, match="Received: 49, 50 and 50"):
        with_comet(plain, comet, SOURCES[1:], hypotheses, REFERENCES)


def test_without_the_library_its_name_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "comet", None)
    plain = score_hypotheses(["a"], ["a"])
    assert plain.comet is None and "COMET" not in format_scores(plain)
    with pytest.raises(UserError, match="pip install unbabel-comet"):
        Comet("m")


def test_a_model_that_can_not_be_had_is_named(library):
    with pytest.raises(UserError, match=r"--comet no/model could not be loaded \(KeyError: '/mod"):
        Comet("no/model")
