"""Stages run once each, in order, and go on after whatever ended them."""

import dataclasses
import json
import sys
import types

import pytest

from dtmt_tf.commands import stages
from dtmt_tf.commands.stages import Stage, Stages
from dtmt_tf.errors import UserError
from dtmt_tf.folders import claimed


class Killed(BaseException):
    """Stands for the end of the process, which nothing catches."""


@pytest.fixture
def workshop(tmp_path, monkeypatch):
    """A command that writes lines of files, goes on where it was stopped, and notes its calls."""
    calls, kills = [], []

    def command(words):
        output, *inputs = (tmp_path / word for word in words if not word.startswith("-"))
        calls.append(output.name)
        lines = [line for path in inputs for line in path.read_text().splitlines()]
        partial = output.with_suffix(".partial")
        done = len(partial.read_text().splitlines()) if partial.exists() else 0
        with partial.open("a") as file:
            for number, line in enumerate([*lines, output.name][done:], done):
                if kills and kills[0] == (output.name, number):
                    file.flush()
                    end = {"c": 143}.get(kills.pop(0)[0])
                    if end:
                        return end
                    raise Killed
                file.write(f"{line}!\n")
        partial.rename(output)
        return None

    module = types.ModuleType("dtmt_tf.commands.fake")
    module.command = command
    monkeypatch.setattr(stages.gc, "collect", lambda: None)  # slow beside a test's models
    monkeypatch.setitem(sys.modules, "dtmt_tf.commands.fake", module)
    return types.SimpleNamespace(folder=tmp_path, calls=calls, kills=kills)


def stages_of(workshop, name="run", words=("c", "b", "a")):
    made = {"a": ("a",), "b": ("b", "a"), words[0]: words}
    found = [
        Stage(f"make {output}", ("fake", *each), workshop.folder / output)
        for output, each in made.items()
    ]
    return Stages(found, workshop.folder / name, ["--place"])


def test_what_was_killed_and_stopped_ends_in_the_same(workshop):
    assert stages_of(workshop).run() == 0
    expected = (workshop.folder / "c").read_text()
    assert expected == "a!!!\nb!!\na!!\nc!\n"
    assert workshop.calls == ["a", "b", "c"]
    for path in workshop.folder.glob("[abc]"):
        path.unlink()
    workshop.calls.clear()

    workshop.kills += [("b", 1), ("c", 2)]
    with pytest.raises(Killed):
        stages_of(workshop, "other").run()
    assert stages_of(workshop, "other").run() == 143
    assert stages_of(workshop, "other").run() == 0
    assert (workshop.folder / "c").read_text() == expected
    assert workshop.calls == ["a", "b", "b", "c", "c"]  # what is done is not done again
    assert stages_of(workshop, "other").run() == 0 and len(workshop.calls) == 5


def test_what_later_stages_need_and_is_not_made_is_told_at_once(workshop):
    made = stages_of(workshop, "run")
    needed = tuple((workshop.folder / name, f"there is no {name}.") for name in ("a", "x"))
    made.stages = [dataclasses.replace(made.stages[0], needed=needed), *made.stages[1:]]
    with pytest.raises(UserError, match="^Stage 1 of 3: make a: there is no x.$"):
        made.run()
    assert workshop.calls == ["a"]
    (workshop.folder / "x").touch()
    assert made.run() == 0 and workshop.calls == ["a", "a", "b", "c"]


def test_stages_are_listed_with_their_commands_and_what_is_done(workshop):
    workshop.kills.append(("b", 0))
    assert "(done)" not in stages_of(workshop).listed()
    with pytest.raises(Killed):
        stages_of(workshop).run()
    assert stages_of(workshop).listed().splitlines() == [
        "Stage 1 of 3: make a (done)",
        "  dtmt fake a --place",
        "Stage 2 of 3: make b",
        "  dtmt fake b a --place",
        "Stage 3 of 3: make c",
        "  dtmt fake c b a --place",
    ]


def test_what_was_removed_is_made_again(workshop):
    stages_of(workshop).run()
    (workshop.folder / "b").unlink()
    stages_of(workshop).run()
    assert workshop.calls == ["a", "b", "c", "b"]


def test_ctrl_c_in_a_stage_says_how_to_go_on(workshop, monkeypatch, capsys):
    def stop(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["dtmt_tf.commands.fake"], "command", stop)
    monkeypatch.setattr(sys, "argv", ["dtmt", "distill", "--name", "x"])
    assert stages_of(workshop).run() == 130
    assert "To go on, run again:\n  dtmt distill --name x" in capsys.readouterr().err


def test_an_error_of_a_stage_says_whose_options_it_speaks_of(workshop, monkeypatch):
    def refuse(_):
        raise UserError("Go on with --allow-changes a.")

    monkeypatch.setattr(sys.modules["dtmt_tf.commands.fake"], "command", refuse)
    told = "--allow-changes a.\nThat is Stage 1 of 3: make a. .*:\n  dtmt fake a --place\nThen"
    with pytest.raises(UserError, match=told):
        stages_of(workshop).run()


