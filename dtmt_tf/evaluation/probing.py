"""What a classifier can tell of sentences from an encoder's representations.

Conneau et al. (2018), "What you can cram into a single $&!#* vector", arXiv:1805.01070; with the
control of Hewitt and Liang (2019), "Designing and Interpreting Probes with Control Tasks",
arXiv:1909.03368.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dtmt_tf.errors import UserError
from dtmt_tf.evaluation.accuracy import Accuracy
from dtmt_tf.evaluation.probing_tasks import ProbingTask

PENALTIES = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)  # of squared weights, a sentence; SentEval's, and 0.1
MOST_UPDATES = 500  # of L-BFGS
MOST_DRAWS = 100  # of random labels
EPOCHS, BATCH, LEARNING_RATE = 100, 64, 1e-2  # of a classifier with a hidden layer

Representations = Mapping[str, Sequence[np.ndarray]]  # by split: `[N, H]` by each encoder


@dataclass(frozen=True)
class Classifier:
    """Which classifier reads the representations.

    Args:
        kind: `logistic`, or `mlp`: one hidden layer.
        hidden: Width of the hidden layer.
        seed: Fixes first weights, order and the control's labels.
    """

    kind: str = "logistic"
    hidden: int = 50
    seed: int = 1

    def fit(self, inputs: np.ndarray, labels: np.ndarray, penalty: float) -> Any:
        """Returns scikit-learn's classifier, trained on inputs `[N, H]` with labels `[N]`."""
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression
        from sklearn.neural_network import MLPClassifier

        count = len(labels)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            if self.kind == "logistic":
                model: Any = LogisticRegression(C=1 / (2 * penalty * count), max_iter=MOST_UPDATES)
            else:
                batch = min(BATCH, count)
                model = MLPClassifier(
                    (self.hidden,),
                    activation="logistic",
                    alpha=2 * penalty * batch,  # scikit-learn divides it by the batch's sentences
                    batch_size=batch,
                    learning_rate_init=LEARNING_RATE,
                    max_iter=EPOCHS,
                    tol=0,
                    n_iter_no_change=EPOCHS,
                    random_state=self.seed,
                )
            return model.fit(inputs, labels)


@dataclass(frozen=True)
class Probed:
    """What a classifier tells of one property.

    Args:
        level: The property's: surface, syntactic, semantic or other.
        accuracy: On the test sentences.
        majority: Share of the test sentences with the most frequent training label, in percent.
        penalty: Weight of the squared weights, chosen on validation sentences.
        control: Accuracy of the same classifier on the sentences it has learnt from, where each had
            a random label; None if it was not asked for.
    """

    level: str
    accuracy: Accuracy
    majority: float
    penalty: float
    control: Accuracy | None

    @property
    def selectivity(self) -> float | None:
        """Accuracy less the control's, in percent points: small for what remembers sentences."""
        return None if self.control is None else self.accuracy.percent - self.control.percent


def probe(
    task: ProbingTask, representations: Representations, classifier: Classifier, control: bool
) -> Probed:
    """Trains and tests a classifier of one property.

    Each unit is brought to mean 0 and variance 1 over the training sentences. Of several encoders
    the representations are joined by a gate, see `gate.Gate`, which learns from the training
    sentences.

    A control task gives each distinct sentence a label at random, as frequent as the property's.
    Only a classifier that remembers sentences can learn it, so it is tested on those it has seen,
    as in Hewitt and Liang's, where all words of the test are in the training text.

    Args:
        task: The property.
        representations: Of its sentences, by split.
        classifier: The classifier.
        control: Whether to run the control.
    """
    names = {label: k for k, label in enumerate(sorted(set(task.labels["tr"])))}
    labels = {  # one that is not to be learnt is never told
        split: np.array([names.get(label, -1) for label in given])
        for split, given in task.labels.items()
    }
    scaled = _scaled(representations)
    inputs = _joined(scaled, labels, classifier.seed)
    accuracies, models = [], []
    for penalty in PENALTIES:
        models.append(classifier.fit(inputs["tr"], labels["tr"], penalty))
        accuracies.append(_accuracy(models[-1], inputs["va"], labels["va"]).correct)
    best = int(np.argmax(accuracies))
    controlled = None
    if control:
        random = _random_labels(task, labels, classifier.seed)
        seen = _joined(scaled, random, classifier.seed)["tr"]
        model = classifier.fit(seen, random["tr"], PENALTIES[best])
        controlled = _accuracy(model, seen, random["tr"])
    (majority, _), *_ = Counter(task.labels["tr"]).most_common(1)
    return Probed(
        level=task.level,
        accuracy=_accuracy(models[best], inputs["te"], labels["te"]),
        majority=100.0 * list(task.labels["te"]).count(majority) / len(task.labels["te"]),
        penalty=PENALTIES[best],
        control=controlled,
    )


