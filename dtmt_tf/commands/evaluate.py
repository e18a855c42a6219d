"""Scores a trained run, or compares files of translations."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Sequence
from pathlib import Path

from dtmt_tf import startup
from dtmt_tf.commands import common, lines
from dtmt_tf.errors import UserError


def command(arguments: Sequence[str] | None = None) -> int:
    """Translates and scores a split, or scores files."""
    parser = common.run_parser(
        "dtmt evaluate",
        "Score a run on a split of its corpus, with sacreBLEU's signatures; or score files of "
        "translations against references, several of them by paired bootstrap.",
        "dtmt evaluate --task multi30k_ende --split validation",
        "dtmt evaluate --references ref.de --hypotheses base.de new.de",
    )
    parser.add_argument(
        "--split",
        default="test",
        metavar="NAME",
        help="train, validation, test or one of data.extra_tests (default: %(default)s)",
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="also write the scores to this file"
    )
    group = parser.add_argument_group("files instead of a run")
    group.add_argument("--references", type=Path, metavar="FILE", help="the reference translations")
    group.add_argument(
        "--hypotheses",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="translations; the first file is the baseline",
    )
    group.add_argument(
        "--tokenize",
        metavar="NAME",
        help="sacreBLEU tokenizer; none for tokenised text (default: 13a)",
    )
    common.add_set(parser, "change decoding.*, evaluation.*, training.average* or data.extra_tests")
    args = parser.parse_args(arguments)
    startup.start_tensorflow()

    from dtmt_tf.evaluation import (
        compare_systems,
        format_comparison,
        format_scores,
        score_hypotheses,
        write_json,
    )
    from dtmt_tf.runs import Run, evaluate

    records: object
    if args.hypotheses or args.references:
        if not (args.hypotheses and args.references):
            raise UserError("--hypotheses and --references go together.")
        if args.set:
            raise UserError("--set is for runs; of files, --tokenize is all that can be set.")
        _check_files(args)
        references = lines.read_text(args.references)
        tokenize = args.tokenize or "13a"
        systems = {str(path): lines.read_text(path) for path in args.hypotheses}
        if len(systems) > 1:
            records = compare_systems(systems, references, tokenize=tokenize)
            print(format_comparison(records))
        else:
            hypotheses = next(iter(systems.values()))
            records = score_hypotheses(hypotheses, references, tokenize=tokenize)
            print(format_scores(records))
    else:
        if args.tokenize:
            raise UserError("--tokenize is for files; of a run, --set evaluation.tokenize=NAME.")
        run = Run.open(common.run_folder(args), common.data_dir(args), common.cache_dir(), args.set)
        records = evaluate(run, args.split)
        print(format_scores(records))
        print(f"\nTranslations: {run.work / (args.split + '.txt')}")
    if args.json:
        write_json(args.json, records)
    return 0


def _check_files(args: argparse.Namespace) -> None:
    """Raises a UserError if a file is named twice, or would be written over."""
    for first, second in itertools.combinations(args.hypotheses, 2):
        if lines.same_file(first, second):
            raise UserError(
                f"--hypotheses names a file twice, {second}; there is nothing to compare."
            )
    for path in [args.references, *args.hypotheses] if args.json else []:
        if lines.same_file(path, args.json):
            raise UserError(f"--json would write over {path}.")
