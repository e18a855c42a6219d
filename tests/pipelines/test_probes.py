"""What `dtmt probe` found of runs becomes a table and a picture of the documents."""

import xml.etree.ElementTree as ET

import pytest

from dtmt_tf.errors import UserError
from dtmt_tf.evaluation import probing
from dtmt_tf.evaluation.accuracy import Accuracy
from dtmt_tf.evaluation.probing import Probed
from dtmt_tf.files import write_json
from pipelines.papers import pictures, probes, records, recurrence, report, tables

TENSE = Probed("semantic", Accuracy(90, 100), 50.0, 0.01, Accuracy(60, 100))
SYSTEMS = {
    "saved_models/general_ende/recurrence-biarn1-0123abcd-seed1": {
        "Tense": TENSE,
        "BShif": Probed("syntactic", Accuracy(55, 100), 51.0, 0.1, None),
    },
    "saved_models/general_ende/mine": {
        "Tense": Probed("semantic", Accuracy(80, 100), 50.0, 0.01, Accuracy(61, 100)),
        "BShif": Probed("syntactic", Accuracy(56, 100), 51.0, 0.1, None),
    },
}


@pytest.fixture
def found(tmp_path):
    """What is read of a folder with one file of probes."""
    plain = {run: probing.plain(tasks) for run, tasks in SYSTEMS.items()}
    write_json(tmp_path / "probing-general_ende.json", plain)
    assert not records.read_records(tmp_path)  # it is no run's
    return probes.read(tmp_path)


def test_what_was_written_is_read_by_the_names_of_the_papers_tables(found):
    (systems,) = found.values()
    assert list(found) == ["probing-general_ende"]
    assert dict(zip(SYSTEMS, systems.values(), strict=True)) == SYSTEMS
    assert list(systems) == ["+ BiARN, 1 layer", "mine"]


def test_a_copy_of_the_page_shows_what_lies_beside_its_results_alone(found, tmp_path):
    copy, none = tmp_path / "mine.md", tmp_path / "none"
    copy.write_bytes((report.ROOT / recurrence.PAPER.page).read_bytes())
    report.rewrite(copy, tmp_path)
    assert "| + BiARN, 1 layer | 90.0 (82.6-94.5) | 60.0 |" in copy.read_text("utf-8")
    none.mkdir()
    report.rewrite(copy, none)
    text = copy.read_text("utf-8").partition(f"<!-- {probes.SHOWN} -->")[2]
    assert text.split()[:3] == tables.NOTHING.split()


def test_a_probe_that_was_stopped_is_told(found, tmp_path):
    path = tmp_path / "probing-general_ende.json"
    plain = records.read_record(path)
    del plain["saved_models/general_ende/mine"]["BShif"]
    write_json(path, plain)
    with pytest.raises(UserError, match="mine was not probed for BShif"):
        probes.read(tmp_path)


def test_two_seeds_of_a_row_are_two_lines(tmp_path):
    plain = probing.plain({"Tense": TENSE})
    both = [f"runs/recurrence-biarn1-0123abcd-seed{seed}" for seed in (1, 2)]
    write_json(tmp_path / "probing-a.json", dict.fromkeys(both, plain))
    (systems,) = probes.read(tmp_path).values()
    assert list(systems) == [f"+ BiARN, 1 layer, `{run.split('/')[1]}`" for run in both]


@pytest.mark.parametrize(
    ("run", "label"),
    [
        ("deep-dtmt4-01234567-seed2", "DTMT#4, T-GRUs at -3"),
        ("deep-bideep4x2-01234567-seed1", "BiDeep GRU, depth 4 x 2"),
        ("recurrence-base-01234567-seed1", "Transformer"),
        ("deep-decoder_gru4-01234567-seed1", "deep-decoder_gru4-01234567-seed1"),
    ],
)
def test_a_run_that_the_tables_name_has_their_label(run, label):
    assert probes.label_of(run) == label


def test_the_table_has_accuracies_with_intervals_and_the_control(found):
    lines = probes.table(found["probing-general_ende"]).splitlines()
    assert lines[0] == "| encoder | Tense | control | BShif | control |"
    assert lines[2] == "| most frequent label | 50.0 |  | 51.0 |  |"
    assert lines[3] == "| + BiARN, 1 layer | 90.0 (82.6-94.5) | 60.0 | 55.0 (45.2-64.4) |  |"
    assert {line.count("|") for line in lines} == {6}


def test_the_picture_has_the_colours_of_its_page(found, tmp_path):
    paths = pictures.draw_probed(tmp_path / "a", found["probing-general_ende"])
    for path, theme in zip(paths, pictures.THEMES.values(), strict=True):
        text = path.read_text("utf-8")
        assert theme["lines"][0] in text and theme["ink"] in text
        named = [each.text for each in ET.parse(path).iter("{http://www.w3.org/2000/svg}text")]
        assert {"+ BiARN, 1 layer", "mine"} <= set(named)
