"""`dtmt vocab`: a run or a file in, a table and a file out."""

import json

import pytest

from dtmt_tf.commands import vocab
from dtmt_tf.config import DataConfig
from dtmt_tf.data.dictionary import read_dictionary
from dtmt_tf.errors import UserError
from dtmt_tf.experiment import resolve, to_dict
from dtmt_tf.models import MODELS
from dtmt_tf.tasks import TASKS
from dtmt_tf.text import Vocabulary

LINES = ["ab ab ab cd", "ab cd", "ab x"] * 20


@pytest.fixture
def run(tmp_path):
    """The folder of a run with the sub-words of two languages, and a text."""
    (tmp_path / "run" / "train").mkdir(parents=True)
    data = DataConfig(joint_vocabulary=False, source_vocab_size=11, target_vocab_size=9)
    Vocabulary.train(LINES, ["uv uv w"] * 9, data).save(tmp_path / "run" / "train")
    (tmp_path / "a").write_text("ab ab é\u00a0\ncd\n", encoding="utf-8")
    (tmp_path / "b").write_text("uv\n")
    return tmp_path / "run"


def test_both_sides_are_told_with_their_texts(run, tmp_path, capsys):
    out = tmp_path / "out.json"
    files = [str(tmp_path / name) for name in "ab"]
    vocab.command([str(run), "--text", *files, "--sentence", "ab uv", "--json", str(out)])
    printed = capsys.readouterr().out
    source, _, target = printed.partition("\ntarget\n")
    assert source.startswith("source\n  pieces   11: 3 special")
    assert "text     2 lines, 4 words" in source and "such as  é 1   U+00A0 1" in source
    assert "cut      ▁ab ▁ <unk>" in source and "cut      ▁ <unk> ▁uv" in target
    assert max(map(len, printed.splitlines())) <= 80
    found = json.loads(out.read_text())
    assert found["source"]["text"]["most_frequent"]["▁ab"] == 2
    text = found["source"]["text"]
    assert text["unknown"] == 1 and len(text["unknown_texts"]) == 2  # one piece, two characters
    assert text["unknown_percent"] == round(100 / text["pieces"], 4)
    assert text["pieces_a_word"] == round(text["pieces"] / 4, 3)
    assert found["target"]["text"]["unknown"] == 0
    assert "▁uv" not in found["target"]["text"]["never_such_as"]
    assert len(found["target"]["text"]["never_such_as"]) == found["target"]["text"]["never"]
    assert found["target"]["text"]["never"] + found["target"]["text"]["used"] == 9 - 3


def test_a_file_is_told_without_a_text(run, capsys):
    vocab.command([str(run / "train" / "target.spm")])
    printed = capsys.readouterr().out
    assert "pieces   9: 3 special" in printed and "text" not in printed


def test_a_run_is_found_by_its_name(run, tmp_path, capsys):
    vocab.command(["run", "--output-dir", str(tmp_path), "--text", *[str(tmp_path / "a")] * 2])
    assert capsys.readouterr().out.startswith("source\n  pieces   11")


def test_a_run_without_its_training_text_tells_its_subwords(run, tmp_path, capsys, caplog):
    files = "data.train_source=gone", "data.train_target=gone"
    experiment, origins = resolve(TASKS["custom"], "dtmt_tiny", MODELS["dtmt_tiny"], files)
    record = {"settings": to_dict(experiment), "origins": origins}
    (run / "train" / "experiment.json").write_text(json.dumps(record))
    vocab.command([str(run), "--sentence", "ab uv"])
    printed = capsys.readouterr().out
    assert "cut      ▁ab ▁ <unk>" in printed and "cut      ▁ <unk> ▁uv" in printed
    assert "  text " not in printed and "not at hand: gone was not found" in caplog.text
    (run / "train" / "experiment.json").rename(tmp_path / "experiment.json")  # as dtmt prepare
    vocab.command([str(run), "--sentence", "ab uv"])
    assert capsys.readouterr().out == printed and "not at hand: " in caplog.text
    (tmp_path / "experiment.json").rename(run / "train" / "experiment.json")
    with pytest.raises(UserError, match="gone was not found"):
        vocab.command([str(run), "--dictionary", str(tmp_path / "words.tsv")])


def test_a_dictionary_is_what_decoding_reads(run, tmp_path, capsys):
    source, target, out = (tmp_path / name for name in ("s", "t", "words.tsv"))
    source.write_text("das Haus\ndas Buch\nein Buch\n")
    target.write_text("the house\nthe book\na book\n")
    vocab.command([str(run), "--text", str(source), str(target), "--dictionary", str(out)])
    assert read_dictionary(out) == {"das": "the", "Haus": "house", "Buch": "book", "ein": "a"}
    assert f"{out}: 4 words" in capsys.readouterr().out
    target.write_text("the house\n")
    with pytest.raises(UserError, match="has 3, the target 1"):
        vocab.command([str(run), "--text", str(source), str(target), "--dictionary", str(out)])
    for path, text in ((source, "a b c\n"), (target, "x y z\n")):  # each as probable as the others
        path.write_text(text)
    with pytest.raises(UserError, match="no word of this text"):
        vocab.command([str(run), "--text", str(source), str(target), "--dictionary", str(out)])
    source.write_text("\n")
    with pytest.raises(UserError, match="that was to be counted is empty"):
        vocab.command([str(run), "--text", str(source), str(target), "--dictionary", str(out)])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["W/none"], "neither a file nor a run with sub-words"),
        (["W/a"], "a holds no sub-words"),
        (["W/run", "--text", "W/a"], "a file for each side"),
        (["W/a", "--json", "W/a"], "would write over"),
        (["W/run", "--top", "0"], "at least 1"),
        (["W/run", "--text", "W/a", "--dictionary", "W/o"], "needs source and target"),
        (["W/run/train/source.spm", "--dictionary", "W/o"], "needs source and target"),
        (["W/run", "--text", "W/a", "W/b", "--dictionary", "W/b"], "would write over"),
        (["W/run", "--dictionary", "W/o.tsv.gz"], "written unpacked. Name .*o.tsv[.]$"),
    ],
    ids=str,
)
def test_what_is_no_vocabulary_is_refused(run, tmp_path, arguments, message):
    with pytest.raises(UserError, match=message):
        vocab.command([text.replace("W", str(tmp_path)) for text in arguments])
