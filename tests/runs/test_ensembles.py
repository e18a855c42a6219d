"""Runs that can not predict together are refused by what they translate."""

import re
import shutil

import pytest

from dtmt_tf import startup
from dtmt_tf.commands import ensemble
from dtmt_tf.errors import UserError
from dtmt_tf.experiment import with_overrides
from dtmt_tf.runs import Run, unite
from dtmt_tf.runs.former import set_aside
from tests.end_to_end.test_older_artifacts import unpack


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return unpack("run-0.1", tmp_path_factory.mktemp("run")) / "custom"


@pytest.fixture
def pair(folder, tmp_path, monkeypatch):
    """Makes two trained runs, a and b, of given languages."""
    monkeypatch.setattr(Run, "finished", lambda run: True)

    def make(*languages):
        members = []
        for name, (source, target) in zip("ab", languages, strict=True):
            copy = shutil.copytree(folder / "older", tmp_path / name)
            run = Run.open(copy, folder.parent, tmp_path / "cache")
            named = f"data.source_language={source}", f"data.target_language={target}"
            run.experiment, _ = with_overrides(run.experiment, {}, named)
            members.append(run)
        return members

    return make


def test_opposite_directions_are_not_united(pair, tmp_path):
    told = f"{tmp_path / 'b'} translates de to en, {tmp_path / 'a'} en to de. Unite runs of one"
    with pytest.raises(UserError, match=re.escape(told)):
        unite(pair(("en", "de"), ("de", "en")), tmp_path / "both")
    assert not (tmp_path / "both").exists()


def test_what_translates_into_other_languages_is_not_united(pair, tmp_path):
    with pytest.raises(UserError, match="b translates en to fr, .*a en to de"):
        unite(pair(("en", "de"), ("en", "fr")), tmp_path / "both")


def test_a_member_that_trains_anew_is_not_scored_half_done(pair, tmp_path, monkeypatch):
    both = unite(pair(("en", "de"), ("en", "de")), tmp_path / "both")
    both.check_trained()
    monkeypatch.setattr(Run, "finished", lambda run: run.folder.name != "b")
    with pytest.raises(UserError, match=r"b has made 331 of 600 updates\. Let it end first"):
        both.check_trained()


def test_members_are_found_where_runs_lie_behind_a_link(pair, tmp_path):
    members = pair(("en", "de"), ("en", "de"))
    deep = tmp_path / "far" / "away" / "models"
    deep.mkdir(parents=True)
    (tmp_path / "models").symlink_to(deep)
    unite(members, tmp_path / "models" / "both")
    for place in (tmp_path / "models", deep):
        opened = Run.open(place / "both", None, tmp_path / "cache")
        for member, named in zip(opened.members, members, strict=True):
            assert member.folder.samefile(named.folder)


def test_a_trained_run_whose_restart_was_killed_is_not_taken_for_a_free_name(pair, tmp_path):
    members = pair(("en", "de"), ("en", "de"))
    other = Run.open(shutil.copytree(tmp_path / "a", tmp_path / "c"), None, tmp_path / "cache")
    with other.claimed():
        set_aside(other)
    with pytest.raises(UserError, match="c holds a run that was trained"):
        unite(members, tmp_path / "c")
    assert other.checkpoints.steps() == members[0].checkpoints.steps() != []


@pytest.mark.parametrize("other", [("en", "de"), ("en-GB", "deu"), ("", "de")], ids=str)
def test_the_same_direction_and_one_that_is_not_known_are_united(pair, tmp_path, other):
    assert len(unite(pair(("en", "de"), other), tmp_path / "both").members) == 2


def test_text_is_cut_as_the_member_of_the_shortest_was_trained(pair, tmp_path):
    members = pair(("en", "de"), ("en", "de"))
    members[1].experiment, _ = with_overrides(members[1].experiment, {}, ["data.max_length=7"])
    for name, order in (("both", members), ("turned", members[::-1])):
        united = unite(order, tmp_path / name)
        opened = Run.open(united.folder, None, tmp_path / "cache")
        assert opened.experiment.data.max_length == 7, name
    assert members[0].experiment.data.max_length > 7


def test_members_that_were_scored_otherwise_are_named(pair, tmp_path, caplog):
    members = pair(("en", "de"), ("en", "de"))
    unite(members, tmp_path / "same")
    assert "other settings" not in caplog.text
    changes = ["beam_size=12", "batch_size=3", "shortlist=9"]
    changes = [*(f"decoding.{change}" for change in changes), "training.seed=9"]
    members[1].experiment, _ = with_overrides(members[1].experiment, {}, changes)
    unite(members, tmp_path / "both")
    assert re.search(
        rf"{members[1].folder} had other settings than {members[0].folder}, whose hold: "
        r"decoding.beam_size \d+ -> 12\.",
        caplog.text,
    )


def test_an_ensemble_has_no_shortlist(pair, tmp_path, caplog):
    members = pair(("en", "de"), ("en", "de"))
    members[0].experiment, _ = with_overrides(members[0].experiment, {}, ["decoding.shortlist=9"])
    opened = Run.open(unite(members, tmp_path / "both").folder, None, tmp_path / "cache")
    assert opened.experiment.decoding.shortlist == 0 and "both searches all words" in caplog.text
    assert opened.origins["decoding.shortlist"] == "an ensemble's"


def test_folders_of_runs_are_united_beside_them(folder, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(Run, "finished", lambda run: True)
    monkeypatch.setattr(startup, "start_tensorflow", lambda: None)  # it has started
    monkeypatch.chdir(folder.parent)  # where the run's text lies
    named = [str(shutil.copytree(folder / "older", tmp_path / "custom" / each)) for each in "abc"]
    assert ensemble.command([*named[:2], "--output-dir", str(tmp_path)]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["custom"]
    of = tmp_path / "custom" / "ensemble"
    assert Run.open(of, None, tmp_path / "cache").member_paths == ["a", "b"]
    assert "was an ensemble" not in caplog.text
    assert ensemble.command([*named[1:], "--output-dir", str(tmp_path)]) == 0
    assert f"{of} was an ensemble of a, b until now" in caplog.text
    there = ["--task", "cldr_ende", "--name", "both", "--output-dir", str(tmp_path)]
    assert ensemble.command([*named[:2], *there]) == 0
    assert (tmp_path / "cldr_ende" / "both").is_dir()
