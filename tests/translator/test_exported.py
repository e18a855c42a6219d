"""What is no model of ours is named; what a model refuses together is translated in turn."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import tensorflow as tf

from dtmt_tf.errors import Refused, UserError
from dtmt_tf.translator.exported import ExportedModel
from dtmt_tf.translator.places import MODEL, MOST_LOOKED_AT, models_near
from dtmt_tf.translator.session import reason


def saved(folder, function, spec, signature="serving_default"):
    module = tf.Module()
    module.serve = tf.function(function, input_signature=[spec], autograph=False)
    tf.saved_model.save(module, str(folder), signatures={signature: module.serve})
    return folder


TEXT = tf.TensorSpec([None], tf.string, "text")


@pytest.mark.parametrize(
    ("function", "spec", "what"),
    [
        (lambda x: {"y": 2 * x}, tf.TensorSpec([None], tf.float32, "x"), "it takes x and gives y"),
        (lambda text: {"translation": text + ""}, TEXT, "it takes text and gives translation"),
    ],
)
def test_a_model_of_another_kind_is_named(tmp_path, function, spec, what):
    with pytest.raises(UserError, match=f"that does not translate: {what}"):
        ExportedModel(saved(tmp_path, function, spec))


def test_a_model_without_the_signature_is_told(tmp_path):
    path = saved(tmp_path, lambda text: {"translation": text + ""}, TEXT, "other")
    with pytest.raises(UserError, match=r"could be loaded \(KeyError\)"):
        ExportedModel(path)


def without_variables(folder):
    for path in (folder / "variables").iterdir():
        path.unlink()


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "saved_model.pb").write_bytes(b""),
        lambda folder: (folder / "saved_model.pb").write_bytes(b"\xff" * 99),
        lambda folder: (folder / "saved_model.pb").write_bytes(
            (folder / "saved_model.pb").read_bytes()[:-500]
        ),
        without_variables,
    ],
    ids=["empty", "noise", "truncated", "no variables"],
)
def test_a_damaged_model_is_told(tmp_path, damage):
    module = tf.Module()
    module.scale = tf.Variable(2.0)
    module.serve = tf.function(
        lambda text: {"translation": text + "", "score": tf.fill(tf.shape(text), module.scale)},
        input_signature=[TEXT],
        autograph=False,
    )
    tf.saved_model.save(module, str(tmp_path), signatures=module.serve)
    ExportedModel(tmp_path)
    damage(tmp_path)
    with pytest.raises(UserError, match="holds no SavedModel that could be loaded"):
        ExportedModel(tmp_path)


@pytest.fixture
def run_folder(tmp_path):
    """The folder of a run with one version."""
    (tmp_path / "task" / "run" / "1").mkdir(parents=True)
    (tmp_path / "task" / "run" / "1" / MODEL).write_text("")
    return tmp_path / "task" / "run"


def test_a_folder_that_vanishes_while_models_are_listed_is_passed_over(run_folder, monkeypatch):
    (run_folder.parent / "gone").mkdir()
    look = Path.iterdir

    def vanishing(path):
        if path.name == "gone":
            raise FileNotFoundError(path)
        return look(path)

    monkeypatch.setattr(Path, "iterdir", vanishing)
    assert models_near(run_folder.parent / "other") == [run_folder]


def test_models_are_looked_for_among_few_names(run_folder, monkeypatch):
    looked_at, look = [], Path.iterdir

    def crowded(path):
        """Has a folder beside the run, and each below it, hold more than anybody wants to see."""
        if "crowd" not in path.parts:
            return look(path)
        return (looked_at.append(number) or path / str(number) for number in range(10**6))

    monkeypatch.setattr(Path, "iterdir", crowded)
    (run_folder.parent / "crowd").mkdir()
    assert models_near(run_folder.parent / "other") == [run_folder]
    assert 1000 < len(looked_at) <= MOST_LOOKED_AT


def test_threads_that_ask_a_new_model_at_once_are_all_answered(tmp_path):
    def serve(text):
        return {"translation": tf.strings.upper(text), "score": tf.ones_like(text, tf.float32)}

    model = ExportedModel(saved(tmp_path, serve, TEXT))
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda text: model.ask("serving_default", text=[text]), "abcdefgh"))
    assert [rows[0]["translation"] for rows in found] == [each.encode() for each in "ABCDEFGH"]


def test_a_graph_of_another_kind_of_session_is_told(tmp_path):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        builder = tf.compat.v1.saved_model.Builder(str(tmp_path))
        builder.add_meta_graph_and_variables(session, ["train"])
        builder.save()
    with pytest.raises(UserError, match="holds no SavedModel that could be loaded"):
        ExportedModel(tmp_path)


def test_what_the_model_refuses_together_is_translated_in_several_calls(tmp_path):
    def serve(text):
        few = tf.debugging.assert_less(tf.size(text), 3, "at most 2 lines")
        short = tf.debugging.assert_less(tf.strings.length(text), 9, "at most 8 bytes")
        with tf.control_dependencies([few, short]):
            return {"translation": tf.strings.upper(text), "score": tf.ones_like(text, tf.float32)}

    model = ExportedModel(saved(tmp_path, serve, TEXT))
    rows = model.ask("serving_default", text=list("abcdefg"))
    assert [row["translation"] for row in rows] == [b"A", b"B", b"C", b"D", b"E", b"F", b"G"]
    assert [row["score"] for row in rows] == [1.0] * 7
    with pytest.raises(Refused, match="refuses the line that begins with 'too long a line'"):
        model.ask("serving_default", text=["a", "b", "too long a line", "c"])


def test_what_is_refused_of_several_inputs_is_the_longest(tmp_path):
    module = tf.Module()

    @tf.function(input_signature=[TEXT])
    def translate(text):
        return {"translation": text, "score": tf.ones_like(text, tf.float32)}

    @tf.function(input_signature=[TEXT, tf.TensorSpec([None], tf.string, "target")])
    def score(text, target):
        short = tf.debugging.assert_less(tf.strings.length(target), 9, "at most 8 bytes")
        with tf.control_dependencies([short]):
            return {"score": tf.strings.length(text + target)}

    tf.saved_model.save(module, str(tmp_path), {"serving_default": translate, "score": score})
    with pytest.raises(Refused, match="refuses the line that begins with 'too long a line'"):
        ExportedModel(tmp_path).ask("score", text=["a"], target=["too long a line"])


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("Graph execution error:\n\n{{node f}} assertion failed: [Too long.] [9]\n\t [[f]]",
         "[Too long.] [9]"),
        ("2 root error(s) found.\n  (0) INVALID_ARGUMENT: no number: x\n\t [[f]]",
         "(0) INVALID_ARGUMENT: no number: x"),
        ("Deadline.", "Deadline."),
        ("Graph execution error:\n", "Graph execution error:\n"),
        ("", ""),
    ],
)  # fmt: skip
def test_a_message_of_tensorflow_has_one_line_that_tells(message, told):
    assert reason(message) == told
