"""Train, stop, resume, translate, score, export: through the pipelines as a user would."""

import json
import re
import shutil

import tensorflow as tf

from dtmt_tf.runs import Run
from pipelines.papers import contrasts
from tests.end_to_end.conftest import run, tags_of


def lines_of(path):
    return path.read_text(encoding="utf-8").splitlines()


def test_ctrl_c_saves_and_says_how_to_go_on(workshop):
    assert workshop.stopped.returncode == 130, workshop.stopped.stderr
    match = re.search(r"Stopped after update (\d+); it is saved", workshop.stopped.stderr)
    assert match, workshop.stopped.stderr
    assert "pipelines/train.py --task custom --name digits" in workshop.stopped.stderr
    assert f"resuming after update {match[1]}" in workshop.finished.stderr


def test_the_run_learns_and_reports(workshop):
    assert workshop.finished.returncode == 0, workshop.finished.stderr
    scores = json.loads((workshop.run_folder / "train" / "scores.json").read_text())["test"]
    assert scores["bleu"] > 60
    assert scores["bleu_signature"].startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp")
    assert re.search(rf"BLEU +{scores['bleu']:.2f}\n", workshop.finished.stdout)
    assert "step 640: bleu" in workshop.finished.stderr
    assert workshop.finished.stderr.count("  translation ") >= 2


def test_progress_shows_loss_rate_and_speed_in_80_columns(workshop):
    bars = [line for line in re.split(r"[\r\n]", workshop.finished.stderr) if "640/640" in line]
    assert re.search(r"loss \d+\.\d{3} lr \d\.\de-\d\d \d+ tok/s", bars[-1])
    assert len(bars[-1]) < 80


def test_tensorboard_holds_what_was_promised(workshop):
    tags = tags_of(workshop.run_folder)
    for tag in (
        *("1 progress/loss", "1 progress/validation loss", "1 progress/validation BLEU"),
        *("2 validation/chrF", "3 training/learning rate", "translations", "4 attention/pair 1"),
        *("5 gradient norms/encoder/", "5 gradient norms/decoder/", "_hparams_/session_start_info"),
    ):
        assert any(found.startswith(tag) for found in tags), (tag, sorted(tags))


def test_translate_keeps_lines_and_blank_lines(workshop):
    result = run("translate", *workshop.arguments, stdin="31 4\n\n7\n")
    assert result.returncode == 0, result.stderr
    assert result.stdout.split("\n") == ["drei eins, vier", "", "sieben", ""]


def test_translate_reads_and_writes_files(workshop, here, tmp_path):
    out = tmp_path / "out.de"
    source = workshop.folder / "test.source"
    result = here("translate", *workshop.arguments, source, "-o", out)
    assert result.returncode == 0, result.stderr
    assert lines_of(out) == lines_of(workshop.run_folder / "train" / "test.txt")


def test_evaluate_compares_files(workshop, here, tmp_path):
    good = workshop.run_folder / "train" / "test.txt"
    bad = tmp_path / "bad.txt"
    bad.write_text("".join(f"{line.partition(' ')[2]}\n" for line in lines_of(good)))
    result = here("evaluate", "--references", workshop.folder / "test.target",
                  "--hypotheses", bad, good, "--json", tmp_path / "compared.json")  # fmt: skip
    assert result.returncode == 0, result.stderr
    compared = json.loads((tmp_path / "compared.json").read_text())
    baseline, system = (each["metrics"]["BLEU"] for each in compared)
    assert system["score"] > baseline["score"] + 5
    assert system["p_value"] < 0.05


