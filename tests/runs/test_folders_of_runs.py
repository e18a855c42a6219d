"""Only a folder that this program made is a run's, and only files that it knows are removed."""

import contextlib
import json
import os
import shutil
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest
import tensorflow as tf

from dtmt_tf.errors import UserError
from dtmt_tf.experiment import resolve
from dtmt_tf.folders import MARK, claimed
from dtmt_tf.models import MODELS
from dtmt_tf.runs import Run, Session
from dtmt_tf.runs.compared import all_settings, compared
from dtmt_tf.runs.former import ASIDE, forget, set_aside, settle
from dtmt_tf.tasks import TASKS

OURS = [
    *("experiment.json", "samples.json", "subwords.json", "scores.json", "source.spm"),
    *("target.spm", "test.txt", "news.txt", "validation.txt.partial", "train.txt.partial.json"),
    *("checkpoints/step-00000020.npz", "checkpoints/step-00000010.npz.damaged"),
    "checkpoints/step-00000030.npz.0123456789abcdef.partial",
    *("tensorboard/events.out.tfevents.1.host.2.0.v2", "trackers.json"),
    *("bad-step-00000012.json", "bad-step-00000012-worker-1.json"),
]
THEIRS = [
    *("corpus.en", "notes.txt", "checkpoints/mine.npz", "tensorboard/notes.md", "more/a.txt"),
    *("test.txt.corrected", "test.txt~", "video.partial", "checkpoints/step-00000020-best.npz"),
]


@pytest.fixture
def run(tmp_path):
    """A run of a corpus with one extra test, not read."""
    experiment, origins = resolve(TASKS["custom"], "dtmt_tiny", MODELS["dtmt_tiny"])
    run = Run(experiment, tmp_path / "custom" / "run", None, tmp_path / "cache", origins)
    run.__dict__["corpus"] = type("Corpus", (), {"sizes": {"train": 9, "test": 1, "news": 1}})
    return run


