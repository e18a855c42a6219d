"""Rows are the paper's: labels, parameters, budgets, and one run for equal settings."""

import argparse
import contextlib
import dataclasses
import itertools
import shlex
import types

import pytest
import tensorflow as tf

from dtmt_tf.config import TrainingConfig
from dtmt_tf.errors import UserError
from dtmt_tf.files import write_json
from dtmt_tf.tasks import TASKS
from pipelines.papers import PAPERS, costs, jobs, records, report, reproduce
from pipelines.papers.dtmt import PAPER, TABLES
from pipelines.papers.paper import Paper, Row, Table
from tests.models.test_parameter_counts import config_of
from tests.test_documents import ALL

TABLE_3 = {  # cells and depths, whose parameters tests/models/test_parameter_counts.py counts
    "ShallowRNMT: GRU": ("gru", 0),
    "ShallowRNMT: LAU": ("lau", 0),
    "ShallowRNMT: L-GRU": ("lgru", 0),
    "DTMT#1: GRU + T-GRU": ("gru", 1),
    "DTMT#1: LAU + T-GRU": ("lau", 1),
    "DTMT#1: L-GRU + T-GRU": ("lgru", 1),
    "DTMT#4: GRU + T-GRUs": ("gru", 4),
    "DTMT#4: LAU + T-GRUs": ("lau", 4),
    "DTMT#4: L-GRU + T-GRUs": ("lgru", 4),
}


def arguments(task="multi30k_ende", preset="small", max_steps=3300, **others):
    given = {"paper": "dtmt", "task": task, "preset": preset, "max_steps": max_steps, "set": [],
             "begin_with": "", "precision": None, "recipe": ""}  # fmt: skip
    return argparse.Namespace(**(given | others))


def experiment(row, **options):
    return jobs.make_job(arguments(**options), row, 1).experiment


def paper_size(row):
    return experiment(row, task="wmt14_ende", preset="paper").model


@pytest.mark.parametrize(("row", "label"), [(k, v[0]) for k, v in TABLES["3"].rows.items()])
def test_models_of_table_3(row, label):
    assert paper_size(row) == config_of(*TABLE_3[label])


def test_models_of_the_ablations():
    whole = config_of("lgru", 4)
    assert paper_size("lgru2") == config_of("lgru", 2)
    assert paper_size("lgru4-no_signal") == dataclasses.replace(whole, use_positional_signal=False)
    for module in ("encoder", "query", "decoder"):  # a GRU alone
        shallow = {f"{module}_cell": "gru", f"{module}_depth": 0}
        assert paper_size(f"lgru4-shallow_{module}") == dataclasses.replace(whole, **shallow)


@pytest.mark.parametrize("error", [MemoryError(), tf.errors.ResourceExhaustedError(None, None, "")])
def test_a_row_too_large_for_memory_is_left_open_and_the_next_is_measured(
    monkeypatch, capsys, error
):
    class Update:
        def __init__(self, step, *_):
            self.units = step.model.units

        def seconds(self):
            if self.units == 512:
                raise error
            return 2.0

    def training_step(experiment, _):
        return types.SimpleNamespace(model=experiment.model, slices=1)

    monkeypatch.setattr(costs, "elsewhere", lambda function, experiment: function(experiment))
    monkeypatch.setattr(costs, "RandomUpdate", Update)
    monkeypatch.setattr(costs, "training_step", training_step)
    sizes = ([f"model.units={n}", f"model.embedding_dim={n}"] for n in (512, 64))
    large, small = (experiment("gru0", set=size) for size in sizes)
    costs.show({"gru0": large, "lgru0": small}, PAPER.rows, 1)
    first, second = capsys.readouterr().out.splitlines()[1:3]
    assert first.split()[-2:] == ["-", "-"] and second.split()[-2:] == ["2.00", "1.83"]
    costs.show({"gru0": small, "lgru0": small}, PAPER.rows, 2)
    assert capsys.readouterr().out.splitlines()[3].split() == ["all,", "all", "seeds", "7.33"]
    rows = {"a": Row(), "t": Row(time_of="a"), "w": Row(weights_of="a")}
    seconds = iter((2.0, 4.0, 4.0))
    monkeypatch.setattr(costs, "_seconds", lambda _: next(seconds))
    costs.show(dict.fromkeys(rows, small), rows, 1)
    same_minutes, same_weights = capsys.readouterr().out.splitlines()[2:4]
    assert same_minutes.split()[2:] == ["1,650", "4.00", "1.83"]
    assert same_weights.split()[2:] == ["0", "4.00", "0.00"]


