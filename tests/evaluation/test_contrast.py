"""Contrastive translations: read, counted with their intervals, shown."""

import json

import pytest

from dtmt_tf.commands.lines import check_picture
from dtmt_tf.errors import UserError
from dtmt_tf.evaluation import accuracy, contrast_plot, picture
from dtmt_tf.evaluation.contrast import Accuracy, accuracies, bin_name, format_accuracies, plain
from dtmt_tf.evaluation.contrast_sets import Contrast, read_json, read_table

HEAD = "set\tindex\torigin\tfirst_diff_token\tsource_en\tcorrect_de\tcontrastive_de"
LINGEVAL = [
    {
        "source": "He sleeps.",
        "reference": "Er schläft.",
        "origin": "newstest2009.1",
        "errors": [
            {"type": "verb", "contrastive": "Er schlafen.", "distance": 1, "frequency": 9},
            {"type": "nicht_ins", "contrastive": "Er schläft nicht."},
        ],
    },
    {"source": "Yes.", "reference": "Ja.", "errors": []},
    {
        "source": "She has come.",
        "reference": "Sie ist gekommen.",
        "errors": [{"type": "verb", "contrastive": "Sie sind gekommen.", "distance": "0"}],
    },
]


@pytest.mark.parametrize(("correct", "pairs"), [(8, 10), (0, 20), (7, 7), (927, 1000), (1, 2)])
def test_wilsons_interval_ends_where_the_normal_test_rejects(correct, pairs):
    share = correct / pairs
    for end in Accuracy(correct, pairs).interval:
        p = end / 100
        assert (share - p) ** 2 == pytest.approx(1.959964**2 * p * (1 - p) / pairs, abs=1e-12)
    low, high = Accuracy(correct, pairs).interval
    assert low <= 100 * share <= high and high - low > 1


def test_wilsons_interval_holds_the_share_of_none_and_of_all():
    for total in range(1, 101):
        assert Accuracy(0, total).interval[0] == 0.0
        assert Accuracy(total, total).interval[1] == 100.0


def test_wilsons_interval_of_eight_of_ten_is_the_textbooks():
    assert Accuracy(8, 10).percent == 80.0
    assert Accuracy(8, 10).interval == pytest.approx((49.0162, 94.3318), abs=1e-4)


def of(kind, correct="a b c d e f", contrastive="x b c d e f", distance=None):
    return Contrast(kind, "source", correct, contrastive, distance)


def test_both_ways_to_compare_are_counted_and_equal_values_are_wrong():
    rows = [of("k")] * 4
    scores = [
        ((-4.0, 4), (-3.0, 2)),  # wrong, but right by length
        ((-2.0, 1), (-3.0, 3)),  # right, but wrong by length
        ((-2.0, 2), (-2.0, 2)),  # equal
        ((-1.0, 2), (-2.0, 2)),
    ]
    both = accuracies(rows, scores)["k"].both
    assert (both.summed, both.by_length) == (Accuracy(2, 4), Accuracy(2, 4))
    both = accuracies(rows[:2], scores[:2])["k"].both
    assert (both.summed.correct, both.by_length.correct) == (1, 1)
    both = accuracies(rows[:1], scores[:1])["k"].both
    assert (both.summed.correct, both.by_length.correct) == (0, 1)


RIGHT, WRONG = ((-1.0, 1), (-2.0, 1)), ((-2.0, 1), (-1.0, 1))


def test_distances_are_binned_and_the_last_bin_is_open():
    distances = [0, 3, 4, 15, 16, 40]
    rows = [of("k", distance=each) for each in distances]
    found = accuracies(rows, [RIGHT, WRONG, RIGHT, RIGHT, RIGHT, WRONG])["k"]
    assert found.measure == "distance"
    assert {
        name: (both.summed.correct, both.summed.total) for name, both in found.bins.items()
    } == {
        "0-3": (1, 2),
        "4-7": (1, 1),
        "12-15": (1, 1),
        "16+": (1, 2),
    }
    five_wide = accuracies(rows, [RIGHT] * 6, width=5)["k"].bins
    sizes = {name: both.summed.total for name, both in five_wide.items()}
    assert sizes == {"0-4": 3, "15": 1, "16+": 2}
    one_wide = accuracies(rows, [RIGHT] * 6, width=1)["k"].bins
    assert list(one_wide) == ["0", "3", "4", "15", "16+"]


