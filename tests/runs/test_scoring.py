"""What a run is scored on, and how, without training it."""

import json
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

from dtmt_tf.config import UNK_ID
from dtmt_tf.data.lexicon import word_dictionary
from dtmt_tf.errors import UserError
from dtmt_tf.experiment import resolve
from dtmt_tf.export import made_of
from dtmt_tf.models import MODELS
from dtmt_tf.runs import Run, evaluate, publishing, score, scoring
from dtmt_tf.tasks import TASKS
from dtmt_tf.training import CheckpointFolder

CORPUS = [
    *("data.source_language=en", "data.target_language=de"),
    *("data.train_source=train.en", "data.train_target=train.de"),
]
VALIDATION = ["data.validation_source=dev.en", "data.validation_target=dev.de"]
SMALL = ["data.source_vocab_size=14"]
TEST = ["data.test_source=final.en", "data.test_target=final.de"]


def run_of(task, folder, *settings):
    experiment, _ = resolve(TASKS[task], "dtmt_tiny", MODELS["dtmt_tiny"], settings)
    return Run(experiment, folder / "run", folder, folder / "cache")


@pytest.mark.parametrize(
    "settings, splits",
    [
        ([*VALIDATION, *TEST], ["test"]),
        ([*VALIDATION, *TEST, "data.extra_tests=news"], ["test", "news"]),
        ([*VALIDATION, "data.extra_tests=news"], ["news"]),
        (VALIDATION, ["validation"]),
        ([], []),
    ],
)
def test_a_run_is_scored_on_all_tests_or_else_on_validation(corpus, settings, splits):
    assert run_of("custom", corpus, *CORPUS, *settings).scored_splits == splits


def test_a_split_that_is_not_there_is_refused_with_those_that_are(corpus):
    with pytest.raises(UserError, match="no test split. .*: train, validation, news"):
        evaluate(run_of("custom", corpus, *CORPUS, *VALIDATION, "data.extra_tests=news"), "test")


def test_damaged_scores_are_told_before_anything_is_translated(corpus, monkeypatch):
    run = run_of("custom", corpus, *CORPUS, "data.extra_tests=news")
    monkeypatch.setattr(run, "check_trained", lambda: None)
    run.work.mkdir(parents=True, exist_ok=True)
    (run.work / "scores.json").write_text("{")
    with pytest.raises(UserError, match="scores.json is damaged"):
        evaluate(run, "news")


@pytest.mark.parametrize(
    "task, settings, tokenizer",
    [
        ("tatoeba_enzh", [], "zh"),
        ("tatoeba_enzh", ["data.reverse=true"], "13a"),
        ("tatoeba_enzh", ["evaluation.tokenize=char"], "char"),
        ("multi30k_enfr", [], "13a"),
        ("multi30k_enfr", ["data.reverse=true"], "13a"),
        ("multi30k_enfr_tok", [], "none"),
        ("multi30k_enfr_tok", ["data.reverse=true"], "none"),
        ("custom", [], "13a"),
    ],
)
def test_the_tokenizer_is_that_of_the_language_translated_into(tmp_path, task, settings, tokenizer):
    scores = score(run_of(task, tmp_path, *settings), ["汤姆 Tom"], ["汤姆 Tom"])
    assert f"|tok:{tokenizer}|" in scores.bleu_signature
    # zh takes each of the two characters for a word
    assert scores.reference_length == {"zh": 3, "char": 5}.get(tokenizer, 2)


@pytest.mark.parametrize(
    ("settings", "case", "exact"),
    [
        ([], "mixed", None),
        (["evaluation.lowercase=true"], "lc", None),
        (["evaluation.exact_match=true"], "mixed", 50),
    ],
)
def test_case_and_exact_matches_count_where_the_settings_say_so(settings, case, exact, tmp_path):
    lines = ["a b c d e", "1"], ["A B C D E", "1"]
    scores = score(run_of("custom", tmp_path, *settings), *lines)
    assert f"|case:{case}|" in scores.bleu_signature and scores.exact_match == exact
    assert (scores.bleu > 99) is (case == "lc")


