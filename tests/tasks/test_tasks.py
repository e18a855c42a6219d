"""Every task resolves, and where its data are at hand, they are what it says."""

import dataclasses
import os
import re
from pathlib import Path

import pytest

from dtmt_tf.data.downloads import resolve_file
from dtmt_tf.data.lines import byte_lines
from dtmt_tf.data.own_files import find_file, named_files
from dtmt_tf.errors import UserError
from dtmt_tf.experiment import resolve
from dtmt_tf.models import MODELS
from dtmt_tf.planning.dry_run import described
from dtmt_tf.tasks import TASKS

DATA_DIR = os.environ.get("DTMT_DATA_DIR")
needs_data = pytest.mark.skipif(not DATA_DIR, reason="DTMT_DATA_DIR names no data sets")

MULTI30K = {"train": [29_000], "validation": [1_014], "test": [1_000]}
PAIRS = {  # in each file, by part
    "multi30k_ende": MULTI30K,
    "multi30k_ende_tok": MULTI30K,
    "multi30k_enfr": MULTI30K,
    "multi30k_enfr_tok": MULTI30K,
    "multi30k_encs": MULTI30K,
    "tatoeba_ende": {"train": [162_190], "validation": [2_000], "test": []},
    "tatoeba_enfr": {"train": [158_792], "validation": [2_000], "test": []},
    "tatoeba_enzh": {"train": [23_527], "validation": [2_000], "test": []},
    "general_ende": {
        "train": [29_000, 162_190, 34_229, 2_051, 2_525, 2_489, 3_003, 3_003],
        "validation": [1_014, 2_000, 2_000],
        "test": [1_000],
        "newstest2013": [3_000],
    },
}
BUILT = {}  # models, by all that they are built from but the sizes of their vocabularies
FILES = {file.path: file for task in TASKS.values() for file in task.files}


@pytest.mark.parametrize("name", TASKS)
def test_a_task_resolves_to_a_model_that_can_be_built(name, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    task = TASKS[name]
    experiment, origins = resolve(task, task.model, MODELS[task.model])
    build, model = type(experiment.model).build, (experiment.model, task.data.joint_vocabulary)
    monkeypatch.setattr(
        type(experiment.model),
        "build",
        lambda *given: BUILT.get(model) or BUILT.setdefault(model, build(*given)),
    )
    assert experiment.data == task.data and f"task {name}" in origins.values()
    lines = described(experiment, 1).text.splitlines()
    assert lines[0].startswith(f"{name}, {task.model}, ")
    assert [line for line in lines if len(line) > 60] == []


def test_one_table_for_two_vocabularies_is_refused_before_any_work():
    arguments = TASKS["cldr_ende"], "dtmt_tied", MODELS["dtmt_tied"]
    with pytest.raises(UserError, match=r"model dtmt_tied\) needs data.joint_vocabulary=true"):
        resolve(*arguments)
    for way_out in ("data.joint_vocabulary=true", "model.tied_embeddings=none"):
        resolve(*arguments, [way_out])


def test_memory_is_told_for_both_passes_and_the_moving_average():
    def gib(*settings):
        text = described(resolve(task, task.model, MODELS[task.model], settings)[0], 1).text
        return {name: float(number) for name, number in re.findall(r"  (.+?) +(\S+) GiB", text)}

    task = TASKS["multi30k_ende"]
    larger = ["data.max_tokens_per_batch=128000"]  # than what two decimals blur
    twice, once = gib(*larger), gib(*larger, "training.r_drop_alpha=0", "training.ema_decay=0")
    assert twice["moving average"] == twice["weights"] > 0 and "moving average" not in once
    for name in ("attention, all steps", "logits, gradient"):
        assert twice[name] == pytest.approx(2 * once[name], rel=0.01)


@pytest.mark.parametrize("name", sorted(set(TASKS) - {"cldr_ende", "custom"}))
def test_files_end_on_their_languages_and_translate_each_other(name):
    data = TASKS[name].data
    for sources, targets in named_files(data).values():
        for source, target in zip(sources, targets, strict=True):
            stem = source.removesuffix(f".{data.source_language}")
            assert stem != source and target == f"{stem}.{data.target_language}"


@pytest.mark.parametrize("name", TASKS)
def test_files_are_downloaded_by_checksum_or_the_user_is_told_where_they_belong(name):
    task = TASKS[name]
    remote = {file.path for file in task.files}
    for sides in named_files(task.data).values():
        for path in (path for names in sides for path in names if path not in remote):
            assert path.partition("/")[0] in task.unavailable


@pytest.mark.parametrize(
    "path, url",
    [
        ("multi30k/val.fr", "raw/val.fr.gz"),
        ("multi30k/train.cs", "raw/train.cs.gz"),
        ("multi30k_tok/test_2016_flickr.fr", "tok/test_2016_flickr.lc.norm.tok.fr"),
    ],
)
def test_multi30k_comes_from_its_own_repository(path, url):
    root = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1"
    assert FILES[path].url == f"{root}/{url}"


def skip_without(paths):
    """Skips a test of a data set that the user does not have."""
    for path in paths:
        if not any((Path(DATA_DIR) / f"{path}{packed}").is_file() for packed in ("", ".gz", ".xz")):
            pytest.skip(f"DTMT_DATA_DIR has no {path}")


@needs_data
@pytest.mark.parametrize("path", FILES)
def test_checksums_are_those_of_the_published_files(path, tmp_path):
    skip_without([path])
    resolve_file(FILES[path], Path(DATA_DIR), tmp_path)
    assert not list(tmp_path.iterdir())  # found, not downloaded


@needs_data
@pytest.mark.parametrize("name", PAIRS)
def test_both_sides_of_each_file_have_the_published_number_of_lines(name, tmp_path):
    files = named_files(TASKS[name].data)
    skip_without(path for sides in files.values() for names in sides for path in names)
    for split, sides in files.items():
        for names in sides:
            paths = [find_file(path, TASKS[name], Path(DATA_DIR), tmp_path) for path in names]
            assert [sum(1 for _ in byte_lines(path)) for path in paths] == PAIRS[name][split]


def test_extra_tests_of_one_name_are_told_apart_by_their_folders():
    def names(*stems):
        return list(named_files(dataclasses.replace(data, extra_tests=stems)))[3:]

    data = TASKS["general_ende"].data
    assert names("wmt/newstest2013") == ["newstest2013"]
    stems = ("tatoeba_ende/dev", "libreoffice_ende/dev", "a/b")
    assert names(*stems) == ["tatoeba_ende-dev", "libreoffice_ende-dev", "b"]
    with pytest.raises(UserError, match="already called test"):
        names("a/test")
    with pytest.raises(UserError, match="already called a-dev"):
        names("a/dev", "a/dev")
