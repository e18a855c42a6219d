"""The pictures show what the results say, on light and on dark pages."""

import json
import xml.etree.ElementTree as ET

import pytest

from dtmt_tf.errors import UserError
from pipelines.papers import PAPERS, pictures, probes, records
from pipelines.papers import panels as made
from pipelines.papers.panels import Line, Panel
from pipelines.papers.records import RECORDS
from pipelines.papers.shown import EXPLAINED, SCORES, SEARCHED, Curve, Scores

PANEL = Panel("Title", "x", "y", [Line("one", [(1, 2.0), (3, 4.0)]), Line("two", [(1, 1.0)], True)])


@pytest.fixture(scope="module")
def panels():
    """The panels of each picture that the results of the repository fill."""
    return made.all_panels(
        *(read(records.RECORDS) for read in (records.read_records, records.read_speeds))
    )


@pytest.fixture(scope="module")
def contents(panels):
    """What each picture of the documents is to show."""
    attention = json.loads(pictures.ATTENTION.read_text("utf-8"))
    contents = {name: pictures.content_of(each) for name, each in panels.items()}
    probed = {name: pictures.probed_content(each) for name, each in probes.read(RECORDS).items()}
    return contents | {"attention": pictures.attention_content(attention)} | probed


def texts(path):
    return [element.text for element in ET.parse(path).iter("{http://www.w3.org/2000/svg}text")]


def documents():
    return "\n".join(
        (pictures.PICTURES.parents[2] / name).read_text("utf-8")
        for name in (
            "README.md",
            "RESULTS.md",
            "EXPERIMENTS.md",
            "SPEED.md",
            *(paper.page for paper in PAPERS.values()),
        )  # fmt: skip
    )


@pytest.mark.parametrize("theme", pictures.THEMES)
def test_pictures_are_what_the_results_say(contents, theme):
    for name, content in contents.items():
        path = pictures.PICTURES / f"{name}-{theme}.svg"
        text = path.read_text("utf-8")
        assert pictures.DIGEST + pictures.digest(content) in text, name
        assert len(text) < 100_000
        assert "pipelines/papers/pictures/" + path.name in documents()


def test_no_picture_is_left_over(contents):
    expected = {f"{name}-{theme}.svg" for name in contents for theme in pictures.THEMES}
    assert {path.name for path in pictures.PICTURES.glob("*.svg")} == expected


def test_panels_show_lines_titles_and_names(tmp_path):
    light, dark = pictures.draw_panels(
        tmp_path / "a", [PANEL, Panel("Other", "x", "", PANEL.lines)]
    )
    for path, theme in ((light, "light"), (dark, "dark")):
        shown = texts(path)
        assert {"Title", "Other", "one", "two", "x", "y"} <= set(shown)
        assert pictures.THEMES[theme]["lines"][0] in path.read_text()
    assert light.name == "a-light.svg" and light.read_text() != dark.read_text()


def test_a_panel_draws_more_lines_than_there_are_colours(tmp_path):
    lines = [Line(f"line {k}", [(1, float(k))]) for k in range(8)]
    path, _ = pictures.draw_panels(tmp_path / "a", [Panel("Many", "x", "y", lines)])
    assert {line.label for line in lines} <= set(texts(path))


def test_panels_that_share_no_scale_stand_side_by_side(tmp_path):
    one, two = PANEL, Panel("Other", "x", "z", PANEL.lines)
    for panels, is_wide in (([one, two], True), ([one, one, two], False)):
        drawn = ET.parse(pictures.draw_panels(tmp_path / "a", panels)[0])
        width, height = (float(drawn.getroot().get(side)[:-2]) for side in ("width", "height"))
        assert (width > 1.5 * height) == is_wide
        assert {"y", "z"} <= set(texts(tmp_path / "a-light.svg"))


def test_drawing_again_gives_the_same_file(tmp_path):
    first = [path.read_bytes() for path in pictures.draw_panels(tmp_path / "a", [PANEL])]
    assert [path.read_bytes() for path in pictures.draw_panels(tmp_path / "a", [PANEL])] == first


def test_a_picture_tells_other_data_apart(tmp_path):
    changed = Panel("Title", "x", "y", [Line("one", [(1, 2.0), (3, 4.5)])])
    digests = {pictures.digest(pictures.content_of([panel])) for panel in (PANEL, changed)}
    assert len(digests) == 2


def test_curves_are_means_where_all_seeds_were_validated():
    runs = [{"curve": {"100": 1.0, "200": 3.0}}, {"curve": {"200": 5.0, "300": 9.0}}]
    assert made.mean_curve(runs) == [(200, 4.0)]
    assert made.mean_curve([]) == []


def test_cross_entropy_stands_below_the_bleu_of_runs_that_have_it(tmp_path, monkeypatch):
    curves = {"a": {"One": (Curve("x", "t", ("r",)),), "Two": (Curve("y", "t", "row"),)}}
    monkeypatch.setattr(made, "CURVES", curves)
    run = {
        "task": "t",
        "name": "r",
        "row": "",
        "series": {},
        "curve": {"1": 2.0},
        "cross_entropy": {"1": 0.5},
    }
    series = {"max_steps": 1650, "set": []}
    row = {"task": "t", "name": "s", "row": "row", "series": series, "curve": {"1": 3.0}}
    other = row | {"series": series | {"max_steps": 9}, "curve": {"1": 99.0}}
    (panels,) = made.all_panels([run, row, other]).values()
    assert [(panel.title, panel.y, panel.lines[0].points) for panel in panels] == [
        ("One", "validation BLEU", [(1, 2.0)]),
        ("Two", "validation BLEU", [(1, 3.0)]),
        ("One", "validation cross entropy, nats", [(1, 0.5)]),
    ]
    light, _ = pictures.draw_panels(tmp_path / "a", panels)
    assert {"validation BLEU", "validation cross entropy, nats"} <= set(texts(light))


