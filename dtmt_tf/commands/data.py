"""Writes what a corpus is like."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from dtmt_tf import caller, startup
from dtmt_tf.commands import common, lines, options, own_text
from dtmt_tf.commands.parser import Parser
from dtmt_tf.errors import UserError
from dtmt_tf.files import write_atomically

if TYPE_CHECKING:
    from dtmt_tf.config import DataConfig
    from dtmt_tf.data.inspection import Inspected
    from dtmt_tf.evaluation.data_page import CorpusFacts

Table = list[list[str]]  # rows, the head first

PAGE = "data.html"
MOST_FREQUENT = 100, 1_000, 10_000, 100_000  # words
DROPS = {
    "identical": "both sides are the same",
    "length_ratio": "a side is over {limit:g} times longer than is usual",
    "script": "a side is written in other letters than its language has",
    "language": "a side reads like another language",
    "duplicates": "the pair was there before",
}


def command(arguments: Sequence[str] | None = None) -> int:
    """Reads, counts, writes."""
    args = _parser().parse_args(arguments)
    lines.check_page(args.output)
    lines.check_outputs((), {"--output": args.output})
    is_own = own_text.is_named(args)
    startup.start_tensorflow()

    from dtmt_tf.data.check import format_findings
    from dtmt_tf.data.corpus import load_corpus
    from dtmt_tf.data.inspection import inspect
    from dtmt_tf.data.own_files import named_files
    from dtmt_tf.evaluation import data_page
    from dtmt_tf.tasks import TASKS

    experiment, _ = (own_text if is_own else common).experiment(args)
    for name in chain.from_iterable(chain(*named_files(experiment.data).values())):
        if lines.same_file(Path(name), args.output):
            raise UserError(f"{args.output} is text of the corpus; -o would write over it.")
    task, places = TASKS[experiment.task], common.places(args)
    data = dataclasses.replace(experiment.data, filters=())
    corpus = load_corpus(data, task, *places)
    found = inspect(corpus, data)
    findings = format_findings(corpus.findings).splitlines()
    title = ", ".join(Path(name).name for name in data.train_source) if is_own else task.name
    facts = {
        "corpus": ", ".join(data.train_source + data.train_target) or task.description,
        "languages": f"{data.source_language} to {data.target_language}",
        **{name: f"{size:,} pairs" for name, size in corpus.sizes.items()},
        "filters in use": ", ".join(experiment.data.filters) or "none",
    }
    if found.step > 1:
        facts["words and characters"] = (
            f"counted in one of {found.step:,} training pairs, drawn evenly. The corpus has more "
            "of them, and fewer are missing, than shown; lengths and filters are of all pairs"
        )
    page = data_page.page(page_facts(title, facts, findings, found, data))
    write_atomically(args.output, page.encode())
    print(args.output)
    return 0


def _parser() -> Parser:
    parser = Parser(
        "dtmt data",
        "Write a page about a task's corpus, or about your own text: sizes, findings of the data "
        "check, histograms of lengths and of their ratio, what each filter of data.filters would "
        "drop, with examples, how many words cover the text, how much of the other splits is new "
        "to training, and samples.",
        "dtmt data report --task multi30k_ende",
        "dtmt data report --train a.en a.de --from en --to de -o a.html",
    )
    parser.add_argument("what", choices=("report",), help="report: write the page")
    group = parser.add_argument_group("which text")
    options.add_task(group, "a preset, whose settings of text are meant (default: the task's)")
    options.add_data_dir(group)
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path(PAGE),
        metavar="FILE",
        help=f"where the page goes (default: {PAGE} in the present folder)",
    )
    own_text.add_own_text(parser)
    options.add_config(parser)
    options.add_set(parser)
    # own text is sized as if it were new
    parser.set_defaults(
        **{"name": None, "output_dir": caller.runs_folder(), "restart": True, "init_from": None},
        **{"devices": (), "strategy": "mirrored"},
    )
    return parser


def page_facts(
    title: str,
    facts: Mapping[str, str],
    findings: Sequence[str],
    found: Inspected,
    data: DataConfig,
) -> CorpusFacts:
    """Returns what the page tells, as tables of text.

    Args:
        title: Of the page.
        facts: What the corpus is, by name.
        findings: What the data check found.
        found: What `inspect` found.
        data: Languages, and the settings of filters.
    """
    import numpy as np

    from dtmt_tf.evaluation.data_page import CorpusFacts

    train = found.splits["train"]
    return CorpusFacts(
        title,
        facts,
        _sides(found),
        findings,
        {
            f"{name} ({side.unit})": np.frombuffer(side.lengths, np.int32)
            for name, side in zip(_names(found), train, strict=True)
        },
        found.ratios,
        found.usual_ratio,
        data.max_length_ratio,
        _filters(found, data),
        _coverage(found),
        _unseen(found),
        found.examples,
        found.samples,
    )


def _names(found: Inspected) -> list[str]:
    """Returns what the sides are called."""
    names = [side.language for side in found.splits["train"]]
    return ["source", "target"] if "" in names or names[0] == names[1] else names


def _sides(found: Inspected) -> Table:
    """Returns figures of each side of each split."""
    rows = [["split", "side", "lines", "mean length", "longest", "words", "different words",
             "words seen once", "different characters"]]  # fmt: skip
    for split, sides in found.splits.items():
        for name, side in zip(_names(found), sides, strict=True):
            lines, once = len(side.lengths), sum(count == 1 for count in side.words.values())
            figures = (
                *(max(side.lengths, default=0), side.words.total()),
                *(len(side.words), once, len(side.characters)),
            )
            mean = f"{sum(side.lengths) / max(lines, 1):.1f} {side.unit}"
            rows.append([split, name, f"{lines:,}", mean, *(f"{each:,}" for each in figures)])
    return rows


def _filters(found: Inspected, data: DataConfig) -> Table:
    """Returns what each filter would drop, and what all of them would leave."""
    rows = [["filter", "drops a pair if", "pairs", "share"]]
    total = len(found.ratios)
    for name, what in DROPS.items():
        what = what.format(limit=data.max_length_ratio)
        if name in found.missing:
            rows.append([name, what, "not tried", found.missing[name]])
        else:
            count = found.dropped[name]
            rows.append([name, what, f"{count:,}", f"{100 * count / total:.3f} %"])
    left = found.left
    rows.append(["left", "none of these drops it", f"{left:,}", f"{100 * left / total:.3f} %"])
    return rows


def _coverage(found: Inspected) -> Table:
    """Returns which share of the training text the most frequent words are."""
    train, rows = found.splits["train"], [["most frequent words", *_names(found)]]
    for most in MOST_FREQUENT:
        rows.append([f"{most:,}", *(f"{side.covered(most):.2f} %" for side in train)])
        if all(len(side.words) <= most for side in train):
            break
    return rows


def _unseen(found: Inspected) -> Table:
    """Returns how much of the other splits the training text has not."""
    rows = [["split", "side", "running words not in training", "characters not in training"]]
    train = found.splits["train"]
    for split, sides in found.splits.items():
        if split != "train":
            for name, ours, theirs in zip(_names(found), train, sides, strict=True):
                rows.append([split, name, *(f"{share:.3f} %" for share in ours.unseen(theirs))])
    return rows