def test_positions_are_taken_where_asked_for_or_the_distance_is_not_known():
    late = "a b c d e g"
    rows = [of("far", distance=9), of("far", "a b c d e f", late, 9), of("near"), of("near", late)]
    found = accuracies(rows, [RIGHT] * 4)
    assert {kind: (each.measure, list(each.bins)) for kind, each in found.items()} == {
        "far": ("distance", ["8-11"]),
        "near": ("position", ["0-3"]),
    }
    by_position = accuracies(rows, [RIGHT] * 4, by="position")["far"]
    assert (by_position.measure, list(by_position.bins)) == ("position", ["0-3", "4-7"])
    assert of("k", "a b", "a b c").position == 2  # as many as the shorter has


@pytest.mark.parametrize(
    ("start", "width", "name"),
    [(0, 4, "0-3"), (12, 4, "12-15"), (16, 4, "16+"), (3, 1, "3"), (15, 5, "15"), (10, 5, "10-14")],
)
def test_bins_are_named_by_their_words(start, width, name):
    assert bin_name(start, width) == name


def test_a_table_has_its_columns_in_any_order_and_more():
    table = [HEAD, "agree\t0\tnewstest2009.3\t1\tHe sleeps.\tEr schläft.\tEr schlafen."]
    (found,) = read_table(table, "a.tsv")
    assert found == Contrast("agree", "He sleeps.", "Er schläft.", "Er schlafen.", None)
    assert found.position == 1
    table = ["distance\tcontrastive\tcorrect\tsource\tset", "7\tz\ty\tx\tk", "\tz\ty\tx\tk"]
    assert [each.distance for each in read_table(table, "a.tsv")] == [7, None]
    assert read_table(table, "a.tsv")[0] == Contrast("k", "x", "y", "z", 7)


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ([], r"a.tsv:1: a column is missing that begins with set, source, correct, contrastive"),
        (["set\tsource\tcorrect"], "begins with contrastive"),
        ([HEAD, "a\tb"], "a.tsv:2: 2 columns; the first line has 7"),
        (["set\tsource\tcorrect\tcontrastive\tdistance", "k\ta\tb\tc\tfar"], "a.tsv:2.*'far'"),
        (["set\tsource\tcorrect\tcontrastive\tdistance", "k\ta\tb\tc\t-3"], "a.tsv:2.*'-3'"),
        (["set\tsource_de\tsource_en\tcorrect\tcontrastive"], "source: source_de, source_en"),
    ],
)
def test_a_faulty_table_is_told_with_its_line(table, text):
    with pytest.raises(UserError, match=text):
        read_table(table, "a.tsv")


def test_lingevals_json_has_several_errors_a_sentence():
    found = read_json(json.dumps(LINGEVAL).encode(), "a.json")
    assert found == [
        Contrast("verb", "He sleeps.", "Er schläft.", "Er schlafen.", 1),
        Contrast("nicht_ins", "He sleeps.", "Er schläft.", "Er schläft nicht.", None),
        Contrast("verb", "She has come.", "Sie ist gekommen.", "Sie sind gekommen.", 0),
    ]


def test_prepared_text_stands_for_that_of_the_json():
    sources = ["he sleeps ."] * 3 + ["yes ."] + ["she has come ."] * 2
    targets = ["er schläft .", "er schlafen .", "er schläft nicht .", "ja ."]
    targets += ["sie ist gekommen .", "sie sind gekommen ."]
    text = json.dumps(LINGEVAL).encode()
    found = read_json(text, "a.json", (sources, targets))
    assert found == [
        Contrast("verb", "he sleeps .", "er schläft .", "er schlafen .", 1),
        Contrast("nicht_ins", "he sleeps .", "er schläft .", "er schläft nicht .", None),
        Contrast("verb", "she has come .", "sie ist gekommen .", "sie sind gekommen .", 0),
    ]
    with pytest.raises(UserError, match="should have 6 lines.*Received: 6 and 5"):
        read_json(text, "a.json", (sources, targets[:-1]))