def test_several_splits_are_scored_and_several_test_sets_have_a_mean(workshop, here, tmp_path):
    out = tmp_path / "scores.json"
    copy = shutil.copytree(workshop.run_folder, tmp_path / "digits")  # whose test.txt changes
    both = ["--split", "validation", "test", "--json", out]
    result = here("evaluate", copy, *both, "--set", "decoding.beam_size=1")
    assert result.returncode == 0, result.stderr
    assert "tok:13a" in result.stdout
    record = json.loads((copy / "train" / "scores.json").read_text())
    for split in ("validation", "test"):  # decoding can be changed after training
        assert record[split]["decoding"]["beam_size"] == 1
        assert record[split]["training"]["updates"] == 640
    written = json.loads(out.read_text())
    assert [one["name"] for one in written["sets"]] == ["validation", "test"]
    bleu = [one["scores"]["bleu"] for one in written["sets"]]
    assert bleu[0] != bleu[1]
    assert "mean_bleu" not in written and "mean BLEU" not in result.stdout  # of one test set
    good, target = copy / "train" / "test.txt", workshop.folder / "test.target"
    bad = tmp_path / "bad.txt"
    bad.write_text(good.read_text().upper())
    sets = [*("--references", target, bad, "--hypotheses", bad, good),
            *("--references", target, "--hypotheses", bad, good)]  # fmt: skip
    result = here("evaluate", *sets, "--lowercase", "--json", out)
    assert result.returncode == 0, result.stderr
    written = json.loads(out.read_text())
    assert [one["name"] for one in written["sets"]] == [str(target)] * 2
    several, one = (
        [system["metrics"]["BLEU"] for system in each["scores"]] for each in written["sets"]
    )
    assert min(bleu["score"] for bleu in several) > 99.99  # without case they are one
    assert one[0]["score"] == one[1]["score"] < 100
    assert "nrefs:2" in several[0]["signature"] and "case:lc" in one[0]["signature"]
    mean = (several[0]["score"] + one[0]["score"]) / 2
    assert written["mean_bleu"] == {str(bad): mean, str(good): mean}
    assert f"  {mean:.2f}  {bad}\n  {mean:.2f} (+0.00)  {good}" in result.stdout


def test_contrast_knows_a_wrong_digit_by_checkpoint_and_by_export(workshop, here, tmp_path):
    data = [lines_of(workshop.folder / f"test.{side}")[:60] for side in ("source", "target")]
    table = tmp_path / "digits.tsv"
    wrong = {"eins": "zwei", "zwei": "drei", "drei": "vier"}
    rows = [
        f"digit\t{source}\t{target}\t{target.replace(digit, wrong[digit], 1)}"
        for source, target in zip(*data, strict=True)
        for digit in wrong
        if digit in target
    ]
    head = "set\tsource\tcorrect\tcontrastive"
    table.write_text("".join(f"{line}\n" for line in [head, *rows]), encoding="utf-8")
    found = []
    for model in (workshop.arguments, ["--saved-model", workshop.run_folder / "1"]):
        out = tmp_path / f"{len(found)}.json"
        result = here("contrast", *model, table, "--json", out)
        assert result.returncode == 0, result.stderr
        found += json.loads(out.read_text()).values()
    assert found[0] == found[1]
    opened = Run.open(workshop.run_folder, None, workshop.folder)
    found_in_record = contrasts.accuracies_of(opened, [table])
    assert found_in_record["contrast_measure"] == "position"
    (bins,) = found_in_record["contrast"].values()
    shown = found[0]["digit"]["by_position"]
    assert bins == {
        name: (both["log_probability"]["correct"], both["pairs"]) for name, both in shown.items()
    }
    assert found[0]["digit"]["pairs"] == len(rows) > 30
    for way in ("log_probability", "divided_by_length"):
        assert found[0]["digit"][way]["accuracy"] > 90


def test_probe_reads_the_number_of_blocks_from_the_encoder(workshop, here, tmp_path):
    lines = lines_of(workshop.folder / "train.source")[:260]
    splits = ["tr"] * 160 + ["va"] * 40 + ["te"] * 60
    table, out = tmp_path / "sentence_length.txt", tmp_path / "out.json"
    rows = [
        f"{split}\t{line.count(' ')}\t{line}\n" for split, line in zip(splits, lines, strict=True)
    ]
    table.write_text("".join(rows))
    result = here("probe", *workshop.arguments, table, "--no-control", "--json", out)
    assert result.returncode == 0, result.stderr
    ((name, found),) = json.loads(out.read_text()).items()
    assert name == str(workshop.run_folder) and found["SeLen"]["sentences"] == 60
    assert found["SeLen"]["accuracy"] > 80 > found["SeLen"]["majority"] + 20


def test_the_model_can_not_be_changed_after_training(workshop, here):
    refused = here("evaluate", *workshop.arguments, "--set", "model.model_dim=8")
    assert refused.returncode == 2
    assert "the run is trained" in refused.stderr


def test_other_settings_do_not_resume(workshop, here, monkeypatch):
    determined = []  # it can not be undone in a process
    monkeypatch.setattr(
        tf.config.experimental, "enable_op_determinism", lambda: determined.append(True)
    )
    arguments = workshop.finished.args[4:]
    result = here("train", "--devices", "CPU:0", *arguments, "training.clip_norm=1")
    assert determined == [True]  # as training.deterministic says
    assert result.returncode == 2
    assert "training.clip_norm: 5.0 -> 1.0" in result.stderr
    assert "--name" in result.stderr
    assert "Traceback" not in result.stderr
