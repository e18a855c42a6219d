"""Rows are compared with rows that began alike, and begin with the weights that were recorded."""

import argparse
import functools
import gzip
import statistics
import types

import pytest

from dtmt_tf.errors import UserError
from dtmt_tf.files import write_json
from dtmt_tf.runs import Run
from pipelines.papers import (
    PAPERS,
    contrasts,
    figures,
    jobs,
    panels,
    records,
    report,
    reproduce,
    tables,
)
from pipelines.papers.dtmt import TABLES
from tests.pipelines.test_results import cells, record
from tests.pipelines.test_rows import arguments


def test_rows_on_top_of_other_weights_are_not_compared():
    series = {"series": record()["series"] | {"begin_with": "gru0"}}
    other = series | {"begins_with": "d3c74b43"}
    before = [record("gru0", 2, **series), record("gru0", 2, rate=0.2, **other)]
    found = [*before, record("lgru0", 2, rate=0.1, **other), record("lgru0", 3, 0.1, **series)]
    line = cells(tables.rows_table(TABLES["3"], found), "ShallowRNMT: GRU", "ShallowRNMT: L-GRU")
    bleu = [run["scores"]["test"]["bleu"] for run in found]
    assert line[2] == f"{bleu[2] - bleu[1]:+.2f}"
    with pytest.raises(UserError, match="gru0 has two records of one seed"):
        records.by_row([before[0], *before])


def test_a_line_has_trainings_on_bases_that_all_of_its_rows_have():
    series = {"series": record()["series"] | {"begin_with": "base"}}
    found = [
        record(row, 2, rate=rate, **series, begins_with=base)
        for row, base, rate in (
            *(("base", "a", 0.1), ("base", "b", 0.2), ("base", "c", 0.6)),
            *(("steps1", "a", 0.15), ("steps1", "b", 0.25)),
        )
    ]
    bleu = [run["scores"]["test"]["bleu"] for run in found]
    _, lines = figures.axis_curves(PAPERS["recurrence"].figures["5"], found)
    means = [statistics.fmean(bleu[:2]), statistics.fmean(bleu[3:])]
    assert [score for _, score in lines["here"]] == pytest.approx(means)


def test_a_changed_series_stands_beside_the_others_unless_it_is_of_another_text():
    plain, changed = record("gru0"), record("gru0", rate=0.4)
    changed["series"] |= {"hash": "x", "set": ["data.reverse=true"]}
    assert len(tables.budgets([plain, changed], TABLES["3"])) == 1
    changed["sentences"] |= {"source_words": "of another text"}
    assert len(tables.budgets([plain, changed], TABLES["3"])) == 2


def test_a_row_on_top_of_others_is_compared_with_fresh_rows_by_its_seed():
    found = [record("gru0", seed) for seed in (1, 2)]
    series = {"series": record()["series"] | {"begin_with": "gru0"}}
    later = [record("lgru0", 1, 0.1, begins_with="d3c74b43", **series)]
    later.append(record("lgru0", 2, 0.1, **series))  # of a version that did not note it
    changes, *_ = tables.comparison(found, later, 1.0)
    bleu = [run["scores"]["test"]["bleu"] for run in [*found, *later]]
    assert changes == f"{bleu[2] - bleu[0]:+.2f}, {bleu[3] - bleu[1]:+.2f}"


def test_a_run_that_began_with_another_ones_weights_says_so():
    text = tables.runs_table([record(), record(seed=2, init_from="custom/a")])
    assert text.count("began with") == 1
    assert cells(text, "custom", "en-de", "run2, which began with custom/a")


