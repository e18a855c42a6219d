"""Scores a trained run, or compares files of translations."""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from dtmt_tf import startup
from dtmt_tf.commands import common, lines, options
from dtmt_tf.commands.parser import Parser
from dtmt_tf.errors import UserError
from dtmt_tf.files import write_atomically, write_json

NO_TEST_SETS = ("train", "validation")
FEW = 20  # sentences

logger = logging.getLogger(__name__)


def command(arguments: Sequence[str] | None = None) -> int:
    """Translates and scores a split, or scores files."""
    args = _parser().parse_args(arguments)
    of_files = bool(args.hypotheses or args.references)
    if args.run and of_files:
        raise UserError(
            f"--references and --hypotheses score files. Leave out {args.run}, which stands where "
            "a run's folder does."
        )
    if of_files and args.split:
        raise UserError("--split is for runs; --references and --hypotheses score files.")
    args.split = args.split or ["test"]
    for option in ("task", "model", "name"):
        if of_files and getattr(args, option) is not None:
            raise UserError(f"--{option} names a run; --references and --hypotheses score files.")
    startup.start_tensorflow()

    records = _files(args) if of_files else _splits(args)
    if args.json:
        write_json(args.json, records)
    return 0


def _parser() -> Parser:
    parser = options.run_parser(
        "dtmt evaluate",
        "Score a run on a split of its corpus by BLEU, chrF2 and TER, with sacreBLEU's signatures "
        "and bootstrap intervals; or score files of translations against references, several files "
        "by paired bootstrap. With several test sets, also print the mean.",
        "dtmt evaluate --task multi30k_ende --split validation",
        "dtmt evaluate saved_models/custom/mine --split validation test",
        "dtmt evaluate --references ref.de --hypotheses base.de new.de",
        "dtmt evaluate --references ref.de --hypotheses base.de new.de \\",
        "    --sources text.en --page compared.html",
        "dtmt evaluate --references MT02.en? --hypotheses MT02.out",
        model=options.OF_PRESET,
    )
    options.add_run(parser)
    parser.add_argument(
        "--split",
        nargs="+",
        metavar="NAME",
        help="train, validation, test or those of data.extra_tests (default: test)",
    )
    parser.add_argument(
        "--json",
        type=Path,
        metavar="FILE",
        help="also write the scores to this file; of several test sets also their mean",
    )
    parser.add_argument(
        "--comet",
        metavar="MODEL",
        help="also score a run, or one file with --sources, by this COMET model, such as "
        "Unbabel/wmt22-comet-da, or a checkpoint's path; needs pip install unbabel-comet",
    )
    group = parser.add_argument_group("files instead of a run")
    group.add_argument(
        "--references",
        type=Path,
        nargs="+",
        action="append",
        metavar="FILE",
        help="reference translations, one file or several of the same text; given again, with "
        "--hypotheses, for another test set",
    )
    group.add_argument(
        "--hypotheses",
        type=Path,
        nargs="+",
        action="append",
        metavar="FILE",
        help="translations; the first file is the baseline",
    )
    group.add_argument(
        "--tokenize",
        metavar="NAME",
        help="sacreBLEU tokenizer; none for tokenised text; multi-bleu for tokenised text as "
        "Moses's multi-bleu.perl scores it (default: 13a)",
    )
    group.add_argument(
        "--page",
        type=Path,
        metavar="FILE",
        help="of several --hypotheses, also write a page: scores, and the sentences that differ "
        "most from the baseline's, side by side; its name ends in .html",
    )
    group.add_argument(
        "--sources", type=Path, metavar="FILE", help="the source text, for --page and --comet"
    )
    group.add_argument("--lowercase", action="store_true", help="score without regard to case")
    options.add_set(
        parser,
        "change decoding.*, evaluation.*, training.average* or data.extra_tests; the saved "
        "translations and scores of the split then come from these settings",
    )
    return parser


def _files(args: argparse.Namespace) -> Any:
    """Scores or compares files, prints that, and returns it."""
    from dtmt_tf.evaluation import compare_systems, format_comparison, format_scores
    from dtmt_tf.evaluation import score_hypotheses as score
    from dtmt_tf.evaluation.comet import Comet, with_comet
    from dtmt_tf.evaluation.scores import TOKENIZER

    _check_files(args)
    comet = Comet(args.comet) if args.comet else None
    sources = lines.read_text(args.sources) if args.sources else []
    how: Any = {"tokenize": args.tokenize or TOKENIZER, "lowercase": args.lowercase}
    found: list[Any] = []
    for reference_files, files in zip(args.references, args.hypotheses, strict=True):
        references = [lines.read_text(path) for path in reference_files]
        _check_sources(args, sources, references)
        systems = {str(path): lines.read_text(path) for path in files}
        if len(args.references) > 1:
            print(f"{chr(10) * bool(found)}{reference_files[0]}")
        if len(systems) > 1:
            if len(references[0]) < FEW:
                logger.warning(
                    "%d sentences are too few to judge by: their resamples hardly differ, so that "
                    "small p-values say nothing.",
                    len(references[0]),
                )
            found.append(compare_systems(systems, *references, **how))
            print(format_comparison(found[-1]))
            if args.page:
                _write_page(args, found[-1], systems, references, sources)
        else:
            (hypotheses,) = systems.values()
            found.append(score(hypotheses, *references, full=True, **how))
            if comet:
                found[-1] = with_comet(found[-1], comet, sources, hypotheses, references[0])
            print(format_scores(found[-1]))
    sets = [str(files[0]) for files in args.references]
    return _together(sets, [str(path) for path in args.hypotheses[0]], found)