def test_unknown_words_are_looked_up_in_the_file_that_is_named(corpus, monkeypatch):
    asked = []
    model = SimpleNamespace(encode=None, decode_step=None, among=None, weights=())
    (corpus / "words.tsv").write_text("one\teins\n")
    replace = *SMALL, "decoding.replace_unknown=true"
    endpoints = [
        scoring.endpoints(run_of("custom", corpus, *CORPUS, *settings), model)
        for settings in (SMALL, replace, [*replace, "decoding.dictionary=words.tsv"])
    ]
    assert endpoints[0].unknown is None and endpoints[1].unknown.table is None
    assert endpoints[2].unknown.table.lookup(tf.constant(["one"])).numpy() == [b"eins"]
    run = run_of("custom", corpus, *CORPUS, *replace, "decoding.dictionary=train")
    monkeypatch.setattr(scoring, "warn_of_others", lambda *given: asked.append(given))
    found = scoring.endpoints(run, model).unknown.dictionary
    assert asked == [(run, "train")] and found == word_dictionary(*run.corpus.lines("train"))
    assert found
    monkeypatch.setattr(run.corpus, "sampled", lambda split, most: (["a"], ["A"]))
    assert scoring.endpoints(run, model).unknown.dictionary == {"a": "A"}  # of the whole text
    run = run_of("custom", corpus, *CORPUS, *replace, "decoding.dictionary=word.tsv")
    missing = "decoding.dictionary: word.tsv was not found.*Did you mean 'words.tsv'"
    with pytest.raises(UserError, match=missing):
        scoring.endpoints(run, model)


def test_a_shortlist_is_made_of_the_training_pairs(corpus, monkeypatch):
    monkeypatch.setattr(scoring, "FREQUENT", 1)
    for side in ("en", "de"):
        (corpus / f"train.{side}").write_text((corpus / f"train.{side}").read_text() * 5)
    run = run_of("custom", corpus, *CORPUS, *SMALL, "decoding.shortlist=2")
    model = SimpleNamespace(encode=None, decode_step=None, among=None, weights=())
    assert scoring.endpoints(run, model).decoding.shortlist == 2
    asked = []
    monkeypatch.setattr(scoring, "warn_of_others", lambda *given: asked.append(given))
    few = scoring.shortlist(run)
    assert asked == [(run, "train")]  # it is made of the text as it is now
    assert few.table.shape == (run.vocabulary.source.size, 2) and few.table.min() >= 1
    assert few.always.sum() == 1 + (not few.always[scoring.EOS_ID]) and few.table.max() > 2
    monkeypatch.setattr(scoring, "frequent", lambda *_: np.array([UNK_ID, 5]))
    assert np.flatnonzero(scoring.shortlist(run).always).tolist() == [scoring.EOS_ID, 5]
    run.members = [run]
    with pytest.raises(UserError, match="an ensemble takes 0"):
        scoring.endpoints(run, model)


@pytest.mark.parametrize("lost", ["source.spm", "subwords.json"])
def test_lost_subwords_are_made_again(corpus, lost):
    def subwords():
        return run_of("custom", corpus, *CORPUS, "data.source_vocab_size=14").vocabulary

    made = subwords().source.model
    folder = run_of("custom", corpus, *CORPUS).work
    (folder / lost).unlink()
    assert subwords().source.model == made and (folder / lost).exists()


def test_subwords_are_made_once_for_one_corpus(corpus, caplog):
    caplog.set_level("INFO")
    for size, times in ((14, 1), (14, 1), (15, 2)):
        run = run_of("custom", corpus, *CORPUS, f"data.source_vocab_size={size}")
        assert run.vocabulary.source.size == size
        assert caplog.text.count("Training sub-words") == times
    path = corpus / "train.en"
    path.write_text(path.read_text().replace("e", "ü"), encoding="utf-8")
    run = run_of("custom", corpus, *CORPUS, "data.source_vocab_size=15")
    assert run.vocabulary.source.decode(run.vocabulary.source.encode(["ü"])).numpy() == [
        "ü".encode()
    ]
    assert caplog.text.count("Training sub-words") == 3


