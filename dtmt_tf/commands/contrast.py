"""Compares a model's probabilities of correct translations and of translations with an error."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dtmt_tf import startup
from dtmt_tf.commands import common, lines, options
from dtmt_tf.commands.parser import Parser
from dtmt_tf.config import DecodingConfig
from dtmt_tf.errors import UserError
from dtmt_tf.files import write_atomically, write_json

if TYPE_CHECKING:
    from dtmt_tf.evaluation.contrast_sets import Contrast

MAX_BATCH_SIZE = 10_000  # pairs in a batch
OUTPUTS = ("json", "scores", "plot")
MAX_BIN_WORDS = 16
COLUMNS = (
    *("model", "type", "position", "distance", "correct_log_probability", "correct_tokens"),
    *("contrastive_log_probability", "contrastive_tokens"),
)


def command(arguments: Sequence[str] | None = None) -> int:
    """Scores sets of contrastive translations."""
    args = _parser().parse_args(arguments)
    _check(args)

    from dtmt_tf.evaluation import contrast

    contrasts = [each for path in args.sets for each in read_set(path, args.text)]
    if not contrasts:
        raise UserError(f"There is nothing to score: {', '.join(map(str, args.sets))}.")
    startup.start_tensorflow()

    systems, rows = {}, [[*COLUMNS]]
    for name, score in _scorers(args):
        scores = contrast.scored(contrasts, score)
        systems[name] = contrast.accuracies(contrasts, scores, args.by, args.bin_width)
        rows += [_row(name, *both) for both in zip(contrasts, scores, strict=True)]
        print(f"{name}\n{contrast.format_accuracies(systems[name])}\n", flush=True)
        if args.json:  # now: a later model may fail, or be stopped
            write_json(args.json, {each: contrast.plain(of) for each, of in systems.items()})
        if args.scores:
            table = "".join("\t".join(cells) + "\n" for cells in rows)
            write_atomically(args.scores, table.encode())
    if args.plot:
        from dtmt_tf.evaluation import contrast_plot
        from dtmt_tf.evaluation.picture import save

        save(contrast_plot.figure_of(systems), args.plot)
    return 0


def _parser() -> Parser:
    parser = options.run_parser(
        "dtmt contrast",
        "Tell how often a model gives a correct translation a higher probability than one with an "
        "error, by type of error and by distance or position. Log probabilities are compared as "
        "they are, and divided by length; equal ones count as wrong.",
        "dtmt contrast --task general_ende lingeval97.json",
        "dtmt contrast --saved-model a/1 --plot a.svg sets/*.tsv.gz",
        model=options.OF_PRESET,
    )
    parser.add_argument(
        "sets",
        nargs="+",
        type=Path,
        metavar="SET",
        help="LingEval97's JSON, or a table with tabs whose first line names the columns set, "
        "source, correct, contrastive and, perhaps, distance; plain, .gz or .xz",
    )
    parser.add_argument(
        "--saved-model",
        type=Path,
        action="append",
        metavar="DIR",
        help="an exported version's folder; may be given several times, each is then a line of "
        "the plot (default: the run's checkpoint)",
    )
    parser.add_argument(
        "--text",
        type=Path,
        nargs=2,
        metavar=("SOURCE", "TARGET"),
        help="lines that stand for the texts of the one JSON set, such as truecased ones: of each "
        "sentence the correct translation, then one with each error",
    )
    parser.add_argument(
        "--batch-size",
        type=int,
        default=DecodingConfig.batch_size,
        metavar="N",
        help="pairs scored at once (default: %(default)s)",
    )
    group = parser.add_argument_group("report")
    group.add_argument(
        "--by",
        choices=("distance", "position"),
        default="distance",
        help="distance: words between the two that should agree, if the set has it; position: "
        "number of the first word that differs (default: %(default)s)",
    )
    group.add_argument(
        "--bin-width",
        type=int,
        default=4,
        metavar="N",
        help="words of a row (default: %(default)s)",
    )
    group.add_argument(
        "--plot",
        type=Path,
        metavar="FILE",
        help="draw the accuracies; the name ends in .svg, .png or .pdf",
    )
    group.add_argument(
        "--json", type=Path, metavar="FILE", help="also write the accuracies to this file"
    )
    group.add_argument(
        "--scores",
        type=Path,
        metavar="FILE",
        help="write what each pair was scored with, with tabs",
    )
    return parser


def _check(args: argparse.Namespace) -> None:
    """Raises a UserError if arguments do not fit, before anything is read or scored."""
    common.check_range(args, "batch_size", 1, MAX_BATCH_SIZE)
    common.check_range(args, "bin_width", 1, MAX_BIN_WORDS)
    if args.text and (len(args.sets) != 1 or not _is_json(args.sets[0])):
        raise UserError("--text goes with one JSON set.")
    lines.check_picture(args.plot)
    lines.check_different("The set", args.sets)
    from dtmt_tf.translator.places import find_model

    folders = args.saved_model or []
    # all are there before the first is scored, and are different ones
    lines.check_different("--saved-model", [find_model(folder) for folder in folders])
    for folder in folders:
        common.refuse_beside(str(folder), args)
    read = [*args.sets, *(args.text or ())]
    lines.check_outputs(read, {f"--{each}": getattr(args, each) for each in OUTPUTS})


def _is_json(path: Path) -> bool:
    return ".json" in path.suffixes


def read_set(path: Path, text: Sequence[Path] | None = None) -> list[Contrast]:
    """Returns the contrasts of a set, in JSON or a table; see the help of `--text`."""
    from dtmt_tf.data.lines import read_whole
    from dtmt_tf.evaluation.contrast_sets import read_json, read_table

    if not _is_json(path):
        return read_table(lines.read_text(path), str(path))
    prepared = tuple(lines.read_text(each) for each in text) if text else None
    return read_json(read_whole(path), str(path), prepared)  # type: ignore[arg-type]


def _scorers(args: argparse.Namespace) -> Iterator[tuple[str, Callable[..., list[Any]]]]:
    """Yields the models' names, and what scores pairs; one model is in memory at a time."""
    from dtmt_tf.batched_lines import score_pairs
    from dtmt_tf.runs import best_model, score_function
    from dtmt_tf.translator import Translator

    for folder in (args.saved_model or [])[1:]:  # else told after hours of scoring the first
        Translator.load(folder).score(["a"], ["a"])
    for folder in args.saved_model or ():
        translator = Translator.load(folder, args.batch_size)

        def scored(pairs: list[tuple[str, str]], by: Translator = translator) -> list[Any]:
            found = by.score(*(list(side) for side in zip(*pairs, strict=True)))
            return [(each.log_probability, each.tokens) for each in found]

        yield str(folder), scored
    if args.saved_model:
        return
    run = common.open_run(args)
    run.check_trained()
    name, score = str(run.folder), score_function(run, best_model(run)[0])
    yield name, lambda pairs: score_pairs(pairs, score, args.batch_size, name)


def _row(name: str, contrast: Contrast, scores: Any) -> list[str]:
    distance = "" if contrast.distance is None else str(contrast.distance)
    cells = [name, contrast.kind, str(contrast.position), distance]
    for log_probability, tokens in scores:
        cells += [f"{log_probability:.4f}", str(tokens)]
    return cells
