"""`dtmt evaluate`: what can not be scored is refused before anything is read or translated."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import dtmt_tf.evaluation
import dtmt_tf.runs
from dtmt_tf.commands import evaluate
from dtmt_tf.errors import UserError


def test_comet_takes_one_reference(monkeypatch):
    files = ["--hypotheses", "new.de", "--sources", "text.en", "--comet", "m"]
    with pytest.raises(UserError, match="one reference. Received: 2. Name one of"):
        evaluate.command(["--references", "a.de", "b.de", *files])


def test_comet_is_loaded_before_anything_is_translated(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "comet", None)
    run = SimpleNamespace(folder=tmp_path, experiment=SimpleNamespace(model_name="dtmt_tiny"))
    monkeypatch.setattr(dtmt_tf.runs.Run, "open", lambda *_: run)
    monkeypatch.setattr(dtmt_tf.runs, "evaluate", lambda *_: pytest.fail("it translates"))
    with pytest.raises(UserError, match="pip install unbabel-comet"):
        evaluate.command([str(tmp_path), "--comet", "m"])


def test_a_mean_is_that_of_test_sets(capsys):
    found = [SimpleNamespace(bleu=bleu) for bleu in (10.0, 20.0, 40.0)]
    no = evaluate.NO_TEST_SETS
    record = evaluate._together(["validation", "test", "news"], ["run"], found, no)
    assert record["mean_bleu"] == {"run": 30.0} and len(record["sets"]) == 3
    assert "mean BLEU of 2 test sets\n  30.00  run" in capsys.readouterr().out
    assert "mean_bleu" not in evaluate._together(["validation", "test"], ["run"], found[:2], no)
    assert capsys.readouterr().out == ""


def test_all_scores_of_files_have_intervals(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name, lines in (("ref", "a b c d e\nf g h\n"), ("hyp", "a b c d x\nf g h\n")):
        Path(name).write_text(lines)
    files = ["--references", "ref", "--hypotheses", "hyp"]
    assert evaluate.command([*files, "--json", "found.json"]) == 0
    found = json.loads(Path("found.json").read_text())
    assert found["ter"] == pytest.approx(100 / 8)
    assert {*found["intervals"]} == {"bleu", "chrf", "ter"}
    printed = capsys.readouterr().out
    assert "TER          12.50" in printed and printed.count("95 %   ") == 3


def test_a_page_shows_sources_references_and_translations(tmp_path, monkeypatch, capsys, caplog):
    monkeypatch.chdir(tmp_path)
    texts = {
        "text": ["<one> & two", "three"],
        "ref": ["a b c d e", "f g h i j"],
        "first": ["a b c d e", "F G H I J"],
        "second": ["a b c d x", "f g h i j"],
    }
    for name, written in texts.items():
        Path(name).write_text("".join(f"{line}\n" for line in written))
    options = ["--references", "ref", "--hypotheses", "first", "second", "--lowercase"]
    assert evaluate.command([*options, "--sources", "text", "--page", "p.html"]) == 0
    assert "Side by side: p.html" in capsys.readouterr().out
    assert "2 sentences are too few to judge by" in caplog.text
    page = Path("p.html").read_text()
    assert "&lt;one&gt; &amp; two" in page and "second" in page
    assert "F G H I J" not in page  # it differs in case alone, so it is no sentence to look at


@pytest.mark.parametrize("of_run", [True, False])
def test_comet_is_given_sources_translations_and_references_in_this_order(
    tmp_path, monkeypatch, of_run
):
    asked = []
    monkeypatch.setattr("dtmt_tf.evaluation.comet.Comet", lambda name: name)
    monkeypatch.setattr(
        "dtmt_tf.evaluation.comet.with_comet", lambda scores, *rest: asked.append(rest) or scores
    )
    monkeypatch.setattr(dtmt_tf.evaluation, "format_scores", str)
    if of_run:
        corpus = SimpleNamespace(lines=lambda split: (["<2de> source"], ["reference"]))
        data = SimpleNamespace(reserved_symbols=("<2de>",))
        experiment = SimpleNamespace(model_name="dtmt_tiny", data=data)
        run = SimpleNamespace(folder=tmp_path, experiment=experiment, corpus=corpus)
        monkeypatch.setattr(dtmt_tf.runs.Run, "open", lambda *_: run)
        monkeypatch.setattr(dtmt_tf.runs, "check_split", lambda *_: None)
        monkeypatch.setattr(dtmt_tf.runs, "evaluate", lambda *_: "scores")
        monkeypatch.setattr(dtmt_tf.runs, "translations_of", lambda *_: ["translation"])
        monkeypatch.setattr(dtmt_tf.runs, "translations_file", lambda *_: "test.txt")
        evaluate.command([str(tmp_path), "--comet", "m"])
    else:
        monkeypatch.chdir(tmp_path)
        for name in ("source", "translation", "reference"):
            Path(name).write_text(f"{name}\n")
        files = ["--references", "reference", "--hypotheses", "translation"]
        evaluate.command([*files, "--sources", "source", "--comet", "m"])
    assert asked == [("m", ["source"], ["translation"], ["reference"])]


def test_files_are_tests_whatever_their_names(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    options = []
    for name in ("validation", "train"):
        Path(name).write_text("a b c d e\n")
        options += ["--references", name, "--hypotheses", name]
    assert evaluate.command(options) == 0
    assert "mean BLEU of 2 test sets" in capsys.readouterr().out


def test_files_have_no_splits():
    with pytest.raises(UserError, match="--split is for runs"):
        evaluate.command(["--references", "a.de", "--hypotheses", "b.de", "--split", "test"])


@pytest.mark.parametrize("given", ["", "a\n"])
def test_sources_of_another_length_are_told_before_anything_is_scored(monkeypatch, tmp_path, given):
    monkeypatch.setattr(dtmt_tf.evaluation, "compare_systems", lambda *_: pytest.fail("it scores"))
    places = [tmp_path / name for name in ("source", "reference", "one", "two")]
    for path in places:
        path.write_text("a\nb\n" if path.name != "source" else given)
    source, reference, *hypotheses = map(str, places)
    files = ["--references", reference, "--hypotheses", *hypotheses, "--sources", source]
    said = f"source has {len(given) // 2} lines and the references 2. Line n of one"
    with pytest.raises(UserError, match=said):
        evaluate.command([*files, "--page", str(tmp_path / "page.html")])