def table_head(names: Iterable[str]) -> str:
    """Returns the head of a table of tasks: at most 80 columns, unless a task's name is long."""
    head = f"{'task':<{_widest(names)}}"
    head += "  level      accuracy  95 % interval  majority  control  selectivity"
    return f"{head}\n{'-' * len(head)}"


def table_row(name: str, found: Probed, names: Iterable[str]) -> str:
    """Returns a task's row of the table whose tasks have these names."""
    interval = "{:.1f}-{:.1f}".format(*found.accuracy.interval)
    row = f"{name:<{_widest(names)}}  {found.level:<9}  {found.accuracy.percent:>8.1f}"
    row += f"  {interval:>13}  {found.majority:>8.1f}"
    if found.control is not None:
        row += f"  {found.control.percent:>7.1f}  {found.selectivity:>11.1f}"
    return row


def _widest(names: Iterable[str]) -> int:
    return max(len("task"), *map(len, names))


def plain(tasks: Mapping[str, Probed]) -> dict[str, object]:
    """Returns what was found as JSON has it."""
    return {
        name: {
            "level": found.level,
            **_plain(found.accuracy),
            "majority": round(found.majority, 3),
            "penalty": found.penalty,
            "control": None if found.control is None else _plain(found.control),
            "selectivity": None if found.selectivity is None else round(found.selectivity, 3),
        }
        for name, found in tasks.items()
    }


def from_plain(tasks: Mapping[str, Mapping[str, Any]]) -> dict[str, Probed]:
    """Returns what `plain` was made of."""
    return {
        name: Probed(
            level=found["level"],
            accuracy=Accuracy(found["correct"], found["sentences"]),
            majority=found["majority"],
            penalty=found["penalty"],
            control=found["control"]
            and Accuracy(found["control"]["correct"], found["control"]["sentences"]),
        )
        for name, found in tasks.items()
    }


def _plain(accuracy: Accuracy) -> dict[str, object]:
    return {"correct": accuracy.correct, "sentences": accuracy.total} | accuracy.plain


def _scaled(representations: Representations) -> dict[str, list[np.ndarray]]:
    """Brings each unit to mean 0 and variance 1 over the training sentences."""
    shapes = [(each.mean(0), each.std(0)) for each in representations["tr"]]
    return {
        split: [
            ((each - mean) / np.where(deviation > 0, deviation, 1)).astype(np.float32)
            for each, (mean, deviation) in zip(encoders, shapes, strict=True)
        ]
        for split, encoders in representations.items()
    }


def _joined(
    scaled: Representations, labels: Mapping[str, np.ndarray], seed: int
) -> dict[str, np.ndarray]:
    """Returns one representation of each sentence, by split."""
    if len(scaled["tr"]) == 1:
        return {split: encoders[0] for split, encoders in scaled.items()}
    from dtmt_tf.evaluation.gate import learn_gate

    known = labels["va"] >= 0
    validation = [each[known] for each in scaled["va"]]
    number = 1 + max(int(each.max()) for each in labels.values())
    given = validation, labels["va"][known]
    gate = learn_gate(scaled["tr"], labels["tr"], *given, number, seed)
    return {split: np.asarray(gate.join(encoders)) for split, encoders in scaled.items()}


def _accuracy(model: Any, inputs: np.ndarray, labels: np.ndarray) -> Accuracy:
    return Accuracy(int((model.predict(inputs) == labels).sum()), len(labels))


def _random_labels(
    task: ProbingTask, labels: Mapping[str, np.ndarray], seed: int
) -> dict[str, np.ndarray]:
    """Returns labels drawn from those of the training sentences, the same for equal sentences.

    They are drawn anew where all training sentences got the same, which rare labels lead to.

    Raises:
        UserError: If they always do.
    """
    random = np.random.default_rng(seed)
    for _ in range(MOST_DRAWS):
        drawn: dict[str, int] = {}
        for sentences in task.sentences.values():
            for sentence in sentences:
                if sentence not in drawn:
                    drawn[sentence] = int(random.choice(labels["tr"]))
        if len({drawn[sentence] for sentence in task.sentences["tr"]}) > 1:
            break
    else:
        raise UserError(
            f"{task.name}: its {len(labels['tr'])} training sentences are too few, or too much "
            "alike, for a control with random labels. Leave it out by --no-control."
        )
    return {
        split: np.array([drawn[sentence] for sentence in sentences])
        for split, sentences in task.sentences.items()
    }
