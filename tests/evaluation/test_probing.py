"""What classifiers tell of representations that are made up, so that the answer is known."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from dtmt_tf.errors import UserError
from dtmt_tf.evaluation import gate as gate_module
from dtmt_tf.evaluation import probing, probing_plot
from dtmt_tf.evaluation.accuracy import Accuracy
from dtmt_tf.evaluation.gate import Gate, learn_gate
from dtmt_tf.evaluation.picture import save
from dtmt_tf.evaluation.probing import Classifier, Probed, probe
from dtmt_tf.evaluation.probing_tasks import KNOWN, ProbingTask, read_task

SIZES = {"tr": 240, "va": 60, "te": 100}
LINES = ["tr\tPast\tit was", "tr\tPres\tit is", "va\tPres\tit is", "te\tPast\tit was ."]


def known(*lines, name="past_present.en.txt.gz"):
    return read_task(lines or LINES, Path(name))


def test_a_task_is_read_from_lines_of_split_label_and_sentence():
    task = known()
    assert (task.name, task.level) == ("Tense", "semantic")
    assert task.labels == {"tr": ["Past", "Pres"], "va": ["Pres"], "te": ["Past"]}
    assert task.sentences["te"] == ["it was ."]
    assert known(name="mine.txt").name == "mine" and known(name="mine.txt").level == "other"


def test_the_ten_tasks_of_senteval_are_known():
    names = "SeLen WC TrDep ToCo BShif Tense SubN ObjN SoMo CoIn".split()
    assert [name for name, _ in KNOWN.values()] == names
    assert list(KNOWN) == [  # the names of SentEval's files
        *("sentence_length", "word_content", "tree_depth", "top_constituents", "bigram_shift"),
        *("past_present", "subj_number", "obj_number", "odd_man_out", "coordination_inversion"),
    ]
    levels = [level for _, level in KNOWN.values()]
    assert [levels.count(level) for level in ("surface", "syntactic", "semantic")] == [2, 3, 5]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([*LINES, "dev\tPast\tit was"], ":5: a line has tr, va or te.*'dev"),
        ([*LINES, "tr\tPast"], ":5: a line has"),
        ([*LINES, "tr\tPast\ta\tb"], ":5: a line has"),
        ([*LINES, ""], ":5: a line has"),
        (LINES[:2], "there is no line of va or te"),
        ([LINES[0], *LINES[2:]], "all lines of tr have one label, 'Past'"),
    ],
)
def test_a_line_that_is_another_is_named(lines, message):
    with pytest.raises(UserError, match=f"past_present.en.txt.gz.*{message}"):
        known(*lines)


def test_each_unit_is_scaled_by_the_training_sentences():
    found = probing._scaled({"tr": [np.array([[0.0, 5], [2, 5]])], "te": [np.array([[3.0, 7]])]})
    np.testing.assert_array_equal(found["tr"], [[[-1, 0], [1, 0]]])
    np.testing.assert_array_equal(found["te"], [[[2, 2]]])  # the second never varied


def made_up(rng, property_of, widths=(6,), times=1):
    """A task of the labels "no" and "yes", and random representations that have it inside."""
    representations = {
        split: [rng.normal(3, 2, [times * size, width]) for width in widths]
        for split, size in SIZES.items()
    }
    labels = {
        split: ["yes" if value else "no" for value in property_of(encoders)]
        for split, encoders in representations.items()
    }
    sentences = {
        split: [f"{split} {k}" for k in range(times * size)] for split, size in SIZES.items()
    }
    return ProbingTask("made up", "other", labels, sentences), representations


def in_first(encoders):
    return encoders[0][:, 0] > encoders[0][:, 1]


@pytest.mark.parametrize("kind", ["logistic", "mlp"])
def test_what_is_there_is_found_and_random_labels_are_not_remembered(rng, kind):
    task, representations = made_up(rng, in_first)
    found = probe(task, representations, Classifier(kind, hidden=8), control=True)
    assert found.accuracy.percent > 90 and found.accuracy.total == 100
    assert found.control.total == 240 and 45 < found.control.percent < 75
    assert found.selectivity == found.accuracy.percent - found.control.percent
    again = probe(task, representations, Classifier(kind, hidden=8), control=True)
    assert again == found


def test_what_is_not_there_is_not_found(rng):
    task, representations = made_up(rng, lambda encoders: rng.random(len(encoders[0])) < 0.5)
    assert probe(task, representations, Classifier(), control=False).accuracy.percent < 65


def test_a_hidden_layer_finds_what_no_plane_divides(rng):
    task, representations = made_up(rng, lambda e: abs(e[0][:, 0] - 3) > 1.4, (2,))
    plane, layer = (
        probe(task, representations, Classifier(kind), control=False)
        for kind in ("logistic", "mlp")
    )
    assert plane.accuracy.percent < 70 and layer.accuracy.percent > 85
    assert plane.control is None and plane.selectivity is None


def test_a_hidden_layers_penalty_is_of_a_sentence_however_many_there_are(rng):
    inputs = rng.normal(size=[4000, 2]).astype(np.float32)
    labels = (abs(inputs[:, 0]) > 0.7).astype(int)  # what no plane divides
    for penalty in (1e-5, 1e-3):
        model = Classifier("mlp", hidden=8).fit(inputs, labels, penalty)
        assert (model.predict(inputs) == labels).mean() > 0.9, penalty


def test_the_penalty_is_chosen_on_validation_sentences(rng):
    task, representations = made_up(rng, in_first)
    shares = {"va": (0.5, 0.9, 0.6, 0.7, 0.8), "te": (0.1, 0.2, 0.3, 0.4, 1.0), "tr": (1,) * 5}
    fits = []

    class Right(Classifier):
        """Is right about a share of a split's sentences, as its penalty's place tells."""

        def fit(self, inputs, labels, penalty):
            place = probing.PENALTIES.index(penalty)
            fits.append((penalty, labels))

            def predict(given):
                (split,) = (split for split in shares if SIZES[split] == len(given))
                answers = np.array([label == "yes" for label in task.labels[split]])
                answers[round(shares[split][place] * len(given)) :] ^= True
                return answers

            return SimpleNamespace(predict=predict)

    found = probe(task, representations, Right(), control=True)
    assert found.penalty == probing.PENALTIES[1]  # the last is best on the test sentences
    assert found.accuracy.correct == 20
    penalty, random = fits[-1]  # of the control, by the same classifier
    assert penalty == found.penalty and np.any(random != fits[0][1])


def test_the_gate_of_the_control_learns_its_labels(rng, monkeypatch):
    learnt, fitted = [], []
    plain, fit = gate_module.learn_gate, Classifier.fit

    def learn(inputs, labels, *others):
        learnt.append(labels)
        return plain(inputs, labels, *others)

    def note(self, inputs, labels, penalty):
        fitted.append(labels)
        return fit(self, inputs, labels, penalty)

    monkeypatch.setattr(gate_module, "learn_gate", learn)
    monkeypatch.setattr(Classifier, "fit", note)
    probe(*made_up(rng, in_first, widths=(6, 4)), Classifier(), control=True)
    assert len(learnt) == 2 and np.any(learnt[1] != learnt[0])
    np.testing.assert_array_equal(learnt[1], fitted[-1])


def test_a_planes_penalty_is_of_a_sentence_however_many_there_are(rng):
    inputs = rng.normal(size=[60, 3])
    labels = (inputs[:, 0] + rng.normal(size=60) > 0).astype(int)
    once, twice = (
        Classifier().fit(np.tile(inputs, (n, 1)), np.tile(labels, n), 0.01).coef_ for n in (1, 2)
    )
    np.testing.assert_allclose(twice, once, rtol=1e-3)


def test_a_classifier_that_remembers_is_not_selective(rng):
    task, representations = made_up(rng, in_first, (300,))  # wider than there are sentences
    found = probe(task, representations, Classifier(), control=True)
    assert found.control.percent > 90 and found.selectivity < 0


def test_labels_that_were_not_learnt_count_as_wrong(rng):
    task, representations = made_up(rng, in_first)
    task.labels["te"][:10] = ["maybe"] * 10
    found = probe(task, representations, Classifier(), control=False)
    assert found.accuracy.correct <= 90 and found.accuracy.total == 100
    names = task.labels["tr"]
    frequent = max(set(names), key=names.count)
    assert found.majority == 100 * task.labels["te"].count(frequent) / 100


def test_equal_sentences_have_one_random_label():
    sentences = {"tr": ["a"] * 30 + ["b"] * 30, "va": ["a"], "te": ["b"]}
    task = ProbingTask("", "other", {}, sentences)
    labels = {split: np.arange(len(each)) % 2 for split, each in sentences.items()}
    drawn = [probing._random_labels(task, labels, seed) for seed in range(8)]
    for found in drawn:
        assert set(found["tr"][:30]) == set(found["va"]) and set(found["tr"][30:]) == set(
            found["te"]
        )
    assert {(found["va"][0], found["te"][0]) for found in drawn} == {(0, 1), (1, 0)}


@pytest.mark.parametrize(
    ("encoders", "seed"),
    [((4,), 15), ((4, 8), 19), ((4, 8), 37), ((4, 8), 52)],
)  # at the first draw all of `tr` get "no" by 15 and 19; by 37 and 52 only `va` has a "yes"
def test_a_control_works_however_rare_a_label_is(rng, encoders, seed):
    task, representations = made_up(rng, in_first, encoders)
    for split, given in task.labels.items():
        task.labels[split] = ["yes", "maybe", *["no"] * (len(given) - 2)]
    found = probe(task, representations, Classifier(seed=seed), control=True)
    assert 90 < found.control.percent <= 100


def test_a_control_of_equal_sentences_is_refused(rng):
    task, representations = made_up(rng, in_first)
    task.sentences["tr"][:] = ["the same"] * len(task.sentences["tr"])
    with pytest.raises(UserError, match="made up: its 240 .* Leave it out by --no-control"):
        probe(task, representations, Classifier(), control=True)


@pytest.mark.parametrize("of", [0, 1])
def test_the_gate_learns_which_encoder_knows(rng, of):
    task, representations = made_up(rng, lambda each: in_first(each[of:]), (4, 8), 4)
    found = probe(task, representations, Classifier(), control=False)
    assert found.accuracy.percent > 85


def test_a_gate_that_helps_no_validation_sentence_stays_the_mean(rng):
    encoders = [rng.normal(size=[200, 8]).astype(np.float32) for _ in range(2)]
    labels = rng.integers(0, 2, 200)
    gate = learn_gate(encoders, labels, encoders, 1 - labels, number=2, seed=1)
    np.testing.assert_allclose(gate.join(encoders), np.mean(encoders, 0), atol=1e-6)


def test_the_gate_is_a_sum_weighted_by_unit(rng):
    first, second = (rng.normal(size=[5, width]).astype(np.float32) for width in (3, 4))
    gate = Gate([3, 4], labels=2, seed=1)
    gate([first, second])
    for weight in gate.scores.weights:
        weight.assign(rng.normal(size=weight.shape))
    kernel, bias = gate.scores.get_weights()
    (matrix,) = gate.maps[1].get_weights()
    scores = (np.concatenate([first, second], 1) @ kernel + bias).reshape(5, 2, 3)
    share = 1 / (1 + np.exp(scores[:, 1] - scores[:, 0]))
    expected = share * first + (1 - share) * (second @ matrix)
    np.testing.assert_allclose(gate.join([first, second]), expected, rtol=1e-5, atol=1e-6)
    assert gate.maps[0] is None


PROBED = {
    "Tense": Probed("semantic", Accuracy(90, 100), 50.0, 0.01, Accuracy(60, 100)),
    "BShif": Probed("syntactic", Accuracy(55, 100), 51.0, 0.1, None),
}


def test_the_table_has_intervals_and_fits_80_columns():
    head = probing.table_head(PROBED).splitlines()
    tense, bshif = (probing.table_row(name, found, PROBED) for name, found in PROBED.items())
    assert tense.split() == "Tense semantic 90.0 82.6-94.5 50.0 60.0 30.0".split()
    assert bshif.split() == "BShif syntactic 55.0 45.2-64.4 51.0".split()
    assert [*map(len, head)] == [73, 73]
    assert len(tense) == 73  # numbers stand below their names
    plain = probing.plain(PROBED)
    assert plain["Tense"]["selectivity"] == 30.0 and plain["BShif"]["control"] is None
    assert plain["Tense"]["interval"] == [82.563, 94.477]


def test_the_picture_shows_each_system_with_its_control(tmp_path):
    figure = probing_plot.figure_of({"one": PROBED, "_two": PROBED})
    (axes,) = figure.axes
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["one", " _two"]
    assert [text.get_text() for text in axes.get_xticklabels()] == [
        "Tense\nsemantic",
        "BShif\nsyntactic",
    ]
    crosses = [line for line in axes.lines if line.get_marker() == "x"]
    assert [line.get_ydata().tolist() for line in crosses] == [[60.0], [60.0]]
    dots = [box.lines[0] for box in axes.containers]
    assert [line.get_ydata().tolist() for line in dots] == [[90.0, 55.0]] * 2
    assert dots[0].get_xdata()[0] < 0 < dots[1].get_xdata()[0]
    figure = probing_plot.figure_of({"one": {"$a$": PROBED["Tense"], "$\\no$": PROBED["BShif"]}})
    save(figure, tmp_path / "a.svg")  # names are no formulas
    assert "<svg" in (tmp_path / "a.svg").read_text()
