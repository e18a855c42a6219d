"""`dtmt train --train a.en a.de --from en --to de`: the settings are sized, told and kept."""

import json
import re
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
import yaml

import dtmt_tf.runs
from dtmt_tf import startup
from dtmt_tf.commands import prepare, train
from dtmt_tf.errors import UserError
from dtmt_tf.experiment import read_settings
from dtmt_tf.runs.former import ASIDE

PAIRS = 200
OWN = ["--train", "a.en", "a.de", "--from", "en", "--to", "de"]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A folder with text of the user's own, and a cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("DTMT_DATA_DIR", raising=False)
    monkeypatch.chdir(tmp_path)
    write("a", PAIRS)
    write("b", 10)
    return tmp_path


def write(name, pairs):
    for side in ("en", "de"):
        with open(f"{name}.{side}", "w") as file:
            file.writelines(f"line {number} in {side} .\n" for number in range(pairs))


def shown(capsys, *arguments):
    """What `--show-config` prints: values by setting, and what stands behind each."""
    assert train.command([*arguments, "--output-dir", "runs", "--show-config"]) == 0
    text = capsys.readouterr().out
    values = yaml.safe_load(text)
    flat = {f"{s}.{k}": v for s, d in values.items() if isinstance(d, dict) for k, v in d.items()}
    rows = [line.strip().partition(":") for line in text.splitlines() if ":" in line]
    return {**values, **flat}, {name: rest.partition("  # ")[2] for name, _, rest in rows}


def refused(*arguments):
    with pytest.raises(UserError) as error:
        train.command([*arguments, "--output-dir", "runs", "--show-config"])
    return str(error.value)


def begun(capsys, *arguments):
    """A run that has begun under these arguments, `experiment.json` as training writes it."""
    from dtmt_tf.commands import own_text
    from dtmt_tf.experiment import to_dict

    kept = {}

    def keep(args, sized=own_text.experiment):
        kept["experiment"], kept["origins"] = found = sized(args)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(own_text, "experiment", keep)
        shown(capsys, *arguments)
    return {"settings": to_dict(kept["experiment"]), "origins": kept["origins"]}


def save(record, folder):
    (folder / "train/checkpoints").mkdir(parents=True)
    (folder / "train/checkpoints/step-00000010.npz").write_bytes(b"")
    (folder / "train/experiment.json").write_text(json.dumps(record))


def test_files_and_languages_suffice_and_each_value_says_why(capsys):
    values, why = shown(capsys, *OWN, "--dev", "b.en", "b.de", "--test", "b.en", "b.de")
    assert values["task"] == "custom" and values["model_name"] == "dtmt_tiny"
    assert values["data.train_source"] == ["a.en"] and values["data.test_target"] == ["b.de"]
    assert values["data.target_language"] == "de" and why["target_language"] == "--to"
    assert values["data.held_out"] == 0 and why["validation_target"] == "--dev"
    assert values["training.max_steps"] < 2000 and values["training.schedule"] == "peak"
    assert why["model_name"] == "sized: 128 units for 1,000 words"
    assert why["max_steps"].startswith("sized: ") and "epochs" in why["max_steps"]
    assert why["seed"] == "default"


def test_what_is_sized_fits_80_columns_and_can_be_copied(capsys, monkeypatch):
    from dtmt_tf.commands import own_text

    told = []
    with monkeypatch.context() as patch:
        sized = own_text.experiment
        patch.setattr(own_text, "experiment", lambda args: told.append(sized(args)) or told[0])
        shown(capsys, *OWN)
    rows = own_text.table(*told[0]).splitlines()
    assert max(map(len, rows)) <= 80
    assert "  data.filters=identical,length_ratio,script  drop pairs of equal sides, unlike" in rows
    copied = [row.split()[0] for row in rows if row[2] != " " and not row.startswith("  model_n")]
    values, why = shown(capsys, *OWN, "--set", *copied)
    assert values["data.held_out"] == 20 and why["held_out"] == "--set"


def test_several_files_are_read_and_pairs_held_out_without_dev(capsys):
    values, why = shown(capsys, *OWN, "--train", "b.en", "b.de")
    assert values["data.train_source"] == ["a.en", "b.en"]
    assert values["data.train_target"] == ["a.de", "b.de"]
    assert values["data.held_out"] == (PAIRS + 10) // 10
    assert why["held_out"] == "sized: a tenth of the pairs, at most 1,000, as no --dev is given"