def test_an_evaluation_that_was_stopped_goes_on_unless_it_is_another(corpus, monkeypatch):
    for side in ("en", "de"):
        (corpus / f"final.{side}").write_text("".join(f"word {k}\n" for k in range(12)))
    run = run_of("custom", corpus, *CORPUS, *TEST, *SMALL, "decoding.batch_size=2")
    weight = keras.Variable(1.0)
    model = SimpleNamespace(trainable_variables=[weight], count_params=lambda: 1)
    asked = []

    def translate(texts):
        asked.extend(text.decode() for text in texts.numpy())
        if stop and "word 9" in asked:
            raise KeyboardInterrupt
        return texts

    monkeypatch.setattr(scoring, "BATCHES_SORTED_TOGETHER", 2)
    monkeypatch.setattr(scoring, "best_model", lambda run: (model, [7]))
    answers = SimpleNamespace(model=model, unknown=None)
    monkeypatch.setattr(scoring, "endpoints", lambda run, model: answers)
    monkeypatch.setattr(scoring, "_translating", lambda answers: translate)
    newest = SimpleNamespace(step=7, seconds=90.0, tokens=3)
    monkeypatch.setattr(Run, "newest", lambda self: newest)
    stop = True
    with pytest.raises(KeyboardInterrupt):
        evaluate(run, "test")
    assert (run.work / "test.txt.partial").read_text().count("\n") == 8
    asked.clear()
    stop = False
    assert evaluate(run, "test").chrf == pytest.approx(100)
    assert sorted(asked) == ["word 10", "word 11", "word 8", "word 9"]
    before = run.read("scores.json")["test"]
    (run.work / "scores.json").write_text(json.dumps({"test": before, "other": before}))
    stop = True
    with pytest.raises(KeyboardInterrupt):
        evaluate(run, "test")
    weight.assign(2.0)
    asked.clear()
    stop = False
    evaluate(run, "test")
    assert len(asked) == 12
    scores = run.read("scores.json")
    after = scores["test"]
    assert after["ter"] == 0.0 and {*after["intervals"]} == {"bleu", "chrf", "ter"}
    assert [*scores] == ["other", "test"]  # what is scored last stands last
    assert before["weights_sha256"] != after["weights_sha256"] == made_of(answers)["weights_sha256"]
    assert after["training"]["minutes_in_updates"] == 1.5
    stop = True
    with pytest.raises(KeyboardInterrupt):
        evaluate(run, "test")
    asked.clear()
    stop = False
    evaluate(run_of("custom", corpus, *CORPUS, *TEST, *SMALL, "decoding.beam_size=9"), "test")
    assert len(asked) == 12  # nothing of another search is taken over
    asked.clear()
    stop = True
    with pytest.raises(KeyboardInterrupt):
        evaluate(run, "test")
    monkeypatch.setattr(scoring, "program_hash", lambda: "of a later program")
    asked.clear()
    stop = False
    evaluate(run, "test")
    assert len(asked) == 12  # nor of another program


def test_a_tokenizer_that_fails_is_told_before_anything_is_translated(corpus, monkeypatch):
    run = run_of("custom", corpus, *CORPUS, *TEST, *SMALL, "evaluation.tokenize=13")
    monkeypatch.setattr(Run, "newest", lambda self: None)
    monkeypatch.setattr(scoring, "best_model", lambda run: pytest.fail("it translates"))
    with pytest.raises(UserError, match="Unknown BLEU tokenizer '13'"):
        evaluate(run, "test")


def test_texts_that_are_not_those_of_the_beginning_are_told(corpus, monkeypatch, caplog):
    settings = [*CORPUS, *TEST, *SMALL, "data.held_out=1"]
    monkeypatch.setattr(Run, "check_trained", lambda _: None)
    monkeypatch.setattr(scoring, "_evaluate", lambda *_: None)

    def told(split, members=()):
        run = run_of("custom", corpus, *settings)
        run.members = members
        caplog.clear()
        evaluate(run, split)
        return [record.args[0] for record in caplog.records if "began" in record.msg]

    assert told("test") == []  # an earlier version noted nothing
    run_of("custom", corpus, *settings).write_settings()
    assert told("test") == told("validation") == []
    (corpus / "away").mkdir()
    (corpus / "away" / "final.de").write_text("FIVE\n")  # of the same name, in another folder
    (corpus / "away" / "train.en").write_text("one\nthree\n")
    monkeypatch.chdir(corpus / "away")
    assert told("test", [run_of("custom", corpus, *settings)]) == ["final.de"]
    assert (told("test"), told("validation")) == (["final.de"], ["train.en"])
    monkeypatch.setattr(CheckpointFolder, "steps", lambda _: [7])
    run_of("custom", corpus, *settings).write_settings()  # the run goes on
    assert told("test") == ["final.de"]
    monkeypatch.setattr(CheckpointFolder, "steps", lambda _: [])
    run_of("custom", corpus, *settings).write_settings()  # it begins anew
    assert told("test") == []


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"pairs": []}', '{"pairs": [["a", " "]]}'])
def test_samples_that_can_not_be_read_are_chosen_anew(damage, corpus, caplog):
    run = run_of("custom", corpus, *CORPUS)
    run.work.mkdir(parents=True)
    path = run.work / "samples.json"
    path.write_text(damage)
    assert set(publishing._samples(run)) == {("one", "ONE"), ("two", "TWO")}
    assert f"{path} is damaged" in caplog.text
    caplog.clear()
    assert publishing._samples(run) == run.samples()
    assert not caplog.text


def test_an_export_has_the_limits_and_types_of_its_settings(corpus, monkeypatch):
    given = []
    monkeypatch.setattr(Run, "check_trained", lambda run: None)
    for name, answer in (("note_subwords", None), ("best_model", (None, [1])), ("_samples", [])):
        monkeypatch.setattr(publishing, name, lambda run, answer=answer: answer)
    monkeypatch.setattr(publishing, "release", lambda *_, **__: None)
    monkeypatch.setattr(publishing, "endpoints", lambda *each: given.extend(each))
    run = run_of("custom", corpus, *CORPUS, "export.quantize=int8", "export.max_lines=7")
    publishing.publish(run)
    assert given == [run, None, run.experiment.export] and given[2].max_lines == 7