def test_the_small_transformer_has_the_parameters_of_the_small_dtmt4():
    transformer, dtmt = (costs._parameters(experiment(row)) for row in ("transformer", "lgru4"))
    assert abs(transformer / dtmt - 1) < 0.001


def test_the_small_transformer_alone_has_rates_of_its_own():
    small, large = (experiment("transformer", preset=preset) for preset in ("small", "paper"))
    dtmt = experiment("lgru4").training
    assert small.model.pre_norm and not large.model.pre_norm
    assert (small.training.learning_rate, small.training.output_dropout_rate) == (2.5e-4, 0)
    assert dtmt == experiment("lgru4", preset="paper").training
    vaswani = TASKS["wmt14_ende_big"].training
    differ = {
        item.name
        for item in dataclasses.fields(vaswani)
        if getattr(large.training, item.name) != getattr(dtmt, item.name)
    }
    assert {"schedule", "peak_learning_rate", "adam_epsilon", "candidate_dropout_rate"} <= differ
    assert all(getattr(large.training, name) == getattr(vaswani, name) for name in differ)


def test_small_rows_differ_in_what_they_say():
    base, other = experiment("lgru4").model, experiment("lgru4-shallow_query").model
    assert (base.units, base.initializer_range) == (256, 0.1)
    assert other == dataclasses.replace(base, query_cell="gru", query_depth=0)
    assert experiment("lgru0-no_signal").model == dataclasses.replace(
        base, encoder_depth=0, query_depth=0, decoder_depth=0, use_positional_signal=False
    )


def test_without_advanced_techniques_nothing_of_them_is_left():
    with_, without = experiment("gru4"), experiment("gru4-plain")
    assert without.model == dataclasses.replace(
        with_.model, use_layer_norm=False, use_positional_signal=False, num_heads=1
    )
    assert without.training == dataclasses.replace(
        with_.training,
        label_smoothing=0,
        embedding_dropout_rate=0,
        output_dropout_rate=0,
        candidate_dropout_rate=0,
    )


def test_tables_name_rows_that_exist_and_compare_their_own():
    for paper in PAPERS.values():
        for table in (*paper.tables.values(), *paper.figures.values()):
            assert set(table.rows) <= set(paper.rows)
            assert {row for pair in table.pairs for row in pair} <= set(table.rows)
        for row in paper.rows.values():
            assert {row.time_of, row.speed_of, row.weights_of} - {""} <= set(paper.rows)
            assert (row.family or paper.family) in paper.families
        assert all(set(presets) <= set(paper.presets) for presets in paper.families.values())
    assert len(TABLES["6"].rows) == 12
    assert TABLES["2"].rows["lgru1"] == ("DTMT#1", 27.92) and TABLES["2"].tasks == ("wmt14_ende",)
    french = TABLES["2-french"]
    assert (french.rows["lgru4"], french.tasks) == (("DTMT#4", 42.02), ("wmt14_enfr",))
    assert TABLES["6"].rows["lgru3"] == ("DTMT#3", 44.70)
    assert TABLES["6"].rows["lgru3-no_signal"] == ("DTMT#3, no signal", 44.61)