def test_other_stages_are_refused_in_a_folder_that_was_begun(workshop):
    stages_of(workshop).run()
    with pytest.raises(UserError, match="stage 3 was\n  dtmt fake c b a\nand would.*\n.*fake c a"):
        stages_of(workshop, words=("c", "a")).run()
    shorter = stages_of(workshop)
    shorter.stages = shorter.stages[:2]
    with pytest.raises(UserError, match="stage 3 was\n.*\nand would be\n  none"):
        shorter.run()
    assert "(done)" not in stages_of(workshop, words=("c", "a")).listed().splitlines()[4]
    assert len(workshop.calls) == 3


def test_files_that_changed_after_a_stage_read_them_are_refused(workshop, caplog):
    text, gone = workshop.folder / "more.de", workshop.folder / "gone.de"
    reads = text, gone, workshop.folder / "none.de"

    def of(words=("a",)):
        stage = Stage("make a", ("fake", *words), workshop.folder / "a", reads=reads)
        return Stages([stage], workshop.folder / "run")

    text.write_text("one\n")
    gone.write_text("kept nowhere\n")
    assert of().run() == 0
    gone.unlink()  # what is done needs it no more
    assert of().run() == 0 and "(done)" in of().listed()
    text.write_text("two\n")  # as many lines
    told = rf"{text} is no longer.*\nStage 1 of 1: make a. .* another --name, or restore"
    with pytest.raises(UserError, match=told.replace(r"\n", " ")):
        of().run()
    assert "(done)" not in of().listed()
    text.write_text("one\n")
    assert of().run() == 0 and workshop.calls == ["a"]

    record = workshop.folder / "run" / "recipe" / "stages.json"
    noted = json.loads(record.read_text())
    del noted["stages"][0]["files"]  # as an earlier version has it
    record.write_text(json.dumps(noted))
    text.write_text("two\n")
    assert of().run() == 0 and workshop.calls == ["a"]


def test_files_in_another_folder_are_those_of_before(workshop):
    def of(folder):
        path = workshop.folder / folder / "more.de"
        stage = Stage("make a", ("fake", "a"), workshop.folder / "a", reads=(path,))
        return Stages([stage], workshop.folder / "run")

    for folder, text in (("old", "one\n"), ("moved", "one\n"), ("other", "two\n")):
        (workshop.folder / folder).mkdir()
        (workshop.folder / folder / "more.de").write_text(text)
    assert of("old").run() == of("moved").run() == 0 and workshop.calls == ["a"]
    with pytest.raises(UserError, match="other/more.de is no longer what it was"):
        of("other").run()


def test_options_that_are_not_noted_are_given_and_may_be_others_later(workshop, monkeypatch):
    given = []
    fake = sys.modules["dtmt_tf.commands.fake"]
    monkeypatch.setattr(fake, "command", lambda words: given.append(words))
    (workshop.folder / "a").touch()
    stage = Stage("make a", ("fake", "a"), workshop.folder / "a", ("--more",))
    first = Stages([stage], workshop.folder / "run")
    assert first.run() == 0 and given == [["a", "--more"]]
    assert first.listed().endswith("dtmt fake a --more")
    without = dataclasses.replace(stage, options=())
    assert Stages([without], workshop.folder / "run").run() == 0 and len(given) == 1


def test_what_is_to_come_may_change(workshop):
    workshop.kills.append(("c", 0))
    assert stages_of(workshop).run() == 143
    assert stages_of(workshop, words=("d", "a")).run() == 0
    assert workshop.calls == ["a", "b", "c", "d"]
    assert (workshop.folder / "d").read_text() == "a!!\nd!\n"


def test_folders_of_others_and_damaged_records_are_named(workshop):
    taken = workshop.folder / "taken"
    with claimed(workshop.folder / "run"):
        assert stages_of(workshop).run() == 0  # this process's own
    (taken / "train").mkdir(parents=True)
    (taken / "train" / "experiment.json").write_text("{}")
    with pytest.raises(UserError, match="Choose another --name"):
        stages_of(workshop, "taken").run()
    (taken / ".dtmt_run").touch()
    with pytest.raises(UserError, match="holds a run that was made otherwise"):
        stages_of(workshop, "taken").run()
    record = workshop.folder / "run" / "recipe" / "stages.json"
    assert [each["done"] for each in json.loads(record.read_text())["stages"]] == [True] * 3
    numbers = '{"stages": [{"words": [1], "done": true}]}'
    for content in ("{", "[]", '{"stages": [{}]}', '{"stages": 1}', "[" * 100_000, numbers):
        record.write_text(content)
        with pytest.raises(UserError, match="stages.json is damaged.*Remove it"):
            stages_of(workshop)
    assert len(workshop.calls) == 3
    record.unlink()  # as is advised, though the last stage has made the run
    (workshop.folder / "run" / "train").mkdir()
    (workshop.folder / "run" / "train" / "experiment.json").write_text("{}")
    assert stages_of(workshop).run() == 0
