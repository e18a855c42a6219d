"""The scores that choose checkpoints and stop a training: those of the run's settings."""

import math
from types import SimpleNamespace

import pytest
import tensorflow as tf

from dtmt_tf.config import DataConfig
from dtmt_tf.runs import score
from dtmt_tf.runs import validator as module
from dtmt_tf.runs.validator import LARGEST_EXPONENT, RunValidator
from tests.runs.test_scoring import CORPUS, run_of


@pytest.mark.parametrize("nats", [2.0, 800.0])
def test_a_validation_scores_translations_against_references(corpus, nats):
    run = run_of("custom", corpus, *CORPUS, "evaluation.exact_match=true")
    said = {b"s": b"a b c d e", b"t": b"x"}
    references = ["a b c d e f g", "x"]
    validator = object.__new__(RunValidator)
    validator.run, validator._lines = run, (["s", "t"], references)
    validator._translate = lambda texts: tf.constant([said[text] for text in texts.numpy()])
    validator._cross_entropy = lambda: nats
    found = validator.validate()
    expected = score(run, ["a b c d e", "x"], references)
    assert expected.bleu != score(run, references, ["a b c d e", "x"]).bleu  # it is too short
    assert found.scores == {
        **{"bleu": expected.bleu, "chrf": expected.chrf, "exact_match": 50.0},
        **{"cross_entropy": nats, "perplexity": math.exp(min(nats, LARGEST_EXPONENT))},
    }
    assert found.samples == [("s", "a b c d e f g", "a b c d e"), ("t", "x", "x")]


@pytest.mark.parametrize(("sentences", "tokens"), [(0, 4096), (16, 16 * 80), (128, 4096)])
def test_validation_reads_no_more_at_once_than_training(monkeypatch, sentences, tokens):
    asked = []
    monkeypatch.setattr(module, "CrossEntropy", lambda model, pairs, most: asked.append(most))
    monkeypatch.setattr(module, "translate_function", lambda run, model: None)
    ids = tf.ragged.constant([[3, 1]])
    monkeypatch.setattr(RunValidator, "_ids", lambda self, lines: (ids, ids))
    data = DataConfig(sentences_per_batch=sentences, max_length=80, max_tokens_per_batch=4096)
    corpus = SimpleNamespace(sizes={"validation": 1}, lines=lambda split: (["a"], ["A"]))
    RunValidator(SimpleNamespace(corpus=corpus, experiment=SimpleNamespace(data=data)), None)
    assert asked == [tokens]