def _together(
    sets: Sequence[str], systems: Sequence[str], found: list[Any], no_tests: Sequence[str] = ()
) -> Any:
    """Returns the scores of one set, or those of several by name, with the tests' printed mean."""
    from dtmt_tf.evaluation import format_means

    if len(found) == 1:
        return found[0]
    named = [*zip(sets, found, strict=True)]
    record = {"sets": [{"name": name, "scores": one} for name, one in named]}
    tests = [one for name, one in named if name not in no_tests]
    if len(tests) < 2:
        return record
    bleu = [[each.bleu for each in (one if isinstance(one, list) else [one])] for one in tests]
    means = [fmean(values) for values in zip(*bleu, strict=True)]
    print(f"\n{format_means(systems, means, len(tests))}")
    return {**record, "mean_bleu": dict(zip(systems, means, strict=True))}


def _check_sources(
    args: argparse.Namespace, sources: list[str], references: list[list[str]]
) -> None:
    """Raises a UserError if there are more or fewer sources than references."""
    if args.sources and len(sources) != len(references[0]):
        raise UserError(
            f"{args.sources} has {len(sources):,} lines and the references "
            f"{len(references[0]):,}. Line n of one should be the source of line n of the other."
        )


def _write_page(
    args: argparse.Namespace,
    scores: Any,
    systems: Mapping[str, list[str]],
    references: list[list[str]],
    sources: list[str],
) -> None:
    """Writes the page about compared systems; tells its name."""
    from dtmt_tf.evaluation import comparison_page

    shared = os.path.commonpath([Path(name).absolute().parent for name in systems])
    short = [os.path.relpath(name, shared) for name in systems]
    facts = comparison_page.Compared(
        [dataclasses.replace(each, name=name) for each, name in zip(scores, short, strict=True)],
        list(systems.values()),
        references,
        sources,
        args.lowercase,
    )
    write_atomically(args.page, comparison_page.page(facts).encode())
    print(f"\nSide by side: {args.page}")


def _splits(args: argparse.Namespace) -> Any:
    """Scores splits of a run, prints that, and returns it."""
    from dtmt_tf.data.filters import untagged
    from dtmt_tf.evaluation import format_scores
    from dtmt_tf.evaluation.comet import Comet, with_comet
    from dtmt_tf.runs import check_split, evaluate, translations_file, translations_of

    if args.page or args.sources:
        raise UserError("--page and --sources go with --references and --hypotheses.")
    if args.tokenize or args.lowercase:
        raise UserError(
            "--tokenize and --lowercase are for files; of a run, --set evaluation.tokenize=NAME "
            "and --set evaluation.lowercase=true."
        )
    if folders := [split for split in args.split if os.sep in split]:
        raise UserError(f"--split {folders[0]}: a run's folder comes before --split.")
    if ours := [text for text in args.set if text.startswith("export.")]:
        raise UserError(
            f"--set {ours[0]} changes what is exported; a run is scored by its checkpoint. To "
            "score the export: dtmt export, dtmt translate --model, then dtmt evaluate "
            "--hypotheses."
        )
    run = common.open_run(args, args.set)
    lines.check_outputs((), {"--json": args.json})
    comet = Comet(args.comet) if args.comet else None  # before hours of translating
    for split in args.split:
        check_split(run, split)
    found: list[Any] = []
    for split in dict.fromkeys(args.split):
        if len(args.split) > 1:
            print(f"{chr(10) * bool(found)}{split}")
        found.append(evaluate(run, split))
        if comet:
            sources, references = run.corpus.lines(split)
            tags = run.experiment.data.reserved_symbols  # they are no part of what is said
            sources = [untagged(source, tags) for source in sources]
            translations = translations_of(run, split)
            found[-1] = with_comet(found[-1], comet, sources, translations, references)
        print(format_scores(found[-1]))
        print(f"\nTranslations: {translations_file(run, split)}")
    return _together([*dict.fromkeys(args.split)], [str(run.folder)], found, NO_TEST_SETS)


def _check_files(args: argparse.Namespace) -> None:
    """Raises a UserError if files do not belong together, or would be written over."""
    if not (args.hypotheses and args.references):
        raise UserError("--hypotheses and --references go together.")
    if args.set:
        raise UserError("--set is for runs; of files, --tokenize and --lowercase can be set.")
    if len(args.references) != len(args.hypotheses):
        raise UserError(
            "Each test set has its --references and its --hypotheses. Received: "
            f"{len(args.references)} and {len(args.hypotheses)} of them."
        )
    if len({len(files) for files in args.hypotheses}) > 1:
        raise UserError("Each test set should have the same number of --hypotheses.")
    if args.page and (len(args.hypotheses) > 1 or len(args.hypotheses[0]) < 2):
        raise UserError("--page compares two or more --hypotheses on one test set.")
    if args.sources and not (args.page or args.comet):
        raise UserError("--sources goes with --page or --comet.")
    if args.comet and (len(args.hypotheses) > 1 or len(args.hypotheses[0]) > 1 or not args.sources):
        raise UserError("--comet scores one file of --hypotheses, with its --sources.")
    if args.comet and len(args.references[0]) > 1:
        raise UserError(
            f"--comet compares with one reference. Received: {len(args.references[0])}. Name one "
            "of the files after --references, or leave out --comet."
        )
    lines.check_page(args.page)
    for option in ("references", "hypotheses"):
        for files in getattr(args, option):
            lines.check_different(f"--{option}", files)
    read = [*itertools.chain(*args.references, *args.hypotheses)]
    read += [args.sources] if args.sources else []
    lines.check_outputs(read, {"--json": args.json, "--page": args.page})
