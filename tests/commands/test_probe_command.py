"""`dtmt probe`: files and runs in, tables, picture and files out."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from dtmt_tf import runs
from dtmt_tf.commands import probe
from dtmt_tf.errors import UserError


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Sentences of digits, labelled by their first; a run knows the digits, another none."""
    random = np.random.default_rng(1)
    for name in ("past_present.en.txt", "mine.txt"):
        rows = []
        for split, count in (("tr", 80), ("va", 20), ("te", 40)):
            for _ in range(count):
                digits = random.integers(0, 10, 4).tolist()
                label = "big" if digits[0] >= 5 else "small"
                rows.append(f"{split}\t{label}\t{' '.join(map(str, digits))}\n")
        (tmp_path / name).write_text("".join(rows))

    def representer(run, model):
        def represent(sentences, progress):
            digits = np.array([[float(digit) for digit in line.split()] for line in sentences])
            return [digits if model == "knows" else np.zeros_like(digits)]

        return represent

    monkeypatch.setattr(runs, "representer", representer)

    def models(args):
        for folder in args.runs:
            yield str(folder), SimpleNamespace(), folder.name

    monkeypatch.setattr(probe, "_models", models)
    return tmp_path


def test_several_tasks_and_runs_are_probed_reported_and_drawn(files, capsys):
    out = {end: files / f"out.{end}" for end in ("json", "svg")}
    tasks = [str(files / "past_present.en.txt"), str(files / "mine.txt")]
    models = ["--run", str(files / "knows"), "--run", str(files / "nothing")]
    options = ["--json", str(out["json"]), "--plot", str(out["svg"])]
    assert probe.command([*tasks, *models, *options]) == 0
    said = capsys.readouterr().out
    assert said.count("selectivity") == 2 and str(files / "knows") in said
    found = json.loads(out["json"].read_text())
    knows, nothing = (found[str(files / name)] for name in ("knows", "nothing"))
    assert list(knows) == ["Tense", "mine"] and knows["Tense"]["level"] == "semantic"
    for task in ("Tense", "mine"):
        assert knows[task]["accuracy"] > 85 > 70 > nothing[task]["accuracy"]
        assert nothing[task]["accuracy"] == nothing[task]["majority"]
        assert knows[task]["sentences"] == 40 and knows[task]["control"]["sentences"] == 80
    assert "<svg" in out["svg"].read_text()


def test_the_control_can_be_left_out(files, capsys):
    task, run = str(files / "mine.txt"), str(files / "knows")
    probe.command([task, "--run", run, "--no-control", "--classifier", "mlp", "--hidden", "3"])
    *_, row = capsys.readouterr().out.strip().splitlines()
    assert row.split()[:2] == ["mine", "other"] and len(row.split()) == 5


def test_a_run_by_its_name_and_by_its_folder_is_one(tmp_path, monkeypatch):
    (tmp_path / "demo").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(probe.common, "named_run", lambda place, _: tmp_path / Path(place).name)
    args = SimpleNamespace(runs=[Path("demo"), Path("runs/demo")], data_dir=None, cache_dir=None)
    with pytest.raises(UserError, match="--run .*demo is named twice"):
        next(probe._models(args))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["mine.txt"], "mine.txt is named twice"),
        (["--run", "a", "--run", "a"], "--run .*a is named twice"),
        (["--run", "a", "--name=b"], "--run and --name both name a run"),
        (["--json", "sub"], "--json: .*sub is a folder"),
        (["--plot", "mine.txt/a.svg"], "--plot: .*mine.txt is no folder"),
        (["--json", "mine.txt"], "--json would write over"),
        (["--plot", "a.doc"], "ends in .svg"),
        (["--hidden", "0"], "--hidden should be at least 1"),
        (["--hidden=9"], "--hidden goes with --classifier mlp"),
        (["--seed", "-1"], "--seed should be at least 0"),
        (["sub/mine.tsv"], "another file is of the task mine"),
    ],
)
def test_mistakes_are_told_before_anything_is_trained(files, options, text):
    (files / "sub").mkdir()
    (files / "sub" / "mine.tsv").write_text((files / "mine.txt").read_text())
    named = [str(files / word) if word[0] not in "-0" else word for word in options]
    with pytest.raises(UserError, match=text):
        probe.command([str(files / "mine.txt"), *named])
