"""What all commands do with what they are given."""

from pathlib import Path

import pytest

from dtmt_tf.commands import common, options
from dtmt_tf.commands.parser import Parser
from dtmt_tf.errors import UserError
from dtmt_tf.settings_file import SettingsFile


@pytest.fixture
def parser():
    found = Parser("dtmt thing", "Does it.", "dtmt thing")
    group = found.add_argument_group("numbers")
    group.add_argument("--seeds", nargs="+", type=int, default=[1])
    group.add_argument("--text", nargs="+")
    group.add_argument("--name", default="a")
    group.add_argument("--path", type=Path)
    group.add_argument("--several", type=Path, nargs="+", action="append")
    options.add_set(group)
    options.add_config(group)
    return found


def test_an_option_that_takes_several_keeps_those_of_each_time(parser):
    given = parser.parse_args(
        "--seeds 2 --text a --set b.c=1 --seeds 3 4 --set d.e=2 f.g=3".split()
    )
    assert (given.seeds, given.text, given.set) == ([2, 3, 4], ["a"], ["b.c=1", "d.e=2", "f.g=3"])
    plain = parser.parse_args([])
    assert (plain.seeds, plain.text, plain.set, plain.name) == ([1], None, [], "a")


def test_the_last_of_single_values_counts_but_a_file_of_settings_is_not_dropped(
    parser, tmp_path, capsys
):
    assert parser.parse_args(["--name", "b", "--name", "c"]).name == "c"
    (tmp_path / "a.yaml").write_text("training.seed: 2")
    file = ["--config", str(tmp_path / "a.yaml")]
    assert isinstance(parser.parse_args(file).config, SettingsFile)
    with pytest.raises(SystemExit):
        parser.parse_args([*file, *file])
    assert "--config is given twice" in capsys.readouterr().err


def test_an_empty_value_is_not_taken_for_none(parser, capsys):
    with pytest.raises(SystemExit):
        parser.parse_args(["--name", ""])
    assert "--name has an empty value" in capsys.readouterr().err
    for option in ("--path", "--several"):  # an empty path would be the current folder
        with pytest.raises(SystemExit):
            parser.parse_args([option, *["there"] * (option == "--several"), ""])
        assert f"{option} has an empty value" in capsys.readouterr().err


def test_a_model_that_is_named_beside_a_run_is_the_runs(tmp_path):
    parser = options.run_parser("dtmt translate", "")
    (tmp_path / "cldr_ende/t/1").mkdir(parents=True)
    (tmp_path / "cldr_ende/t/1/experiment.json").write_text(
        '{"settings": {"model_name": "dtmt_tiny"}, "origins": {}}'
    )
    place = ["--output-dir", str(tmp_path), "--name", "t"]
    for own in (["--model", "dtmt_tiny"], []):
        assert common.model_place(parser.parse_args([*place, *own])) == tmp_path / "cldr_ende/t"
    with pytest.raises(UserError, match="is a run of --model dtmt_tiny, not of dtmt_small"):
        common.model_place(parser.parse_args([*place, "--model", "dtmt_small"]))
