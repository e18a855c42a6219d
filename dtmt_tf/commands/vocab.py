"""Tells what a vocabulary holds and how it fits a text."""

from __future__ import annotations

import argparse
import itertools
import logging
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dtmt_tf import startup
from dtmt_tf.commands import common, lines, options
from dtmt_tf.commands.parser import Parser
from dtmt_tf.config import UNK_ID
from dtmt_tf.data.lines import LINES_READ, PACKED
from dtmt_tf.errors import UserError
from dtmt_tf.files import write_atomically, write_json
from dtmt_tf.terminal import columns

if TYPE_CHECKING:
    from dtmt_tf.text import Subwords

MAX_PIECES_SHOWN = 10_000

logger = logging.getLogger(__name__)


def command(arguments: Sequence[str] | None = None) -> int:
    """Loads, counts, prints."""
    args = _parser().parse_args(arguments)
    args.place = common.find_run(args.place, args.output_dir)
    _check(args)
    startup.start_tensorflow()

    found = {}
    sides, texts = _sides(args)
    for name, subwords, text in sides:
        found[name] = facts(subwords, text, args.sentence, args.top)
        print(f"{chr(10) * (len(found) > 1)}{name}\n{format_facts(found[name])}")
    if args.json:
        write_json(args.json, found)
    if args.dictionary:
        _write_dictionary(args.dictionary, *texts)
    return 0


