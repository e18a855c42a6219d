"""`dtmt contrast`: any number of sets and models in, tables, picture and files out."""

import json
import shutil

import pytest
import tensorflow as tf

from dtmt_tf.commands.contrast import command
from dtmt_tf.errors import UserError
from dtmt_tf.translator import Translator

TABLE = "set\tsource\tcorrect\tcontrastive\n"
JSON = [
    {
        "source": "a",
        "reference": "good good",
        "errors": [
            {"type": "wrong", "contrastive": "good bad", "distance": 6},
            {"type": "more", "contrastive": "good good good", "distance": 6},
        ],
    }
]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Two SavedModels: one that has 1 nat against each `bad` and word, one that has it for."""
    folder = tmp_path_factory.mktemp("models")
    texts = [tf.TensorSpec([None], tf.string, name) for name in ("source", "target")]
    for name, sign in (("good", -1.0), ("bad", 1.0)):
        module = tf.Module()

        def score(source, target, sign=sign):
            words = tf.strings.split(target)
            bad = tf.reduce_sum(tf.cast(words == "bad", tf.float32), axis=1)
            length = tf.cast(words.row_lengths(), tf.int32)
            return {"log_probability": sign * (bad + tf.cast(length, tf.float32)),
                    "tokens": length + 1}  # fmt: skip

        module.score = tf.function(score, input_signature=texts)
        module.translate = tf.function(
            lambda text: {"translation": text + "", "score": tf.zeros_like(text, tf.float32)},
            input_signature=[tf.TensorSpec([None], tf.string, "text")],
            autograph=False,
        )
        tf.saved_model.save(
            module,
            str(folder / name),
            {"score": module.score, "serving_default": module.translate},
        )
    return folder


@pytest.fixture
def sets(tmp_path):
    table = tmp_path / "sets.tsv"
    table.write_text(TABLE + "wrong\ta\tgood good\tgood bad\nwrong\tb\tbad good\tbad bad\n")
    (tmp_path / "set.json").write_text(json.dumps(JSON))
    return table, tmp_path / "set.json"


def test_several_sets_and_models_are_scored_reported_and_drawn(models, sets, tmp_path, capsys):
    files = {end: tmp_path / f"out.{end}" for end in ("json", "tsv", "svg")}
    code = command([
        *map(str, sets), "--saved-model", str(models / "good"), "--saved-model",
        str(models / "bad"), "--json", str(files["json"]), "--scores", str(files["tsv"]),
        "--plot", str(files["svg"]),
    ])  # fmt: skip
    assert code == 0
    said = capsys.readouterr().out
    assert said.count("error type") == 2 and str(models / "good") in said
    assert max(len(line) for line in said.splitlines() if str(models) not in line) <= 80
    found = json.loads(files["json"].read_text())
    good, bad = (found[str(models / name)] for name in ("good", "bad"))
    # the longer one: -3 against -2 summed; -3/4 against -2/3 by length
    assert good["more"]["log_probability"]["correct"] == 1
    assert good["more"]["divided_by_length"]["correct"] == 1
    assert bad["more"]["log_probability"]["correct"] == 0
    assert good["wrong"]["pairs"] == 3  # of both sets
    assert good["wrong"]["log_probability"]["correct"] == 3
    assert bad["wrong"]["log_probability"]["correct"] == 0
    assert list(good["wrong"]["by_position"]) == ["0-3"]  # one set knows no distances
    assert list(good["more"]["by_distance"]) == ["4-7"]
    rows = [line.split("\t") for line in files["tsv"].read_text().splitlines()]
    assert len(rows) == 1 + 2 * 4
    assert rows[1][1:] == ["wrong", "1", "", "-2.0000", "3", "-3.0000", "3"]
    assert rows[3][1:] == ["wrong", "1", "6", "-2.0000", "3", "-3.0000", "3"]
    assert "<svg" in files["svg"].read_text()


def test_bins_and_measure_are_chosen(models, sets, capsys):
    arguments = [str(sets[1]), "--saved-model", str(models / "good"), "--bin-width"]
    command([*arguments, "2"])
    assert "distance 6-7" in capsys.readouterr().out
    command([*arguments, "1", "--by", "position"])
    assert "position 1" in capsys.readouterr().out


def test_prepared_text_is_scored_in_place_of_the_sets(models, sets, tmp_path, capsys):
    for name, lines in (("source", ["a"] * 3), ("target", ["bad bad", "good bad", "x y z"])):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    text = ["--text", str(tmp_path / "source"), str(tmp_path / "target")]
    out = tmp_path / "out.json"
    command([str(sets[1]), *text, "--saved-model", str(models / "good"), "--json", str(out)])
    (found,) = json.loads(out.read_text()).values()
    assert found["wrong"]["log_probability"]["correct"] == 0


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--text", "a", "b", "SECOND"], "--text goes with one JSON set"),
        (["--plot", "a.doc"], "ends in .svg"),
        (["--bin-width", "0"], "--bin-width should be at least 1 and at most 16"),
        (["FIRST"], "named twice"),
        (["--json", "FOLDER"], "is a folder. Name a file"),
        (["--scores", "FIRST/a"], "sets.tsv is no folder"),
        (["--json", "FIRST"], "--json would write over"),
        (["--plot", "FIRST.svg", "FIRST.svg"], "--plot would write over"),
        (["--json", "a", "--scores", "a"], "--json and --scores both name a"),
        (["--saved-model", "GOOD", "--saved-model", "typo"], "typo holds no exported model"),
        (["--saved-model", "GOOD", "--saved-model", "GOOD"], "good is named twice"),
        (["--saved-model", "GOOD", "--task", "cldr_ende"], "both name a run"),
    ],
)
def test_mistakes_are_told_before_anything_is_scored(models, sets, options, text):
    names = {"GOOD": str(models / "good"), "FOLDER": str(models), "FIRST/a": f"{sets[0]}/a"}
    names |= {"FIRST": str(sets[0]), "SECOND": str(sets[1]), "FIRST.svg": str(sets[0]) + ".svg"}
    with pytest.raises(UserError) as error:
        command([*(names.get(option, option) for option in options), str(sets[0])])
    assert text in str(error.value)


def test_a_runs_folder_stands_for_its_newest_version(models, sets, tmp_path, capsys):
    for version, name in (("1", "bad"), ("2", "good")):
        shutil.copytree(models / name, tmp_path / "run" / version)
    command([str(sets[0]), "--saved-model", str(tmp_path / "run")])
    of_run = capsys.readouterr().out
    command([str(sets[0]), "--saved-model", str(models / "good")])
    assert of_run == capsys.readouterr().out.replace(str(models / "good"), str(tmp_path / "run"))
    same = str(tmp_path / "run"), "--saved-model", str(tmp_path / "run" / "2")
    with pytest.raises(UserError, match="run/2 is named twice"):
        command([str(sets[0]), "--saved-model", *same])


def test_all_models_are_asked_before_the_first_is_scored(models, sets, tmp_path, capsys):
    mute = tf.saved_model.load(str(models / "good"))
    tf.saved_model.save(mute, str(tmp_path / "mute"), mute.signatures["serving_default"])
    named = ["--saved-model", str(models / "good"), "--saved-model", str(tmp_path / "mute")]
    with pytest.raises(UserError, match="mute does not answer 'score'"):
        command([str(sets[0]), *named])
    assert capsys.readouterr().out == ""


def test_what_is_scored_is_written_before_the_next_model_is(models, sets, tmp_path, monkeypatch):
    asked = Translator.score

    def score(self, *sides):
        if len(sides[0]) > 1 and self.folder.name != "good":
            raise InterruptedError
        return asked(self, *sides)

    monkeypatch.setattr(Translator, "score", score)
    named = ["--saved-model", str(models / "good"), "--saved-model", str(models / "bad")]
    out = {each: tmp_path / f"out.{each}" for each in ("json", "scores")}
    files = [word for each, path in out.items() for word in (f"--{each}", str(path))]
    with pytest.raises(InterruptedError):
        command([str(sets[0]), *named, *files])
    assert list(json.loads(out["json"].read_text())) == [str(models / "good")]
    assert len(out["scores"].read_text().splitlines()) == 3


def test_a_set_without_pairs_is_nothing_to_score(tmp_path):
    (tmp_path / "empty.tsv").write_text(TABLE)
    (tmp_path / "saved_model.pb").touch()
    with pytest.raises(UserError, match="nothing to score"):
        command([str(tmp_path / "empty.tsv"), "--saved-model", str(tmp_path)])