def test_set_and_config_win(capsys, here):
    (here / "run.yaml").write_text(
        "training: {max_steps: 70, seed: 3}\ndata.source_language: fr\nmodel_name: dtmt_small\n"
    )
    given = "--config", "run.yaml", "--set", "training.seed=5", "data.max_length=33"
    values, why = shown(capsys, *OWN, *given)
    assert values["training.max_steps"] == 70 and why["max_steps"] == "run.yaml"
    assert values["training.warmup_updates"] == 3
    assert values["training.seed"] == 5 and values["data.max_length"] == 33
    assert values["data.source_language"] == "en"  # an option comes before a file
    assert values["model_name"] == "dtmt_small" and why["model_name"] == ""
    assert shown(capsys, *OWN, "--model", "dtmt_tied")[0]["model_name"] == "dtmt_tied"


def test_what_is_shown_makes_the_same_settings_again(capsys, here):
    args = [*OWN, "--dev", "b.en", "b.de", "--set", "data.reverse=true"]
    first = shown(capsys, *args)[0]
    assert train.command([*args, "--show-config"]) == 0
    (here / "run.yaml").write_text(capsys.readouterr().out)
    assert shown(capsys, "--config", "run.yaml")[0] == first


@pytest.mark.parametrize("more", [[], ["data.reverse=true", "data.joint_vocabulary=false",
                                       "data.source_vocab_size=77"]])  # fmt: skip
def test_a_run_that_has_begun_keeps_its_sizes_though_the_text_grows(capsys, here, more):
    args = [*OWN, "--name", "mine", *(["--set", *more] if more else [])]
    record = begun(capsys, *args)
    save(record, here / "runs/custom/mine")
    before = shown(capsys, *args)
    write("a", 100 * PAIRS)
    assert shown(capsys, *args) == before
    assert begun(capsys, *args) == record
    anew = shown(capsys, *args, "--restart")[0]
    assert anew["training.max_steps"] > 2 * before[0]["training.max_steps"]
    other = shown(capsys, *args[:-1], "x" if not more else args[-1])[0]
    assert (other["training.max_steps"] == anew["training.max_steps"]) is not bool(more)


def test_a_run_keeps_what_one_of_its_trainings_was_set_to(capsys, here):
    args = [*OWN, "--name", "mine"]
    longer = ["--set", "training.max_steps=3000", "training.patience=0"]
    save(begun(capsys, *args, *longer), here / "runs/custom/mine")
    values, why = shown(capsys, *args)
    assert values == shown(capsys, *args, *longer)[0]
    assert (values["training.max_steps"], values["training.patience"]) == (3000, 0)
    assert why["max_steps"] == "sized: what this run was set to"


@pytest.mark.parametrize(
    "more",
    [
        {"decay_end_updates": 3000},
        {"peak_learning_rate": 3e-5},
        {"warmup_updates": 700, "decay_start_updates": 900},
    ],
)
def test_the_sized_schedule_may_be_named(capsys, here, more):
    given = [f"training.{name}={value}" for name, value in more.items()]
    values, why = shown(capsys, *OWN, "--set", *given)
    named = shown(capsys, *OWN, "--set", "training.schedule=peak", *given)
    assert named == (values, {**why, "schedule": "--set"})
    (here / "run.yaml").write_text(json.dumps({"training": {"schedule": "peak", **more}}))
    assert shown(capsys, *OWN, "--config", "run.yaml")[0] == values
    with pytest.raises(UserError, match="Received: 99, 98 and "):
        shown(capsys, *OWN, "--set", "training.schedule=peak", "training.warmup_updates=99",
              "training.decay_start_updates=98")  # fmt: skip


def test_a_run_that_was_begun_with_dev_files_asks_for_them(capsys, here):
    dev = ["--dev", "b.en", "b.de"]
    save(begun(capsys, *OWN, *dev, "--name", "mine"), here / "runs/custom/mine")
    mine = [*OWN, "--name", "mine", "--output-dir", "runs"]

    class Begins(Exception):
        """What a run would raise here."""

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dtmt_tf.runs, "Run", Mock(side_effect=Begins))
        with pytest.raises(UserError, match="mine was begun with --dev b.en b.de. Give that again"):
            train.command(mine)
        for more in (dev, ["--restart"], ["--set", "data.validation_source=b.en"]):
            with pytest.raises(Begins):
                train.command([*mine, *more])


def test_a_run_that_has_not_begun_or_is_damaged_is_sized(capsys, here):
    args = [*OWN, "--name", "mine"]
    save(begun(capsys, *args), here / "runs/custom/mine")
    former = shown(capsys, *args)
    write("a", 100 * PAIRS)
    (here / "runs/custom/mine/train/experiment.json").write_text("{")
    assert shown(capsys, *args) != former


