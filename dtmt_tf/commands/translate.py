"""Translates, completes or scores text line by line: at a prompt, in a pipe, from files."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import hashlib
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dtmt_tf import startup
from dtmt_tf.commands import common, lines, options
from dtmt_tf.commands.parser import Parser
from dtmt_tf.commands.shown import Unanswered, as_json, as_row
from dtmt_tf.commands.terms import read_glossary, read_words
from dtmt_tf.config import DecodingConfig
from dtmt_tf.errors import UserError
from dtmt_tf.refusals import Refusals
from dtmt_tf.terminal import line_bar

if TYPE_CHECKING:
    from dtmt_tf.translator import Score, Translation, Translator

MAX_BATCH_SIZE = 10_000  # lines in a batch
MOST_NBEST = 1000
DRAWN = ("temperature", "top_k", "top_p", "seed")  # options of --sample
BETWEEN = "\n"  # a line and what goes with it


def command(arguments: Sequence[str] | None = None) -> int:
    """Answers lines as they come, or as they are typed."""
    parser = _parser()
    args = parser.parse_args(arguments)
    common.check_range(args, "batch_size", 1, MAX_BATCH_SIZE)
    common.check_range(args, "nbest", 1, MOST_NBEST)
    args.nbest = args.nbest or 0
    if args.score and (args.prefix or args.nbest or args.align or args.scores):
        parser.error("--score goes with neither --prefix, --nbest, --align nor --scores")
    if args.prefix and (args.nbest or args.align):
        parser.error("--prefix goes with neither --nbest nor --align")
    lines.check_tag(args.tag)
    if args.tag and (args.score or args.json):
        parser.error("--tag goes with neither --score nor --json")
    chosen = {name: value for name in DRAWN if (value := getattr(args, name)) is not None}
    for name in ("sample", "glossary", "vocabulary"):
        if getattr(args, name) and (args.score or args.prefix or args.align):
            parser.error(f"--{name} goes with neither --score, --prefix nor --align")
    if args.sample and args.glossary:
        parser.error("--sample does not go with --glossary")
    if chosen and not args.sample:
        parser.error(f"--{next(iter(chosen)).replace('_', '-')} goes with --sample")
    if args.input and args.input.is_dir():
        raise UserError(f"{args.input} is a folder. A model's folder goes behind --model.")
    lines.check_files(args, args.score, args.prefix, args.glossary, args.vocabulary)
    # read once: a pipe has them once
    args.terms = read_glossary(args.glossary) if args.glossary else {}
    args.words = read_words(args.vocabulary) if args.vocabulary else None
    args.total = _total(args)
    startup.start_tensorflow()

    from dtmt_tf.translator import Sampling, Translator

    args.sample = Sampling(**chosen) if args.sample else None
    translator = Translator.load(common.model_place(args), args.batch_size)
    args.constraints = None
    if args.glossary or args.vocabulary:
        args.constraints = translator.constraints(args.terms, args.words)
    searched = args.sample or args.constraints
    in_columns = args.json or args.scores or args.show_source or args.tag
    at_prompt = sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()
    if at_prompt and not (
        args.input or args.output or args.score or args.prefix or searched or in_columns
    ):
        from dtmt_tf.commands.prompt import converse

        converse(translator, args.nbest, args.align)
        return 0
    _answer_lines(translator, args)
    return 0


def _answer_lines(translator: Translator, args: argparse.Namespace) -> None:
    """Writes a line for each line of the input."""
    from dtmt_tf.resumable_lines import ResumableLines

    text = lines.Lines(args.input, args.replace_invalid)
    beside = args.score or args.prefix
    rows = _pairs(text, beside, args.replace_invalid) if beside else iter(text)
    settings = {  # --skip-refused is none: it goes on where a refusal has ended the command
        "model": digest(translator.folder),
        **{name: getattr(args, name) for name in ("scores", "show_source", "nbest", "align")},
        **{name: bool(getattr(args, name)) for name in ("json", "score", "prefix")},
        **({"tag": args.tag} if args.tag else {}),
        **({"sample": dataclasses.asdict(args.sample)} if args.sample else {}),
        **({"glossary": args.terms} if args.glossary else {}),
        **({"vocabulary": args.words} if args.vocabulary else {}),
    }
    show = functools.partial(as_json, nbest=args.nbest > 0) if args.json else functools.partial(
        as_row, show_source=args.show_source, scores=args.scores, tag=args.tag
    )  # fmt: skip
    title = lines.bar_title(args, args.total)
    with (
        Refusals(args.skip_refused) as refusals,
        ResumableLines(args.output, settings) as output,
    ):

        def refuse(row: str, error: UserError) -> Unanswered:
            refusals.note(output.done + 1, error)
            return Unanswered(row.partition(BETWEEN)[0])

        rest, answer_all = output.remaining(rows), _answerer(translator, args)
        refusals.go_on_after(output.done)
        with line_bar(args.total, title, output.done) as bar:
            for answer in translator.paced(rest, answer_all, text.ready, refuse):
                output.write([show(answer)])
                bar.update()


def _answerer(
    translator: Translator, args: argparse.Namespace
) -> Callable[[list[str]], Sequence[Translation | Score]]:
    """Returns what answers lines, or pairs of them."""
    if not (args.score or args.prefix):
        return functools.partial(
            translator,
            nbest=args.nbest,
            align=args.align,
            sample=args.sample,
            constraints=args.constraints,
        )

    def answer(rows: list[str]) -> Sequence[Any]:
        first, second = map(list, zip(*(row.split(BETWEEN) for row in rows), strict=True))
        if args.score:
            return translator.score(first, second)
        return translator(first, prefixes=second)

    return answer


def _total(args: argparse.Namespace) -> int | None:
    """Returns how many lines there are, if that can be known before they are read.

    Raises:
        UserError: If a file of prefixes or translations has another number.
    """
    total = lines.count(args.input) if args.input else None
    beside = args.score or args.prefix
    if total is not None and beside and lines.count(beside) not in (total, None):
        for _ in lines.in_pairs(lines.Lines(args.input, True), lines.Lines(beside, True)):
            pass
    return total


def _pairs(text: lines.Lines, path: Path, replace: bool) -> Iterator[str]:
    """Yields each line with that of another file."""
    for pair in lines.in_pairs(text, lines.Lines(path, replace)):
        yield BETWEEN.join(pair)


def digest(folder: Path) -> str:
    """Returns a hash of a SavedModel: its graph, and the checksums of its weights."""
    found = hashlib.sha256()
    for name in ("saved_model.pb", "variables/variables.index"):
        path = folder / name
        found.update(path.read_bytes() if path.exists() else b"")
    return found.hexdigest()


def _parser() -> Parser:
    parser = options.run_parser(
        "dtmt translate",
        "Translate text with an exported model. At a terminal each line is answered as it is "
        "typed; from a pipe or a file as many lines come out as go in, an empty line for an empty "
        "line, as soon as they are translated.",
        "dtmt translate",
        "echo 'March 5, 2031' | dtmt translate --nbest 3 --json",
        "dtmt translate --task multi30k_ende -o out.de in.en",
        "dtmt translate --sample --top-k 10 --seed 1 -o out.de in.en",
        "dtmt translate --model cldr_ende/demo --score out.de in.en",
        model="a run's name, task/name, the folder of a run or of an exported version, or a "
        "pre-trained model's name in the catalogue that DTMT_MODELS names (default: the task's "
        "model)",
    )
    lines.add_files(parser)
    asked = parser.add_argument_group("what is asked")
    asked.add_argument(
        "--nbest",
        type=int,
        metavar="K",
        help="up to K best translations, divided by tabs; K is at most the beam size of the "
        "export, but with --sample, --glossary or --vocabulary",
    )
    asked.add_argument(
        "--align",
        action="store_true",
        help="append a tab and the alignment of words, such as 0-0 2-1: source word 2 (from 0) "
        "goes with target word 1",
    )
    asked.add_argument(
        "--prefix",
        type=Path,
        metavar="FILE",
        help="what each translation begins with, line by line",
    )
    asked.add_argument(
        "--score",
        type=Path,
        metavar="FILE",
        help="do not translate: FILE has the translations; write the log probability of each, a "
        "tab, and its number of sub-words",
    )
    held = parser.add_argument_group("what translations are held to")
    held.add_argument(
        "--glossary",
        type=Path,
        metavar="FILE",
        help="lines of a source term, a tab and a target term; where a line has a source term, its "
        "translation has the target term; other lines are translated as usual",
    )
    held.add_argument(
        "--vocabulary",
        type=Path,
        metavar="FILE",
        help="words that translations may use: only their sub-words are written",
    )
    drawn = parser.add_argument_group("samples instead of the best translations")
    drawn.add_argument(
        "--sample",
        action="store_true",
        help="draw translations at random, such as for back-translation; --nbest K draws K of "
        "each line",
    )
    drawn.add_argument(
        "--temperature",
        type=float,
        metavar="T",
        help="divide logits by T; below 1 probable sub-words become more probable (default: 1)",
    )
    drawn.add_argument(
        "--top-k",
        type=int,
        metavar="K",
        help="draw from the K most probable sub-words alone (default: all)",
    )
    drawn.add_argument(
        "--top-p",
        type=float,
        metavar="P",
        help="draw from the fewest sub-words that together have probability P (default: 1)",
    )
    drawn.add_argument(
        "--seed",
        type=int,
        metavar="N",
        help="a line has the same samples each time, and others with another N (default: 0)",
    )
    shown = parser.add_argument_group("how it is written")
    shown.add_argument("--json", action="store_true", help="an object a line, with all there is")
    shown.add_argument("--scores", action="store_true", help="append a tab and the score")
    shown.add_argument(
        "--tag",
        default="",
        metavar="TAG",
        help="put this and a blank before each translation, such as <bt> before back-translations",
    )
    shown.add_argument("--show-source", action="store_true", help="put source and tab before")
    parser.add_argument(
        "--batch-size",
        type=int,
        default=DecodingConfig.batch_size,
        metavar="N",
        help="lines the model is given at once; how many of them are searched together was fixed "
        "at export (decoding.batch_size; default: %(default)s)",
    )
    return parser
