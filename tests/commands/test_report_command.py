"""What `dtmt report` writes, and where."""

import dataclasses
import fcntl
import json

import pytest

from dtmt_tf import translator
from dtmt_tf.commands import report
from dtmt_tf.errors import Refused, UserError
from dtmt_tf.files import size_and_hash
from dtmt_tf.folders import LOCK
from dtmt_tf.runs import Run, noted_texts
from tests.end_to_end.test_older_artifacts import unpack


@pytest.fixture
def stopped(tmp_path):
    """A run that version 0.1 was stopped in."""
    unpack("run-0.1", tmp_path)
    return Run.open(tmp_path / "custom" / "older", tmp_path, tmp_path / "cache")


def test_a_run_that_is_not_done_has_a_page_a_curve_and_a_table(stopped):
    page = report.write_report(stopped)
    assert page == stopped.work / "report.html"
    text = page.read_text("utf-8")
    assert "custom / older" in text and "<td>331</td>" in text
    newest = stopped.newest()
    rate = newest.tokens / newest.seconds
    assert f"{newest.seconds / 60:.1f} minutes, {rate:,.0f} target tokens a second" in text
    assert f"<td>{newest.tokens:,}</td>" in text
    assert "validation BLEU" in text and "Attention" not in text
    assert (stopped.work / "curve.png").read_bytes().startswith(b"\x89PNG")
    table = (stopped.work / "metrics.csv").read_text().splitlines()
    assert len(table) == 1 + len(stopped.newest().history) and "bleu" in table[0]


def test_a_page_has_no_attention_if_the_export_refuses_its_samples(stopped, monkeypatch, caplog):
    def refuse(texts, align):
        raise Refused("The line needs 120 tokens; export.max_tokens is 100.")

    monkeypatch.setattr(translator, "live_versions", lambda folder: [1])
    monkeypatch.setattr(translator.Translator, "load", lambda folder: refuse)
    assert report.attention(stopped) == []
    assert "Attention is left out: The line needs 120 tokens" in caplog.text


def test_a_page_elsewhere_leaves_the_run_alone(stopped, tmp_path):
    before = sorted(stopped.work.iterdir())
    assert report.write_report(stopped, tmp_path / "a.html").exists()
    assert sorted(stopped.work.iterdir()) == before


def test_scores_without_their_translations_are_told_without_intervals(stopped):
    scores = {"bleu": 12.34, "chrf": 5.0, "num_sentences": 30, "bleu_signature": "s"}
    (stopped.work / "scores.json").write_text(json.dumps({"test": scores}))
    (stopped.work / "test.txt").write_text("one line\n")  # of another test
    text = report.write_report(stopped).read_text("utf-8")
    assert "12.34" in text and "worst sentences" not in text


def test_scores_and_a_later_translation_are_not_mixed(stopped):
    sources, _ = stopped.corpus.lines("validation")
    (stopped.work / "validation.txt").write_text("a line\n" * len(sources))
    hashed = size_and_hash(stopped.work / "validation.txt")["sha256"]
    scores = {"bleu": 12.34, "chrf": 5.0, "num_sentences": 30, "bleu_signature": "s"}
    for noted, told in ((hashed, True), ("another", False)):
        found = {"validation": {**scores, "translations_sha256": noted}}
        (stopped.work / "scores.json").write_text(json.dumps(found))
        text = report.write_report(stopped).read_text("utf-8")
        assert "12.34" in text and ("worst sentences" in text) == told


def test_a_page_needs_no_text_and_tells_of_another_one(stopped, monkeypatch, caplog):
    scores = {"bleu": 12.34, "chrf": 5.0, "num_sentences": 30, "bleu_signature": "s"}
    (stopped.work / "scores.json").write_text(json.dumps({"validation": scores}))
    sources, _ = stopped.corpus.lines("validation")
    (stopped.work / "validation.txt").write_text("a line\n" * len(sources))
    settings = json.loads((stopped.work / "experiment.json").read_text())
    path = next(iter(noted_texts.hashes(stopped, "validation")))
    settings["texts"] = {path: "another"}
    (stopped.work / "experiment.json").write_text(json.dumps(settings))
    assert "worst sentences" in report.write_report(stopped).read_text("utf-8")
    assert f"{path} holds another text than when the run began" in caplog.text

    def missing(*_):
        raise UserError("a.en was not found")

    with monkeypatch.context() as patch:  # a part of the data set is gone
        patch.setattr(type(stopped.corpus), "lines", missing)
        assert "worst sentences" not in report.write_report(stopped).read_text("utf-8")
    assert caplog.text.count("as the text is not at hand: a.en was not found") == 1
    monkeypatch.setattr("dtmt_tf.runs.run.load_corpus", missing)
    again = Run.open(stopped.folder, None, stopped.folder)
    text = report.write_report(again).read_text("utf-8")
    assert "12.34" in text and "worst sentences" not in text
    assert caplog.text.count("as the text is not at hand: a.en was not found") == 2


def test_sentences_of_earlier_weights_are_left_out(stopped):
    def scores(updates, **known):
        facts = {"bleu": 12.34, "num_sentences": 2, "bleu_signature": "s", **known}
        return facts | {"training": {"updates": updates}}

    found = {
        "test": scores(300, weights_sha256="new", checkpoint_steps=[300]),
        "validation": scores(200, weights_sha256="old", checkpoint_steps=[200]),
        "train": scores(300, checkpoint_steps=[300]),
    }
    search = dataclasses.asdict(stopped.experiment.decoding)
    assert report._older({}, search) == set() and report._older(found, search) == {"validation"}
    found["train"]["decoding"] = {**search, "beam_size": 1}  # as by evaluate --set
    assert report._older(found, search) == {"validation", "train"}
    del found["train"]["decoding"]
    again = found | {"last": scores(300, weights_sha256="mean", checkpoint_steps=[200, 300])}
    assert report._older(again, search) == {"test", "validation", "train"}
    sources, _ = stopped.corpus.lines("validation")
    (stopped.work / "validation.txt").write_text("a line\n" * len(sources))
    pages = []
    for kept in found, {"validation": found["validation"]}:
        (stopped.work / "scores.json").write_text(json.dumps(kept))
        pages.append(report.write_report(stopped).read_text("utf-8"))
    told = "Not of the newest weights, or by another search than the run has, and shown no "
    told += "further: validation;"
    assert [("validation: worst sentences" in page, told in page) for page in pages] == [
        (False, True),
        (True, False),
    ]


def test_a_page_does_not_take_the_place_of_another_file(stopped):
    path = stopped.work / "experiment.json"
    before = path.read_bytes()
    with pytest.raises(UserError, match="ends in .html"):
        report.command([str(stopped.folder), "-o", str(path)])
    assert path.read_bytes() == before


def test_a_run_that_another_process_has_is_told_before_anything_is_drawn(stopped, monkeypatch):
    monkeypatch.setattr(report, "attention", lambda run: pytest.fail("drawn in vain"))
    with (stopped.folder / LOCK).open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(UserError, match="is in use by"):
            report.command([str(stopped.folder)])