def test_a_run_without_a_name_has_that_of_its_languages(capsys, here):
    save(begun(capsys, *OWN), here / "runs/custom/en-de")
    before = shown(capsys, *OWN)
    write("a", 100 * PAIRS)
    assert shown(capsys, *OWN) == before
    assert read_settings(here / "runs/custom/en-de/train/experiment.json")
    run = here / "runs/custom/en-de"
    (run / "train").rename(run / ASIDE)  # as where a `--restart` is killed, then
    (run / "train").mkdir()
    assert shown(capsys, *OWN) == before


def test_a_run_begins_with_the_preset_of_another(capsys, here):
    other = begun(capsys, *OWN, "--model", "dtmt_small")
    save(other, here / "runs/custom/general")
    values, why = shown(capsys, *OWN, "--init-from", "general", "--name", "captions")
    assert values["model_name"] == "dtmt_small"
    assert why["model_name"] == "sized: that of --init-from general"
    assert why["num_heads"] == "model dtmt_small" and why["byte_fallback"] == "default"


@pytest.mark.parametrize("turned", [[], ["data.reverse=true"]], ids=str)
def test_a_run_that_begins_with_another_is_shown_with_its_sub_words(capsys, here, turned):
    sizes = [
        "data.joint_vocabulary=false",
        "data.source_vocab_size=70",
        "data.target_vocab_size=60",
    ]
    save(begun(capsys, *OWN, "--set", *sizes, *turned), here / "runs/custom/x")
    args = [*OWN, "--init-from", "x", "--name", "y", "--set", "data.max_length=9", *turned]
    record = begun(capsys, *args)["settings"]["data"]
    found = record["source_vocab_size"], record["target_vocab_size"]
    assert found == ((60, 70) if turned else (70, 60))
    values, why = shown(capsys, *args)
    assert values["data.target_vocab_size"] == 60  # as it is given
    assert why["source_vocab_size"] == "sized: that of --init-from x"


def test_a_run_cuts_rare_characters_as_the_one_that_it_begins_with(capsys, here):
    save(begun(capsys, *OWN, "--model", "dtmt_small"), here / "runs/custom/x")
    characters = "".join(map(chr, range(0x4E00, 0x4E00 + 10 * PAIRS)))
    Path("a.de").write_text("".join(f"{characters[k::PAIRS]}\n" for k in range(PAIRS)))
    assert shown(capsys, *OWN, "--name", "y")[0]["data.character_coverage"] == 0.9995
    values, why = shown(capsys, *OWN, "--name", "y", "--init-from", "x")
    assert values["data.character_coverage"] == 1.0
    assert why["character_coverage"] == "sized: that of --init-from x"


def test_a_plan_counts_the_sub_words_of_the_run_that_it_begins_with(capsys, here, monkeypatch):
    sizes = [
        "data.joint_vocabulary=false",
        "data.source_vocab_size=70",
        "data.target_vocab_size=60",
    ]
    save(
        begun(capsys, *OWN, "--set", "data.joint_vocabulary=false", *sizes), here / "runs/custom/x"
    )
    planned = []
    described = lambda experiment, _: planned.append(experiment.data) or Mock()  # noqa: E731
    monkeypatch.setattr("dtmt_tf.planning.dry_run.described", described)
    task = ["--task", "multi30k_ende", "--name", "y", "--output-dir", "runs", "--dry-run"]
    assert train.command([*task, "--init-from", "custom/x"]) == 0
    assert (planned[0].source_vocab_size, planned[0].target_vocab_size) == (70, 60)
    with pytest.raises(UserError, match="--init-from custom/z: .*z is no run's folder"):
        train.command([*task, "--init-from", "custom/z"])


def test_another_runs_settings_tell_what_it_began_with(capsys, here, caplog):
    record = begun(capsys, *OWN) | {"init_from": {"run": "custom/base"}}
    save(record, here / "runs/custom/x")
    again = ["--config", "runs/custom/x", "--name", "y"]
    shown(capsys, *again)
    assert (
        "run x began with the weights of another run. To do the same: --init-from custom/base"
        in (caplog.text)
    )
    caplog.clear()
    save(begun(capsys, *OWN), here / "runs/custom/base")
    shown(capsys, *again, "--init-from", "custom/base")
    assert "began with" not in caplog.text


def test_a_run_begins_with_the_changed_settings_of_another(capsys, here):
    changed = ["model.num_heads=2", "data.reserved_symbols=<a>,<b>", "data.byte_fallback=true"]
    save(begun(capsys, *OWN, "--model", "dtmt_small", "--set", *changed), here / "runs/custom/x")
    args = [*OWN, "--init-from", "x", "--name", "y"]
    values, why = shown(capsys, *args, "--set", "data.byte_fallback=false")
    assert (values["model.num_heads"], values["data.reserved_symbols"]) == (2, ["<a>", "<b>"])
    assert why["num_heads"] == why["reserved_symbols"] == "sized: that of --init-from x"
    assert values["data.byte_fallback"] is False  # which training refuses
    values, why = shown(capsys, *args, "--model", "dtmt_tiny")
    assert (values["model_name"], values["model.num_heads"]) == ("dtmt_tiny", 4)
    assert values["data.byte_fallback"] is True
    save(begun(capsys, *args), here / "runs/custom/y")
    values, _ = shown(capsys, *args, "--model", "transformer_tiny")  # which training refuses
    assert (values["model_name"], values["model.num_heads"]) == ("transformer_tiny", 4)