def _parser() -> Parser:
    parser = Parser(
        "dtmt vocab",
        "Describe the sub-words of a run, or of a SentencePiece file: their kinds, the most and "
        "the least frequent, how much of a text they cover, what they do not know, and how a "
        "sentence is cut. The text is --text, or else the run's training pairs if they are "
        f"found: every n-th if there are more than {LINES_READ:,}. With --dictionary, also write "
        "how the words of the text translate.",
        "dtmt vocab saved_models/multi30k_ende/dtmt_tied",
        'dtmt vocab RUN --text new.en new.de --sentence "Two dogs run."',
        "dtmt vocab RUN/train/source.spm --text new.en",
        "dtmt vocab RUN --dictionary words.tsv",
    )
    parser.add_argument(
        "place",
        type=Path,
        metavar="RUN|FILE",
        help="a run's folder, or its name where no other task has it, or a file",
    )
    parser.add_argument(
        "--text",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="count in this text; if each side has its own sub-words, name two files, source "
        "first; plain, .gz or .xz",
    )
    parser.add_argument(
        "--sentence", action="append", default=[], metavar="TEXT", help="show how it is cut"
    )
    parser.add_argument(
        "--top",
        type=int,
        default=20,
        metavar="N",
        help="show so many of the most and of the least frequent (default: %(default)s)",
    )
    parser.add_argument(
        "--dictionary",
        type=Path,
        metavar="FILE",
        help="write the most probable translation of each word of the text, source and target, "
        "a tab between: what decoding.dictionary reads",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write it to this file")
    options.add_folders(parser)
    return parser


def facts(
    subwords: Subwords, text: Iterable[str] | None, sentences: Sequence[str], top: int
) -> dict[str, Any]:
    """Returns what there is to tell of sub-words, as plain values.

    Args:
        subwords: The model.
        text: Lines to count in, if there are.
        sentences: Lines to show the pieces of.
        top: How many of the most and of the least frequent pieces to name.
    """
    from dtmt_tf.text import inspection

    names = inspection.names(subwords)
    found: dict[str, Any] = {"size": subwords.size, "kinds": inspection.kinds(subwords)}
    if text is not None:
        usage = inspection.usage(subwords, text)
        if not usage.total:
            raise UserError("The text that was to be counted is empty. --text names other files.")
        order = usage.most_frequent()
        ordered = [(names[k], int(usage.counts[k])) for k in order]
        used = [pair for pair in ordered if pair[1]]
        never = [names[k] for k in order if not usage.counts[k] and k > UNK_ID]
        unknown = int(usage.counts[UNK_ID])
        found["text"] = {
            "lines": usage.lines,
            "words": usage.words,
            "pieces": usage.total,
            "pieces_a_word": round(usage.total / max(usage.words, 1), 3),
            "characters_a_piece": round(usage.characters / max(usage.total, 1), 3),
            "used": len(used),
            "pieces_of_share": {
                f"{share:.0%}": usage.pieces_of_share(share) for share in inspection.SHARES
            },
            "unknown": unknown,
            "unknown_percent": round(100 * unknown / max(usage.total, 1), 4),
            "unknown_lines": usage.unknown_lines,
            "unknown_texts": dict(usage.unknown.most_common(top)),
            "most_frequent": dict(used[:top]),
            "least_frequent": dict(used[::-1][:top]),
            "never": len(never),
            "never_such_as": never[:top],
        }
    if sentences:
        found["sentences"] = {line: inspection.split(subwords, line) for line in sentences}
    return found


def format_facts(found: dict[str, Any]) -> str:
    """Returns facts as lines of at most 80 columns, where no piece is longer."""
    shown = ", ".join(f"{count:,} {name}" for name, count in found["kinds"].items())
    rows = [("pieces", f"{found['size']:,}: {shown}")]
    if text := found.get("text"):
        shares = ", ".join(
            f"{count:,} make {share} of the text"
            for share, count in text["pieces_of_share"].items()
        )
        rows += [
            ("text", f"{text['lines']:,} lines, {text['words']:,} words, {text['pieces']:,} "
             f"pieces: {text['pieces_a_word']:.2f} a word, {text['characters_a_piece']:.2f} "
             "characters each"),
            ("used", f"{text['used']:,} of {found['size']:,} pieces; {shares}"),
            ("unknown", f"{text['unknown_percent']:.3f} % of the pieces, in "
             f"{text['unknown_lines']:,} lines"),
        ]  # fmt: skip
        for key, title in (
            ("unknown_texts", "such as"),
            ("most_frequent", "most"),
            ("least_frequent", "least"),
        ):
            if text[key]:
                counted = (f"{_shown(name)} {count:,}" for name, count in text[key].items())
                rows.append((title, "   ".join(counted)))
        if text["never"]:
            some = map(_shown, text["never_such_as"])
            rows.append(("never", f"{text['never']:,}, such as {'   '.join(some)}"))
    rows += [("cut", " ".join(pieces)) for pieces in found.get("sentences", {}).values()]
    return "\n".join(
        textwrap.fill(
            value, columns(), initial_indent=f"  {title:<8} ", subsequent_indent=" " * 11,
            break_long_words=False, break_on_hyphens=False,
        )
        for title, value in rows
    )  # fmt: skip


def _shown(text: str) -> str:
    """Returns a text, or the numbers of its characters if they would not be seen."""
    if text.isprintable() and not text.isspace():
        return text
    return " ".join(f"U+{ord(character):04X}" for character in text)


def _check(args: argparse.Namespace) -> None:
    """Raises a UserError if arguments do not fit, before anything is read."""
    common.check_range(args, "top", 1, MAX_PIECES_SHOWN)
    written = {"--json": args.json, "--dictionary": args.dictionary}
    if args.dictionary and args.dictionary.suffix in PACKED:
        raise UserError(
            f"--dictionary {args.dictionary}: it is written unpacked. Name "
            f"{args.dictionary.with_suffix('')}."
        )
    lines.check_outputs([args.place, *(args.text or [])], written)
    sides = len(args.text) if args.text else 2 * args.place.is_dir()  # a run has two
    if args.dictionary and sides != 2 and args.place.exists():  # else that is told
        raise UserError(
            "--dictionary needs source and target: a run's, or two files behind --text."
        )


def _sides(
    args: argparse.Namespace,
) -> tuple[list[tuple[str, Subwords, Iterable[str] | None]], Sequence[list[str]]]:
    """Returns each model of sub-words with its name and the text to count in, and all texts."""
    from dtmt_tf.text import Subwords, Vocabulary

    place = args.place
    given = list(map(lines.read_text, args.text or []))
    if place.is_file():
        try:
            subwords = Subwords(place.read_bytes())
        except ValueError as error:
            raise UserError(f"{place} holds no sub-words: {error}.") from error
        return [(str(place), subwords, _joined(given) if given else None)], given
    if not (place / "train" / Vocabulary.FILES[0]).exists():
        raise UserError(
            f"{place} is neither a file nor a run with sub-words of its own. Of an ensemble, "
            "name a member."
        )
    vocabulary = Vocabulary.load(place / "train")
    texts = given or _training_text(args)
    if vocabulary.source is vocabulary.target:
        text = _joined(texts) if texts else None
        return [("source and target", vocabulary.source, text)], texts
    if texts and len(texts) != 2:
        raise UserError(
            f"--text names a file for each side, source and target. Received: {len(given)}."
        )
    models = zip(("source", "target"), (vocabulary.source, vocabulary.target), strict=True)
    return [
        (name, subwords, texts[side] if texts else None)
        for side, (name, subwords) in enumerate(models)
    ], texts


def _joined(texts: Iterable[list[str]]) -> Iterable[str]:
    return itertools.chain.from_iterable(texts)


def _write_dictionary(path: Path, source: list[str], target: list[str]) -> None:
    """Writes the words of source and target that translate each other."""
    from dtmt_tf.data.lexicon import word_dictionary

    if len(source) != len(target):
        raise UserError(
            "--dictionary reads lines that translate each other. The source has "
            f"{len(source):,}, the target {len(target):,}."
        )
    found = word_dictionary(source, target)
    if not found:
        raise UserError("--dictionary: no word of this text has a probable translation.")
    text = "".join(f"{word}\t{translation}\n" for word, translation in sorted(found.items()))
    write_atomically(path, text.encode())
    print(f"{path}: {len(found):,} words")


def _training_text(args: argparse.Namespace) -> Sequence[list[str]]:
    """Returns a run's training text, source and target, or every n-th pair of it.

    Nothing if it is not at hand, unless a dictionary is to be made of it.
    """
    from dtmt_tf.runs import Run

    try:
        return Run.open(args.place, *common.places(args)).corpus.sampled("train", LINES_READ)
    except UserError as error:
        if args.dictionary:
            raise
        logger.warning("Nothing is counted, as the training text is not at hand: %s", error)
        return ()