def test_a_row_begins_with_the_training_that_was_recorded(tmp_path):
    args = arguments(records=tmp_path / "records", output_dir=tmp_path, begin_with="gru0")
    job = jobs.make_job(argparse.Namespace(**{**vars(args), "begin_with": ""}), "gru0", 1)
    folder = tmp_path / "multi30k_ende" / job.name
    write_json(args.records / job.record, record("gru0"))
    scores = record("gru0")["scores"]
    scores["test"]["weights_sha256"] = "d3c74b438de7"
    write_json(folder / "train" / "scores.json", {"test": scores["test"]})
    assert jobs.beginning(args, 1) == folder
    assert records.weights_hash(folder) == "d3c74b43"
    noted = record("gru0")
    noted["scores"]["test"]["weights_sha256"] = "d3c74b438de7"
    write_json(args.records / job.record, noted)
    scores["test"]["bleu"] += 1  # by another search
    write_json(folder / "train" / "scores.json", {"test": scores["test"]})
    assert jobs.beginning(args, 1) == folder
    write_json(folder / "train" / "scores.json", {"test": record("gru0")["scores"]["test"]})
    with pytest.raises(UserError, match="did not note the weights. Score it anew"):
        jobs.beginning(args, 1)
    (folder / "train" / "scores.json").write_text('{"test": ')
    with pytest.raises(UserError, match="scores.json is damaged .*Remove it"):
        jobs.beginning(args, 1)
    (folder / "train" / "scores.json").unlink()  # its training was stopped
    with pytest.raises(UserError, match="gru0 has no finished run"):
        jobs.beginning(args, 1)
    write_json(args.records / job.record, record("gru0"))
    write_json(
        folder / "train" / "scores.json", {"test": record("gru0", rate=0.5)["scores"]["test"]}
    )
    with pytest.raises(UserError, match=r"is another training than that of .*--records"):
        jobs.beginning(args, 1)


def test_a_row_that_is_added_again_keeps_the_weights_that_it_began_with(tmp_path, monkeypatch):
    known = record("gru0") | {"begins_with": "d3c74b43", "contrast": {"x": 1}, "minutes": 5}
    place = tmp_path / "toy-gru0.json"
    write_json(place, known)
    run = argparse.Namespace(experiment=argparse.Namespace(task="toy"))
    monkeypatch.setattr(Run, "open", lambda *_: run)
    monkeypatch.setattr(records, "check_same", lambda *_: None)
    args = arguments(records=tmp_path, output_dir=tmp_path, data_dir=None)
    for rate, contrast in ((0.3, {"x": 1}), (0.5, None)):  # the same weights, and others
        scores = record("gru0", rate=rate)["scores"]
        made = {"row": "gru0", "minutes": 6, "scores": scores}
        monkeypatch.setattr(records, "make_record", lambda *_, made=made: dict(made))
        report._add(args, tmp_path / "gru0")
        added = records.read_record(place)
        assert (added["minutes"], added.get("contrast")) == (6, contrast)
        assert records.trained_from(added | {"seed": 2}) == (2, "d3c74b43")


def test_two_changed_series_of_one_budget_are_two_tables():
    found = [record("gru0"), record("lgru0")]
    for run, name in zip(found, ("clip_norm=1", "adam_beta_2=0.98"), strict=True):
        run["series"] |= {"hash": name, "set": [f"training.{name}"]}
    text = tables.each_budget(found, TABLES["3"], tables.rows_table)
    assert "(settings clip_norm=1)" in text and "(settings adam_beta_2=0.98)" in text


def test_contrasts_are_asked_of_the_rows_that_show_them():
    args = argparse.Namespace(paper="deep_architectures", figure=["5"], contrast=["set"])
    assert reproduce._contrasts(args, "dtmt1") == ["set"]
    assert reproduce._contrasts(args, "deep_output") == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("dtmt --table 3 2 --recipe short", "no recipe 'short' of wmt14_ende"),
        ("dtmt --table 3 --precision float32 --set training.precision=bfloat16", "beside --prec"),
        ("lau --table 1 --contrast {page}", "--contrast goes with --figure 5 of deep_architec"),
        ("lau --table 1 --records {page.parent}/none --report {page}", "a copy of LAU.md"),
        ("lau --table 1 --records {page.parent}/none", r"^LAU\.md shows .* Copy the page"),
    ],
)
def test_what_can_not_be_trained_is_told_before_the_first_row(monkeypatch, tmp_path, words, told):
    page = tmp_path / "copy.tsv"  # of another paper's page
    page.write_text("<!-- dtmt table 1 -->\n<!-- end -->\n")
    monkeypatch.setattr(reproduce, "read_set", lambda _: [])
    monkeypatch.setattr("sys.argv", ["reproduce.py", *words.format(page=page).split()])
    monkeypatch.setattr(reproduce, "_in_process", lambda _: pytest.fail("a row began"))
    with pytest.raises(UserError, match=told):
        reproduce.command()