@pytest.mark.parametrize(
    ("arguments", "pieces"),
    [
        (["--dev", "b.en", "b.de"], ["--dev goes with --train SOURCE TARGET"]),
        (["--to", "de"], ["--to goes with --train"]),
        (OWN[:-2], ["--to is missing", "a.de"]),
        (["--train", "a.en", "a.de", "--to", "de"], ["--from is missing", "a.en"]),
        ([*OWN[:-1], "xx"], ["data.target_language", "'xx'"]),
        ([*OWN[:-1], "German"], ["Did you mean 'de'?"]),
        ([*OWN, "--task", "multi30k_ende"], ["--task names 'multi30k_ende'", "text of your own"]),
        (["--train", "a.en", "b.de", *OWN[3:]], ["a.en has 200 lines and b.de 10"]),
        (["--train", "a.en", "no.de", *OWN[3:]], ["no.de was not found"]),
        ([*OWN, "--set", "data.train_source=a.en,b.en"], ["as many files. Received: a.en, b.en"]),
        (["--train", "empty", "empty", *OWN[3:]], ["empty and empty are empty"]),
        (["--train", "blank", "blank", *OWN[3:]], ["blank, blank hold no words"]),
        ([*OWN, "--model", "dtmt5"], ["Unknown model 'dtmt5'"]),
        ([*OWN, "--set", "training.learning_rate=1"], ["training.schedule=dtmt"]),
        ([*OWN, "--name", "a/b"], ["plain name"]),
    ],
    ids=lambda value: " ".join(value),
)
def test_mistakes_are_told_before_any_work(here, arguments, pieces):
    (here / "empty").write_bytes(b"")
    (here / "blank").write_bytes(b"\n \n")
    said = refused(*arguments)
    for piece in pieces:
        assert piece in said


def test_text_is_not_written_over_what_is_read(here):
    text = here / "captions"
    text.mkdir()
    for side, name in (("en", "train.source"), ("de", "train.target")):
        (here / f"a.{side}").rename(text / name)
    before = (text / "train.source").read_bytes()
    languages = ["--from", "en", "--to", "de", "--text"]
    named = ["--train", "captions/train.source", "captions/train.target", *languages]
    below = ["--data-dir", "captions", "--train", "train.source", "train.target", *languages]
    for arguments in ([*named, "captions"], [*named, str(text)], [*below, "captions"]):
        with pytest.raises(UserError, match="would write over captions/train.source, which is"):
            prepare.command(arguments)
    assert len([*text.iterdir()]) == 2 and (text / "train.source").read_bytes() == before
    assert prepare.command([*named, "split"]) == 0
    assert (here / "split" / "validation.target").read_text().startswith("line 9 in de")


# in a process of its own: that of the tests has long started its devices
ON_WORKERS = """
import sys
from dtmt_tf import startup
with startup.without(startup.UNUSED), startup.kept():
    import tensorflow as tf
from dtmt_tf.commands import train

assert train.command(sys.argv[1:]) == 0
tf.config.threading.set_inter_op_parallelism_threads(7)  # raises once devices are started
"""


def test_sizing_leaves_devices_to_the_strategy_of_several_workers(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", startup.CLUSTER_EXAMPLE)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    command = [sys.executable, "-c", ON_WORKERS, *OWN, "--show-config"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.search("max_steps: .* epochs of about .* updates, 2 devices", done.stdout)


def test_sizes_count_the_devices(capsys):
    alone = shown(capsys, *OWN)[0]
    both, why = shown(capsys, *OWN, "--devices", "CPU:0", "CPU:1")
    assert both["data.max_tokens_per_batch"] == alone["data.max_tokens_per_batch"] == 640
    assert both["training.peak_learning_rate"] < alone["training.peak_learning_rate"]
    assert why["peak_learning_rate"] == "sized: updates of 1,280 tokens"


def test_a_file_that_names_another_task_is_refused_unless_custom_is_asked_for(here, capsys):
    (here / "run.yaml").write_text("task: multi30k_ende\n")
    assert "--config names 'multi30k_ende'" in refused(*OWN, "--config", "run.yaml")
    values, _ = shown(capsys, *OWN, "--config", "run.yaml", "--task", "custom")
    assert values["task"] == "custom"
