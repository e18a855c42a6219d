"""BLEU's tokenizers: which one a language has, and what is told of one that can not be had."""

from urllib.error import URLError

import pytest
from sacrebleu.metrics import BLEU

from dtmt_tf.errors import UserError
from dtmt_tf.evaluation import choose_tokenizer, score_hypotheses


@pytest.mark.parametrize(
    "tokenize, language, chosen",
    [
        ("auto", "de", "13a"),
        ("auto", "", "13a"),
        ("auto", "zh", "zh"),
        ("auto", "zh_Hans", "zh"),
        ("auto", "ZH-tw", "zh"),
        ("auto", "zha", "13a"),
        ("auto", "yue", "zh"),
        ("auto", "nan-Hant", "zh"),
        ("auto", "th", "char"),
        ("auto", "lo", "char"),
        ("auto", "km_KH", "char"),
        ("auto", "mya", "char"),
        ("auto", "bo", "char"),
        ("auto", "ja", "ja-mecab"),
        ("auto", "ko", "ko-mecab"),
        ("auto", "shn", "char"),
        ("auto", "zh-Latn-CN", "13a"),
        ("auto", "ja_Latn", "13a"),
        ("auto", "en", "13a"),
        ("none", "zh", "none"),
        ("13a", "zh", "13a"),
    ],
)
def test_the_target_language_chooses_the_tokenizer_unless_one_is_named(tokenize, language, chosen):
    assert choose_tokenizer(tokenize, language) == chosen


def test_an_unknown_tokenizer_is_an_error_that_lists_the_choices():
    with pytest.raises(UserError, match=r"'13b'.*13a, intl"):
        score_hypotheses(["a b"], ["a b"], tokenize="13b")


def test_a_tokenizer_that_can_not_be_downloaded_is_named(monkeypatch):
    def fail(self, **_):
        raise URLError("no network")

    monkeypatch.setattr(BLEU, "__init__", fail)
    with pytest.raises(UserError, match="'flores200' can not be used: .*no network"):
        score_hypotheses(["a b"], ["a b"], tokenize="flores200")
