"""Sentences with a property to be told from their representations, in SentEval's format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dtmt_tf.errors import UserError

SPLITS = ("tr", "va", "te")  # to learn from, to choose by, to test on
KNOWN = {  # Conneau et al. (2018), arXiv:1805.01070, by file name: name in tables, level
    "sentence_length": ("SeLen", "surface"),
    "word_content": ("WC", "surface"),
    "tree_depth": ("TrDep", "syntactic"),
    "top_constituents": ("ToCo", "syntactic"),
    "bigram_shift": ("BShif", "syntactic"),
    "past_present": ("Tense", "semantic"),
    "subj_number": ("SubN", "semantic"),
    "obj_number": ("ObjN", "semantic"),
    "odd_man_out": ("SoMo", "semantic"),
    "coordination_inversion": ("CoIn", "semantic"),
}


@dataclass(frozen=True)
class ProbingTask:
    """A property of sentences.

    Args:
        name: Its name in tables, such as `Tense`.
        level: surface, syntactic or semantic; other, of a task that is not of SentEval.
        labels: The label of each sentence, by split.
        sentences: The sentences, by split.
    """

    name: str
    level: str
    labels: Mapping[str, Sequence[str]]
    sentences: Mapping[str, Sequence[str]]


def read_task(lines: Sequence[str], path: Path) -> ProbingTask:
    """Reads lines of a split (tr, va or te), a label and a sentence, with tabs between them.

    Args:
        lines: The file's lines.
        path: The file; its name up to the first dot is the task's.

    Raises:
        UserError: If a line is another, a split is missing, or there are not two labels to learn.
    """
    labels: dict[str, list[str]] = {split: [] for split in SPLITS}
    sentences: dict[str, list[str]] = {split: [] for split in SPLITS}
    for number, line in enumerate(lines, start=1):
        split, *rest = line.split("\t")
        if split not in SPLITS or len(rest) != 2 or not all(rest):
            raise UserError(
                f"{path}:{number}: a line has tr, va or te, a label and a sentence, with tabs "
                f"between them. Received: {line[:60]!r}."
            )
        labels[split].append(rest[0])
        sentences[split].append(rest[1])
    if missing := [split for split in SPLITS if not labels[split]]:
        raise UserError(f"{path}: there is no line of {' or '.join(missing)}.")
    if len(set(labels["tr"])) < 2:
        raise UserError(f"{path}: all lines of tr have one label, {labels['tr'][0]!r}.")
    stem = path.name.partition(".")[0]
    name, level = KNOWN.get(stem, (stem, "other"))
    return ProbingTask(name, level, labels, sentences)