@pytest.mark.parametrize(
    "content",
    [b"{", b"7", b'{"a": 1}', b"{}", b'""', b"[7]", b'[{"source": "a"}]', b"\xff", b"[" * 100_000,
     b'[{"source": "a", "reference": "b", "errors": [{"type": "k"}]}]',
     b'[{"source": "a", "reference": "b", "errors": {}}]'],
    ids=lambda content: content[:20].decode("latin1"),
)  # fmt: skip
def test_other_json_is_told(content):
    with pytest.raises(UserError, match="a.json is no list of sentences"):
        read_json(content, "a.json")


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        (7, {}, "type, source and translations"),
        ("a", {"type": "a\tb\x1b[2J"}, "the type 'a.*' has characters that can not be shown"),
        ("a", {"contrastive": "\ud800"}, "a text has half of a character"),
        ("a", {"distance": float("inf")}, "a distance is a number"),
        ("a", {"distance": 3.9}, "a distance is a number"),
        ("a", {"distance": True}, "a distance is a number"),
    ],
)
def test_values_of_the_wrong_kind_are_told(source, error, message):
    errors = [{"type": "k", "contrastive": "c", **error}]
    sentence = {"source": source, "reference": "b", "errors": errors}
    with pytest.raises(UserError, match=f"a.json: pair 1: {message}"):
        read_json(json.dumps([sentence]).encode(), "a.json")


def test_the_table_shows_both_accuracies_and_intervals_in_80_columns():
    rows = [of("polarity_particle_nicht_del.human", distance=k) for k in (0, 1, 5, 20)]
    found = accuracies(rows, [RIGHT, RIGHT, WRONG, ((-4.0, 4), (-3.0, 1))])
    lines = format_accuracies(found).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[2].split() == [
        *("polarity_particle_nicht_del.human", "4"),
        *("50.0", "15.0-85.0", "75.0", "30.1-95.4"),
    ]
    assert lines[3].split() == ["distance", "0-3", "2", *("100.0", "34.2-100.0") * 2]
    assert [line.split()[1] for line in lines[3:6]] == ["0-3", "4-7", "16+"]
    values = plain(found)["polarity_particle_nicht_del.human"]
    assert values["pairs"] == 4
    assert values["divided_by_length"] == {
        "correct": 3, "accuracy": 75.0, "interval": [30.064, 95.441]
    }  # fmt: skip
    assert values["by_distance"]["16+"]["log_probability"]["correct"] == 0


def test_a_plot_has_a_line_for_each_model_and_its_intervals(tmp_path):
    rows = [of("a", distance=0), of("a", distance=0), of("a", distance=9), of("b")]
    systems = {
        "one": accuracies(rows, [RIGHT, WRONG, RIGHT, RIGHT]),
        "_two$": accuracies(rows, [WRONG, WRONG, RIGHT, WRONG]),
    }
    figure = contrast_plot.figure_of(systems)
    first, second = figure.axes
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["one", r" _two\$"]  # one that begins with _ would be missing
    assert [axes.get_title() for axes in figure.axes] == ["a", "b"]
    assert [text.get_text() for text in first.get_xticklabels()] == ["0-3", "8-11"]
    assert (first.get_xlabel(), second.get_xlabel()) == ("distance, words", "position, words")
    lines = [container.lines for container in first.containers]
    assert [data.get_ydata().tolist() for data, _, _ in lines] == [[50.0, 100.0], [0.0, 100.0]]
    ends = lines[0][2][0].get_segments()[0][:, 1]
    assert ends.tolist() == pytest.approx(Accuracy(1, 2).interval)
    picture.save(contrast_plot.figure_of(systems), tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert text.startswith("<?xml") and "distance, words" in text
    with pytest.raises(UserError, match=r"a\.doc: a picture's name ends in \.svg, \.png, \.pdf"):
        check_picture(tmp_path / "a.doc")


def test_the_quantile_is_that_of_the_normal_distribution():
    from statistics import NormalDist

    assert pytest.approx(NormalDist().inv_cdf(0.975), abs=1e-6) == accuracy.Z
