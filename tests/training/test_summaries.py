"""What TensorBoard shows, in which order, and what trackers are told."""

import dataclasses
from types import SimpleNamespace

import markdown
import numpy as np
import pytest
import tensorflow as tf
from matplotlib.figure import Figure
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import metadata

from dtmt_tf.config import TrainingConfig
from dtmt_tf.models import MODELS
from dtmt_tf.training import Summaries
from dtmt_tf.training.summaries import LONG, _escape, attention_image

CELLS = {f"{module}_cell": "lau" for module in ("encoder", "query", "decoder")}


@pytest.mark.parametrize(
    ("config", "modules", "depths"),
    [
        (MODELS["shallow_rnmt"], "forward backward query transition", ["gru"]),
        (MODELS["dtmt2"], "forward backward query transition", ["lgru", "tgru_1", "tgru_2"]),
        (
            dataclasses.replace(MODELS["dtmt1"], **CELLS),
            "forward backward query transition",
            ["lau", "tgru_1"],
        ),
        (MODELS["transformer_tiny"], "encoder decoder", [f"layer_{k}" for k in (1, 2, 3, 4)]),
    ],
    ids=["gru", "lgru", "lau", "transformer"],
)
def test_every_depth_of_every_module_has_a_norm(tmp_path, config, modules, depths):
    with tf.Graph().as_default():
        model = config.build(10, 10, TrainingConfig())
    summaries = Summaries(tmp_path, model)
    assert set(summaries.depths) == {f"{m}/{d}" for m in modules.split() for d in depths}
    paths = [variable.path for variable in model.trainable_variables]
    for name, members in summaries.depths.items():
        assert len(members) > 2 and all(f"{name}/" in paths[k] for k in members)


def write(summaries):
    """Writes an update, a validation and an inspection of two pairs."""
    norms = tf.range(float(sum(len(each) for each in summaries.depths.values())) + 20)
    update = SimpleNamespace(
        loss=tf.constant(2.5), cross_entropy=tf.constant(0.0), learning_rate=tf.constant(1e-3),
        gradient_norms=norms,
    )  # fmt: skip
    summaries.update(3, update, 900.0)
    scores = {"bleu": 30.0, "chrf": 50.0, "exact_match": 4.0, "cross_entropy": 1.5}
    summaries.validation(3, scores, [("a | b", "c", "d\ne")])
    words = [["▁a", "b"], ["▁c"], ["▁a"], ["▁c", "d"]]
    summaries.inspection(3, {"query/lgru/z": 0.25}, np.full([2, 2, 2], 0.5), words)


@pytest.fixture(scope="module")
def small():
    """A DTMT of a few weights."""
    with tf.Graph().as_default():
        return dataclasses.replace(MODELS["dtmt1"], units=16, embedding_dim=16).build(
            10, 10, TrainingConfig()
        )


def events_of(folder):
    events = EventAccumulator(str(folder))
    events.Reload()
    return events


def test_what_tells_whether_it_goes_well_comes_first_and_gates_last(tmp_path, small):
    summaries = Summaries(tmp_path, small)
    write(summaries)
    events = events_of(tmp_path)
    names = sorted(set(events.Tags()["tensors"]) - {"translations"})
    assert names[:3] == [
        "1 progress/loss",
        "1 progress/validation BLEU",
        "1 progress/validation loss",
    ]
    assert names[-1] == "6 gates/query/lgru/z"
    headings = list(dict.fromkeys(name.partition("/")[0] for name in names))
    assert headings == [
        *("1 progress", "2 validation", "3 training"),
        *("4 attention", "5 gradient norms", "6 gates"),
    ]
    values = {name: float(tf.make_ndarray(events.Tensors(name)[-1].tensor_proto))
              for name in names if "attention" not in name}  # fmt: skip
    assert values["1 progress/validation loss"] == 1.5 and values["2 validation/chrF"] == 50
    assert values["2 validation/exact match"] == 4 and values["6 gates/query/lgru/z"] == 0.25
    assert values["1 progress/loss"] == 2.5 and values["3 training/perplexity"] == 1
    norms = np.arange(sum(map(len, summaries.depths.values())) + 20)
    assert values["3 training/gradient norm"] == pytest.approx(np.linalg.norm(norms))
    for depth, members in summaries.depths.items():
        assert values[f"5 gradient norms/{depth}"] == pytest.approx(np.linalg.norm(norms[members]))
    (row,) = events.Tensors("translations")
    assert rb"| a \| b | c | d e |" in row.tensor_proto.string_val[0]