def test_a_budget_keeps_the_shape_of_the_schedule():
    whole = jobs.shared_training(PAPER, "multi30k_ende")
    half = experiment("gru0", max_steps=whole.max_steps // 2).training
    for name in ("max_steps", "schedule_decay_start", "schedule_decay_end", "validation_steps"):
        assert getattr(half, name) == getattr(whole, name) // 2
    assert (half.schedule_warmup, half.patience) == (whole.schedule_warmup, 0)
    tiny = experiment("gru0", max_steps=2).training
    assert tiny.validation_steps == 1


def test_a_recipe_is_another_budget_of_the_same_rows():
    args = arguments(max_steps=2700, recipe="short")
    job = jobs.make_job(args, "lgru1", 1)
    training = job.experiment.training
    assert (training.schedule_decay_start, training.schedule_decay_end) == (10_800, 26_150)
    half = jobs.make_job(arguments(max_steps=1350, recipe="short"), "lgru1", 1).experiment.training
    assert (half.schedule_decay_end, half.embedding_dropout_rate) == (13_075, 0.1)
    deep = jobs.make_job(
        arguments(paper="deep_architectures", max_steps=2700), "dtmt1", 1
    ).experiment
    assert training == deep.training  # one recipe, so that rows of both papers compare
    assert job.name != jobs.make_job(arguments(max_steps=2700), "lgru1", 1).name
    assert jobs.series(args)["recipe"] == "short" and "recipe" not in jobs.series(arguments())
    with pytest.raises(UserError, match="no recipe 'short' of cldr_ende. There is short of multi3"):
        jobs.make_job(arguments("cldr_ende", max_steps=10, recipe="short"), "lgru1", 1)


@pytest.mark.parametrize(("steps", "interval"), [(24_720, 1648), (12_361, 825), (2, 1)])
def test_validations_are_as_far_apart_as_those_of_all_updates(steps, interval):
    assert experiment("gru0", max_steps=steps).training.validation_steps == interval


def test_the_published_rows_are_known_whatever_the_task_recommends():
    for row in ("gru0", "lgru4", "transformer"):
        job = jobs.make_job(arguments(max_steps=1650), row, 1)
        assert (records.RECORDS / job.record).exists()
        assert job.experiment.training.label_smoothing == 0.1
    other = experiment("gru0", task="multi30k_ende_tok").training
    assert other.label_smoothing == TASKS["multi30k_ende_tok"].training.label_smoothing


def test_the_precision_of_a_processor_makes_no_other_row():
    row, here = (jobs.make_job(arguments(precision=kind), "lgru1", 1) for kind in (None, "float32"))
    assert (here.name, here.origins["training.precision"]) == (row.name, "--set")
    assert row.experiment.training.precision == "bfloat16"
    training = dataclasses.replace(row.experiment.training, precision="float32")
    assert here.experiment == dataclasses.replace(row.experiment, training=training)
    assert jobs.series(arguments(precision="float32")) == jobs.series(arguments())


def test_a_series_is_known_by_the_settings_its_rows_share():
    def hash_(**options):
        return jobs.series(arguments(**options))["hash"]

    assert hash_() == records.settings_hash(experiment("lgru1"))  # dtmt_small as it is
    assert len({hash_(), hash_(max_steps=1650), hash_(set=["training.clip_norm=1"]),
                hash_(preset="paper"), hash_(task="multi30k_ende_tok")}) == 5  # fmt: skip


def test_settings_of_all_rows_reach_the_transformer():
    settings = ["model.tied_embeddings=none", "model.num_heads=4"]
    for row in ("lgru1", "transformer"):
        model = experiment(row, set=settings).model
        assert (model.tied_embeddings, model.num_heads) == ("none", 4)


def test_settings_of_all_rows_come_before_those_of_the_row():
    job = experiment("lgru1", set=["model.encoder_depth=3", "training.clip_norm=1"])
    assert job.model.encoder_depth == 1
    assert job.training.clip_norm == 1


def test_a_name_depends_on_all_settings_but_the_seed():
    def name(row="gru0", seed=1, **options):
        return jobs.make_job(arguments(**options), row, seed).name

    base, other = name(), name(seed=2)
    assert base.removesuffix("seed1") == other.removesuffix("seed2")
    assert len({base, name(max_steps=1650), name(set=["decoding.beam_size=5"]),
                name(task="multi30k_ende_tok"), name("gru1")}) == 5  # fmt: skip


def test_a_setting_more_in_a_new_version_keeps_the_hash():
    @dataclasses.dataclass(frozen=True)
    class Newer(TrainingConfig):
        new: int = 0

    old = experiment("gru0")
    values = dataclasses.asdict(old.training)
    newer = dataclasses.replace(old, training=Newer(**values))
    other = dataclasses.replace(old, training=Newer(**values, new=1))
    assert records.settings_hash(newer) == records.settings_hash(old)
    assert records.settings_hash(other) != records.settings_hash(old)


def test_the_row_of_equal_time_makes_the_updates_that_fit(tmp_path):
    args = arguments(records=tmp_path, output_dir=tmp_path / "models")

    def write(row, updates, seconds, threads=1, **changed):
        record = {
            "updates": updates,
            "seconds_in_updates": seconds,
            "machine": {"threads": threads},
            "changed_settings": changed,
        }
        write_json(tmp_path / jobs.make_job(args, row, 1).record, record)

    with pytest.raises(UserError, match="--rows lgru4"):
        jobs.make_job(args, "transformer-same_time", 1, timed=True)
    write("lgru4", 3300, 6000.0)
    write("transformer", 3300, 2000.0)
    job = jobs.make_job(args, "transformer-same_time", 1, timed=True)
    assert job.experiment.training.max_steps == 9900
    assert job.experiment.training.schedule_decay_end == 3 * 26_400
    write("transformer", 3300, 2000.0, **{"training.precision": "float32"})
    with pytest.raises(UserError, match="differ in training.precision"):
        jobs.make_job(args, "transformer-same_time", 1, timed=True)
    write("transformer", 3300, 2000.0, threads=2)
    with pytest.raises(UserError, match="different machines(.|\n)*models/multi30k_ende, then run"):
        jobs.make_job(args, "transformer-same_time", 1, timed=True)


def chosen(*tables, **changes):
    args = {"paper": "dtmt", "table": tables, "figure": [], "rows": [], "preset": "small"}
    return reproduce._rows(argparse.Namespace(**args | changes))


def test_rows_that_wait_for_others_come_last():
    rows = chosen("1", "3")
    assert rows[-1] == "transformer-same_time"
    assert len(rows) == len(set(rows)) == 13


def test_rates_searched_for_the_small_transformer_are_not_offered_to_the_large_one():
    small = {"transformer-searched", "transformer-light"}
    assert set(chosen("1")) - set(chosen("1", preset="paper")) == small
    with pytest.raises(UserError, match="Unknown row 'transformer-searched'"):
        chosen("1", preset="paper", rows=["transformer-searched"])


RECORDED = [record for record in records.read_records(records.RECORDS) if record["row"]]


@pytest.mark.parametrize("record", RECORDED, ids=lambda record: record["name"])
def test_a_recorded_row_is_found_by_the_command_that_made_it(record):
    (paper,) = (paper for paper in PAPERS.values() if records.is_of(record, paper))
    series = record["series"]
    args = arguments(
        *(record["task"], series["preset"], series["max_steps"]),
        **{"set": series["set"], "begin_with": series.get("begin_with", "")},
        **{"recipe": series.get("recipe", "")},
        **{"paper": paper.name, "records": records.RECORDS},
    )
    job = jobs.make_job(args, record["row"], record["seed"], timed=True)
    assert (records.RECORDS / job.record).exists()
    assert job.name == record["name"]
    assert jobs.series(args)["hash"] == series["hash"]


def test_each_recorded_row_has_a_command_on_a_page():
    told = set()
    for _, script, words in ALL:
        if script != "reproduce" or "--plan" in words:
            continue
        args = reproduce._parser().parse_args(shlex.split(words))
        paper = PAPERS[args.paper]
        for task, tables in paper.by_task(args.table, args.task).items():
            of_task = argparse.Namespace(**{**vars(args), "task": task, "table": tables})
            whole = jobs.shared_training(paper, task, args.recipe).max_steps
            of_task.max_steps = args.max_steps or whole
            for row, seed in itertools.product(reproduce._rows(of_task), args.seeds):
                with contextlib.suppress(UserError):  # the minutes that it follows from are unknown
                    told.add(jobs.make_job(of_task, row, seed, timed=True).record)
    assert {f"{record['task']}-{record['name']}.json" for record in RECORDED} <= told


OTHER = Paper(
    name="other",
    title="Another paper",
    task="multi30k_ende_tok",
    families={"deep": {"small": ("dtmt_small", ("model.num_heads=4",))}},
    rows={"gru0": Row(("model.encoder_depth=0",)), "new": Row(())},
    tables={"2": Table("New", {"new": ("New", 1.0), "gru0": ("Old", None)}, (("gru0", "new"),))},
    prefix="other-",
)


def test_another_paper_is_one_value(monkeypatch):
    monkeypatch.setitem(PAPERS, "other", OTHER)
    args = arguments("multi30k_ende_tok", paper="other")
    job = jobs.make_job(args, "new", 3)
    assert job.experiment.model.num_heads == 4
    assert job.record == f"multi30k_ende_tok-other-new-{jobs.series(args)['hash']}-seed3.json"
    assert jobs.series(args)["paper"] == "other"
    ours = next(record for record in RECORDED if record["row"] == "gru0")
    theirs = {**ours, "name": "theirs", "series": {**ours["series"], "paper": "other"}}
    pages = [report.sections([ours, theirs], paper) for paper in (PAPER, OTHER)]
    assert {"dtmt table 3", "dtmt figure 3"} < set(pages[0]) and set(pages[1]) == {"other table 2"}
    assert "| Old |" in pages[1]["other table 2"] and "| Old |" not in pages[0]["dtmt table 3"]
    assert OTHER.page == "OTHER.md"
    assert [records.is_of(theirs, paper) for paper in (PAPER, OTHER)] == [False, True]


def test_a_table_that_a_paper_has_not_is_refused(monkeypatch):
    monkeypatch.setitem(PAPERS, "other", OTHER)
    asked = argparse.Namespace(paper="other", table=["3"], figure=[], rows=[], preset="small")
    with pytest.raises(UserError, match="other has no table 3 here. Choose from 2"):
        reproduce._rows(asked)
    asked = argparse.Namespace(paper="other", table=[], figure=["3"], rows=[], preset="small")
    with pytest.raises(UserError, match="other has no figure 3 here. Choose from none"):
        reproduce._rows(asked)