def test_no_row_is_trained_again_to_be_scored_on_other_contrasts(monkeypatch, tmp_path):
    (name,) = {path.name for path in records.RECORDS.glob("general_ende-deep-baseline-*")}
    place, page = tmp_path / name, tmp_path / "mine.md"
    write_json(place, records.read_record(records.RECORDS / name) | {"contrast_sets": ["other"]})
    known = place.read_bytes()
    page.write_bytes((report.ROOT / "DEEP_ARCHITECTURES.md").read_bytes())
    (tmp_path / "set").write_text("")
    words = f"--rows baseline --contrast {tmp_path}/set --records {tmp_path} --report {page}"
    words = f"deep_architectures --figure 5 --task general_ende --output-dir {tmp_path} {words}"
    monkeypatch.setattr(reproduce, "read_set", lambda _: [])
    monkeypatch.setattr("sys.argv", ["reproduce.py", *words.split()])
    with pytest.raises(UserError, match="baseline has no finished run .* is of a run elsewhere"):
        reproduce.command()
    assert place.read_bytes() == known


def test_accuracies_on_other_contrasts_are_found_before_any_is_dropped(tmp_path):
    (tmp_path / "set").write_text("")
    asked = contrasts.hashes([tmp_path / "set"])
    series = record("gru0")["series"]["hash"]
    check = functools.partial(
        contrasts.check_others, tmp_path, asked=[("gru0", 1)], sets=[tmp_path / "set"]
    )
    for name, row, sets in (("a", "gru0", ["b"]), ("b", "lgru0", asked)):
        write_json(tmp_path / f"{name}.json", record(row, contrast={}, contrast_sets=sets))
    check(series)
    write_json(tmp_path / "c.json", record("lgru1", contrast={}))  # whose sets nobody knows
    write_json(tmp_path / "d.json", record("lgru4", seed=2, contrast={}, contrast_sets=["b"]))
    with pytest.raises(UserError, match="other contrasts: lgru1 of seed 1, lgru4 of seed 2. Sc"):
        check(series)
    check("another")


def test_a_row_is_done_with_accuracies_on_the_contrasts_that_are_asked_for(tmp_path):
    (tmp_path / "set").write_text("")
    job = types.SimpleNamespace(row="dtmt1", record="a.json")
    args = argparse.Namespace(
        **dict(paper="deep_architectures", figure=["5"], records=tmp_path),
        contrast=[tmp_path / "set"],
    )
    for known, done in (
        ({"contrast": {}}, False),
        ({"contrast": {}, "contrast_sets": ["b"]}, False),
        ({"contrast": {}, "contrast_sets": contrasts.hashes(args.contrast)}, True),
    ):
        write_json(tmp_path / "a.json", known)
        assert reproduce._is_done(args, job) == done


def test_a_set_of_contrasts_is_the_same_packed_and_unpacked(tmp_path):
    (tmp_path / "a.tsv").write_bytes(b"x")
    (tmp_path / "b.tsv.gz").write_bytes(gzip.compress(b"x"))
    assert len({*contrasts.hashes([tmp_path / "a.tsv", tmp_path / "b.tsv.gz"])}) == 1


def test_contrasts_of_other_sets_make_room_for_those_that_are_asked_for(tmp_path):
    place = tmp_path / "toy-gru0.json"
    write_json(place, record("gru0", contrast={"x": 1}, contrast_sets=["a"]))
    contrasts.drop(place)
    assert records.read_record(place) == records.read_record(place) | record("gru0")
    assert not [key for key in records.read_record(place) if "contrast" in key]


def test_a_figure_without_lengths_of_enough_sentences_has_no_lines():
    few = [record(row, rate=rate) for row, rate in (("base", 0.3), ("biarn1", 0.4))]
    for run in few:  # 5 of each length of the figure
        run["sentences"] = {
            name: " ".join(column.split()[:20]) for name, column in run["sentences"].items()
        } | {"source_words": " ".join(["10", "20", "40", "60"] * 5)}
    table = PAPERS["recurrence"].figures["length"]
    assert table.bounds
    assert panels.lengths_panel("few", table, few).lines == []
    few[0]["sentences"]["source_words"] = few[1]["sentences"]["source_words"] = "10 " * 20
    assert panels.lengths_panel("enough", table, few).lines != []