def fill(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")


def settled(run):
    """Writes the settings of a run without the mark, as older versions did."""
    fill(run.work, "experiment.json")
    (run.work / "experiment.json").write_text(json.dumps(run.settings()))


def there(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_a_new_folder_is_marked_and_a_restart_leaves_the_files_of_others(run, caplog):
    caplog.set_level("INFO")
    with run.claimed():
        assert (run.folder / MARK).is_file()
        fill(run.work, *OURS, *THEIRS)
        fill(run.folder, "1/saved_model.pb", "beside.txt", "events.out.tfevents.1.host.2.0.v2")
        set_aside(run)
        forget(run)
    left = {*(f"train/{name}" for name in THEIRS), "1/saved_model.pb", "beside.txt"}
    assert there(run.folder) == {MARK, ".lock", *left}
    assert "notes.txt" in caplog.text and "beside.txt" not in caplog.text
    assert "Starting over: 20 updates are forgotten." in caplog.text


def test_a_folder_of_something_else_is_refused_and_stays_as_it_was(run):
    fill(run.folder, "train/corpus.en", "train/source.spm")
    before = there(run.folder)
    with pytest.raises(UserError, match="holds 'train' and no run of dtmt_tf. Nothing in it"):
        with run.claimed():
            pass
    assert there(run.folder) == before


def test_a_restart_without_a_mark_removes_nothing(run):
    fill(run.work, *OURS)
    with pytest.raises(UserError, match="Nothing was removed"):
        set_aside(run)
    assert there(run.work) == set(OURS)


@pytest.mark.parametrize("older", ["train", "1"])
def test_a_run_of_an_older_version_is_known_by_its_settings(run, older):
    settled(run)
    (run.work).rename(run.folder / older)
    with run.claimed():
        assert (run.folder / MARK).is_file()
        fill(run.work, *OURS, *THEIRS)
        set_aside(run)
        forget(run)
    assert there(run.work) == set(THEIRS)


def contents(folder):
    return {name: (folder / name).read_text() for name in there(folder)}


@pytest.mark.parametrize("link", ["train", "train/checkpoints"])
def test_a_restart_of_what_lies_behind_a_link_is_refused_before_anything_moves(run, link, tmp_path):
    elsewhere = tmp_path / "large disk"
    with run.claimed():
        fill(run.work, *OURS)
        shutil.move(run.folder / link, elsewhere)
        (run.folder / link).symlink_to(elsewhere)
        before = there(run.folder), there(elsewhere)
        with pytest.raises(UserError, match=f"{link} is a link to .*large disk"):
            set_aside(run)
    assert (there(run.folder), there(elsewhere)) == before


def test_a_restart_that_fails_before_its_first_checkpoint_leaves_the_run_as_it_was(run, caplog):
    caplog.set_level("INFO")
    with run.claimed():
        fill(run.work, *OURS, *THEIRS)
        fill(run.folder, "1/saved_model.pb", "events.out.tfevents.1.host.2.0.v2")
        before = contents(run.folder)
        set_aside(run)
        assert run.checkpoints.steps() == []
        fill(
            run.folder,
            "train/subwords.json",
            "train/experiment.json",
            "train/scores.json.0123456789abcdef.partial",
            "events.out.tfevents.9.host",
        )
        with pytest.raises(UserError, match="trained anew with --restart. If that was killed"):
            Run.open(run.folder, None, run.cache_dir)
        fill(run.work, "theirs.txt")  # put there meanwhile
        (run.work / "subwords.json").write_text("new")
        for _ in range(2):  # as after a kill, it can be settled again
            settle(run)
        assert contents(run.folder) == before | {"train/theirs.txt": "{}"}
    assert "again as it was before --restart" in caplog.text


def test_a_restart_that_has_a_checkpoint_stays_whoever_settles(run):
    with run.claimed():
        fill(run.work, *OURS, *THEIRS)
        set_aside(run)
        fill(run.work, "checkpoints/step-00000000.npz")
        (run.folder / ASIDE / "samples.json").unlink()  # killed while it forgot
        settle(run)
        settle(run)
    assert there(run.work) == {*THEIRS, "checkpoints/step-00000000.npz"}
    assert not (run.folder / ASIDE).exists()


def test_what_a_killed_restart_left_is_put_back_before_it_is_set_aside_again(run):
    with run.claimed():
        fill(run.work, *OURS)
        set_aside(run)
        fill(run.work, "subwords.json")
        set_aside(run)
        settle(run)
    assert there(run.work) == set(OURS)


class Killed(BaseException):
    """The end of the process."""


@pytest.mark.parametrize("after", range(12))
def test_a_restart_that_is_killed_wherever_it_moves_or_removes_loses_nothing(
    run, monkeypatch, after
):
    """Neither while it sets the run aside nor while it puts it back."""
    events = [f"events.out.tfevents.{k}.host.2.0.v2" for k in range(3)]
    with run.claimed():
        fill(run.work, *OURS, *THEIRS)
        fill(run.folder, *events)
        before, done = contents(run.folder), []

        def counted(function):
            def do(*arguments, **options):
                if len(done) == after:
                    raise Killed
                done.append(function)
                return function(*arguments, **options)

            return do

        with monkeypatch.context() as patch:
            for name in ("rename", "unlink"):
                patch.setattr(Path, name, counted(getattr(Path, name)))
            with contextlib.suppress(Killed):
                set_aside(run)
                for name in ("train/subwords.json", "events.out.tfevents.9.host"):
                    fill(run.folder, name)
                    (run.folder / name).write_text("new")
                settle(run)
        settle(run)
        assert contents(run.folder) == before


def test_a_corpus_that_an_older_version_prepared_is_known(run):
    fill(run.work, "subwords.json", "source.spm")
    with run.claimed():
        assert (run.folder / MARK).is_file()


def test_settings_that_are_damaged_do_not_make_a_folder_ours(run):
    fill(run.work, "experiment.json", "corpus.en")
    with pytest.raises(UserError, match="is damaged"):
        with run.claimed():
            pass
    assert there(run.folder) == {"train/experiment.json", "train/corpus.en"}


def test_a_run_of_a_task_that_is_not_here_is_told_so(run):
    settled(run)
    path = run.work / "experiment.json"
    path.write_text(path.read_text().replace(f'"{run.experiment.task}"', '"my_task"'))
    with pytest.raises(UserError, match=r"experiment\.json: this version has no task 'my_task'"):
        Run.open(run.folder, run.data_dir, run.cache_dir)


@pytest.mark.parametrize(
    ("setting", "told"),
    [({"mixup": 1}, "mixup.*Use the version"), ({"max_steps": -1}, "`training.max_steps` should")],
)
def test_settings_that_do_not_fit_this_version_are_told_with_their_file(run, setting, told):
    settled(run)
    path = run.work / "experiment.json"
    record = json.loads(path.read_text())
    record["settings"]["training"] |= setting
    path.write_text(json.dumps(record))
    with pytest.raises(UserError, match=rf"experiment\.json: .*{told}"):
        Run.open(run.folder, run.data_dir, run.cache_dir)


def test_a_folder_that_another_process_has_is_refused(run):
    settled(run)
    child = os.fork()
    if not child:
        with claimed(run.folder):
            os.kill(os.getpid(), signal.SIGSTOP)  # until it is killed
        os._exit(0)
    try:
        os.waitpid(child, os.WUNTRACED)
        with pytest.raises(UserError, match=f"in use by process {child}"):
            with run.claimed():
                pass
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)


def test_members_of_an_ensemble_are_known_by_their_places(run, tmp_path, monkeypatch):
    for place in ("custom/a", "elsewhere/a"):
        member = Run(run.experiment, tmp_path / place, None, tmp_path, run.origins)
        settled(member)
        run.members = [*run.members, member]
    monkeypatch.setattr(Run, "samples", lambda self: [])
    with run.claimed():
        run.write_settings()
    assert run.record()["members"] == ["a", "../elsewhere/a"]
    monkeypatch.chdir(tmp_path / "elsewhere")
    opened = Run.open(run.folder, None, tmp_path)
    assert [member.folder.resolve() for member in opened.members] == [
        tmp_path / "custom" / "a",
        tmp_path / "elsewhere" / "a",
    ]


@pytest.mark.parametrize("content", ["{", "[]", '{"test": 5}', "[" * 100_000, "\xff"], ids=repr)
def test_a_damaged_file_of_a_run_is_named(run, content):
    fill(run.work, "scores.json")
    (run.work / "scores.json").write_bytes(content.encode("latin1"))
    with pytest.raises(UserError, match="scores.json is damaged.*Remove it, and run"):
        run.read("scores.json")


def test_tensorboard_calls_a_run_by_task_and_name_but_goes_on_where_it_began(run):
    assert run.events == run.folder  # below --output-dir that is task/name
    fill(run.work, "tensorboard/events.out.tfevents.1.host.2.0.v2")
    assert run.events == run.work / "tensorboard"


def test_settings_that_tell_runs_apart_are_shown_with_what_the_user_set():
    experiment, origins = resolve(
        TASKS["custom"], "dtmt_tiny", MODELS["dtmt_tiny"],
        ["training.seed=7", "data.train_source=a.en,b.en", "training.deterministic=true"],
    )  # fmt: skip
    run = Run(experiment, Path("custom/run"), None, Path("cache"), origins)
    shown = compared(run, SimpleNamespace(count_params=lambda: 5))
    assert (shown["task"], shown["model"], shown["parameters"]) == ("custom", "dtmt_tiny", 5)
    assert shown["training.seed"] == 7 and shown["training.precision"] == "float32"
    chosen = dict(each.split("=") for each in shown["set"].split(" "))
    assert chosen == {"training.seed": "7", "data.train_source": "a.en,b.en",
                      "training.deterministic": "true"}  # fmt: skip
    assert {type(value) for value in all_settings(run).values()} <= {bool, int, float, str}


def test_a_session_names_its_run_to_tensorboard_and_trackers(run, monkeypatch):
    told = {}
    for name in ("open_trackers", "Summaries"):
        monkeypatch.setattr(f"dtmt_tf.runs.session.{name}",
                            lambda *given, name=name: told.setdefault(name, given))  # fmt: skip
    session = Session(run, tf.distribute.get_strategy(), trackers=["mlflow"])
    model = SimpleNamespace(count_params=lambda: 5)
    session._summaries(model)
    assert session._trackers(model) == told["open_trackers"]
    names, task, name, settings, memory = told["open_trackers"]
    assert (names, task, name) == (["mlflow"], "custom", "run")
    assert settings["parameters"] == 5 and settings["model.num_heads"] == 4
    assert memory == run.work / "trackers.json"
    folder, _, shown, title = told["Summaries"]
    assert (folder, title) == (run.folder, "custom/run")
    assert shown["task"] == "custom" and "model.num_heads" not in shown


def test_text_of_ones_own_is_described_by_its_languages(run, tmp_path):
    assert run.description == TASKS["custom"].description  # it has no text yet
    own = ["data.train_source=a.en", "data.train_target=a.de", "data.source_language=en"]
    for task, told in (("custom", "Parallel text of the user's own, en-"), ("cldr_ende", "")):
        experiment, origins = resolve(TASKS[task], "dtmt_tiny", MODELS["dtmt_tiny"], own)
        found = Run(experiment, tmp_path / task, None, tmp_path, origins).description
        assert found.startswith(told or TASKS[task].description)