def test_scores_are_means_over_seeds_where_there_are_results():
    shown = (Scores("deep", "t", {1: ("a", "b"), 4: ("c",), 8: ("none",)}), Scores("no", "t", {}))
    scores = {"a": (2.0, 5.0), "b": (4.0, 6.0), "c": (7.0, 8.0)}
    found = [
        {"task": task, "name": name, "scores": {"validation": {"bleu": v}, "test": {"bleu": t}}}
        for task in ("t", "other")
        for name, (v, t) in scores.items()
        if task == "t" or name == "c"
    ]
    panel = made.scores_panel("title", "depth", shown, found)
    assert panel.lines == [
        Line("validation, deep", [(1, 3.0), (4, 7.0)], False, [(2.0, 4.0), (7.0, 7.0)]),
        Line("test, deep", [(1, 5.5), (4, 8.0)], True, [(5.0, 6.0), (8.0, 8.0)]),
    ]
    assert panel.ticks == {1: "1", 4: "4"}


def measured(rate, bleu, beam, run=SEARCHED, **changed):
    search = {
        "beam_size": beam,
        "precision": "float32",
        "shortlist": 0,
        "prune": 0.0,
        "lookahead": 10,
    }
    search |= changed
    return {
        "name": f"{run}, beam {beam}",
        "rate": {"median": rate},
        "bleu": bleu,
        "search": search,
    }


def test_speed_is_drawn_for_each_search_by_beam_size():
    fast = {"precision": "bfloat16", "shortlist": 50, "prune": 2.5, "lookahead": 2}
    speeds = [
        {"benchmark": "train", "configurations": [{}]},
        {"benchmark": "decode", "configurations": [measured(9.0, {}, 5)]},
        {
            "benchmark": "decode",
            "configurations": [measured(9.0, {"validation": 9.0}, 5, "another/run")],
        },
        {
            "benchmark": "decode",
            "configurations": [
                measured(10.0, {"validation": 2.5, "test": 7.0}, 5),
                measured(30.0, {"validation": 1.5}, 1),
                measured(20.0, {"validation": 2.4}, 5, **fast),
                measured(40.0, {"validation": 1.4}, 1, **fast),
                measured(50.0, {"validation": 1.2}, 2, **fast),
            ],
        },
    ]
    (searches,) = made.speed_panels(speeds)
    assert searches.title == "quickest, beam 5, 1 from left to right"
    assert searches.lines == [
        Line("bfloat16, shortlist 50, prune 2.5, ends early", [(20.0, 2.4), (40.0, 1.4)]),
        Line("float32", [(10.0, 2.5), (30.0, 1.5)]),
    ]
    assert made.speed_panels(speeds[:3]) == []


def test_sizes_and_other_programs_are_drawn_beside_each_other(monkeypatch):
    monkeypatch.setattr(made, "SIZES", {"wide": "t/wide", "narrow": "t/narrow"})
    monkeypatch.setattr(made, "PEERS", {"another": {5: (3.0, 4.0), 1: (9.0, 2.0)}})
    fast = {"precision": "bfloat16", "prune": 2.5, "lookahead": 2}
    others = {"precision": "bfloat16", "shortlist": 50}
    speeds = [
        {
            "benchmark": "decode",
            "configurations": [
                measured(8.0, {"validation": 1.0}, 5, "t/narrow", **fast),
                measured(5.0, {"validation": 2.0}, 5, "t/wide"),
                measured(6.0, {"validation": 3.0}, 5, "t/wide", **fast),
                measured(7.0, {"validation": 3.0}, 5, "t/wide", **others),
            ],
        }
    ]
    (sizes,) = made.speed_panels(speeds)
    assert sizes.lines == [
        Line("wide", [(6.0, 3.0)]),
        Line("narrow", [(8.0, 1.0)]),
        Line("another", [(3.0, 4.0)], True),
    ]
    assert sizes.title == "several sizes, beam 5 from left to right"
    del speeds[0]["configurations"][0]
    assert made.speed_panels(speeds) == []  # one size alone shows nothing new


def test_each_curve_of_the_documents_has_its_runs(panels):
    for name, curves in made.CURVES.items():
        shown = {panel.title: [line.label for line in panel.lines] for panel in panels[name]}
        assert shown == {title: [c.label for c in each] for title, each in curves.items()}
        assert max(map(len, shown.values())) <= len(pictures.THEMES["light"]["lines"])


def test_each_place_of_a_picture_of_scores_has_a_result():
    results = records.read_records(records.RECORDS)
    found = {(run["task"], run["name"]) for run in results}
    for _, _, lines in SCORES.values():
        for line in lines:
            assert all(found & {(line.task, n) for n in names} for names in line.runs.values())
    told = {(run["task"], run["name"]) for run in results if run.get("signals")}
    assert {(task, name) for _, task, names in EXPLAINED for name in names} <= told


def test_attention_sums_to_one_over_the_source(tmp_path):
    found = json.loads(pictures.ATTENTION.read_text("utf-8"))
    assert [len(row) for row in found["weights"]] == [len(found["source"])] * len(found["target"])
    for row in found["weights"]:
        assert sum(row) == pytest.approx(1, abs=0.01)
    light, _ = pictures.draw_attention(tmp_path / "attention", found)
    assert texts(light) == found["source"] + found["target"]


def test_a_run_without_an_export_is_refused(tmp_path):
    with pytest.raises(UserError, match="holds no exported model"):
        pictures.attend(tmp_path, "text")