@pytest.mark.parametrize("text", ["``Yes'' he said", "a\\|b", "a|b", "`", "\\", "a\\`b"])
def test_every_text_is_one_cell_of_the_table_of_translations(text):
    table = f"| a | b |\n| --- | --- |\n| {_escape(text)} | {_escape(text)} |"
    row = markdown.markdown(table, extensions=["tables"]).split("<tr>")[-1]
    assert row.count(f"<td>{text}</td>") == 2


def test_every_name_says_what_it_is(tmp_path, small):
    write(Summaries(tmp_path, small))
    events = events_of(tmp_path)
    for name in events.Tags()["tensors"]:
        assert events.SummaryMetadata(name).summary_description, name
    assert "R-Drop" in events.SummaryMetadata("1 progress/loss").summary_description


def test_settings_and_what_comes_of_them_stand_in_the_tab_of_hyperparameters(tmp_path, small):
    settings = {"task": "toy", "training.seed": 2, "training.label_smoothing": 0.1}
    write(Summaries(tmp_path, small, settings, "toy/mine"))
    content = events_of(tmp_path).summary_metadata
    experiment, session = (
        metadata.parse_experiment_plugin_data(content[tag].plugin_data.content)
        if tag == metadata.EXPERIMENT_TAG
        else metadata.parse_session_start_info_plugin_data(content[tag].plugin_data.content)
        for tag in (metadata.EXPERIMENT_TAG, metadata.SESSION_START_INFO_TAG)
    )
    assert [info.name for info in experiment.hparam_infos] == list(settings)
    shown = {info.display_name: info.name.tag for info in experiment.metric_infos}
    assert shown["validation BLEU"] == "1 progress/validation BLEU" and len(shown) == 3
    assert session.group_name == "toy/mine" and session.hparams["task"].string_value == "toy"
    assert session.hparams["training.seed"].number_value == 2


def test_trackers_are_told_the_same_and_one_that_fails_is_left_out(tmp_path, small, caplog):
    told = []

    def fail(*_):
        told.append("failed")
        raise OSError("the service is away")

    good = SimpleNamespace(
        log=lambda step, values: told.append((step, values)), close=lambda: told.append("closed")
    )
    bad = SimpleNamespace(log=fail, close=fail)
    summaries = Summaries(tmp_path, small)
    summaries.trackers = [bad, good]
    write(summaries)
    summaries.close()
    (first, update, validation, gates, last) = told
    assert (first, last) == ("failed", "closed")
    assert update[0] == 3 and update[1]["1 progress/loss"] == 2.5
    assert {name: type(value) for name, value in update[1].items()}.popitem()[1] is float
    assert validation[1]["1 progress/validation BLEU"] == 30
    assert gates == (3, {"6 gates/query/lgru/z": 0.25})
    assert caplog.text.count("failed (the service is away). Training goes on") == 1


def test_an_attention_map_of_a_long_text_shows_its_beginning():
    words = [f"w{k}" for k in range(400)]
    image = attention_image(np.eye(400), words, words)
    assert np.array_equal(image, attention_image(np.eye(100), words[:100], words[:100]))
    assert max(image.shape) < 2_500


@pytest.mark.parametrize(("length", "sides"), [(LONG - 1, 1), (LONG, 2)])
def test_a_long_attention_map_has_its_labels_on_both_sides(monkeypatch, length, sides):
    drawn = []
    draw = Figure.draw
    monkeypatch.setattr(Figure, "draw", lambda self, *of: (drawn.append(self), draw(self, *of)))
    source = [f"▁wort{k}" for k in range(length)]
    attention_image(np.eye(length), source, source)
    (axes,) = drawn[-1].axes
    for axis in (axes.xaxis, axes.yaxis):
        ticks = axis.get_major_ticks()
        assert [tick.label1.get_text() for tick in ticks] == source
        shown = [(tick.label1.get_visible(), tick.label2.get_visible()) for tick in ticks]
        assert {sum(each) for each in shown} == {sides}
    boxes = [tick.label2.get_window_extent() for tick in axes.xaxis.get_major_ticks()]
    assert all(a.x1 <= b.x0 + 0.5 for a, b in zip(boxes, boxes[1:], strict=False))  # do not overlap
