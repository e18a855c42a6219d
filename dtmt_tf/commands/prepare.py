"""Checks a corpus, builds its sub-words and its records, without training."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from dtmt_tf import startup
from dtmt_tf.commands import common, lines, options, own_text
from dtmt_tf.commands.parser import Parser
from dtmt_tf.errors import UserError
from dtmt_tf.files import clear_leftovers, write_atomically

if TYPE_CHECKING:
    from dtmt_tf.config import DataConfig
    from dtmt_tf.data.corpus import Corpus

SIDES = "source", "target"


def command(arguments: Sequence[str] | None = None) -> int:
    """Loads, checks, trains sub-words, cuts the training split up, prints statistics."""
    args = _parser().parse_args(arguments)
    if args.text and args.beam_options:
        raise UserError("--beam-options writes records, --text does not. Leave one of them out.")
    if args.text:
        lines.check_place("--text", args.text / "train.source")
    args.restart = args.text is not None  # the text is that of a new run
    is_own = own_text.is_named(args)
    startup.start_tensorflow()

    from dtmt_tf.data.beam import write_shards
    from dtmt_tf.runs import Run

    experiment, origins = (own_text if is_own else common).experiment(args)
    if args.text:
        check_text(args.text, experiment.data, common.data_dir(args))
    folder = common.run_folder(args)
    run = Run(experiment, folder, *common.places(args), origins)
    if args.text:
        write_text(run.corpus, args.text)
        print(f"Text: {args.text}")
        return 0
    beam = args.beam_options
    with run.claimed():
        run.prepare(functools.partial(write_shards, beam) if beam else None)
        statistics = run.statistics()
    print(statistics)
    print(f"\nSub-words: {run.work}\nShards: {run.shards.folder}")
    return 0


def _parser() -> Parser:
    parser = options.run_parser(
        "dtmt prepare",
        "Check a task's corpus, build its sub-words, write its training pairs as the records that "
        "training streams, and print statistics. dtmt train does the same before it trains. After "
        "a stop the same command resumes; it also makes records again whose damaged files you "
        "removed.",
        "dtmt prepare --task multi30k_ende",
        "dtmt prepare --task wmt14_ende \\",
        "    --beam-options runner=FlinkRunner flink_master=host:8081",
        "dtmt prepare --task multi30k_ende --text captions",
        unnamed=options.OF_OWN_TEXT,
    )
    own_text.add_own_text(parser)
    parser.add_argument(
        "--beam-options",
        nargs="+",
        metavar="NAME=VALUE",
        help="write the shards in an Apache Beam pipeline with these options of Beam, such as "
        "runner=DirectRunner; its workers must see the same folders",
    )
    parser.add_argument(
        "--text",
        type=Path,
        metavar="FOLDER",
        help="write the pairs of each split, one a line, to FOLDER/train.source, "
        "FOLDER/train.target, FOLDER/validation.source and so on, and stop",
    )
    options.add_config(parser)
    options.add_set(parser)
    parser.set_defaults(init_from=None, restart=False, devices=(), strategy="mirrored")
    return parser


def check_text(folder: Path, data: DataConfig, data_dir: Path | None) -> None:
    """Raises a UserError if `write_text` would write over a file that the settings name.

    Args:
        folder: Where the text is to go.
        data: Names the files.
        data_dir: Where they may lie, too.
    """
    from dtmt_tf.data.own_files import named_files

    files = named_files(data)
    named = itertools.chain.from_iterable(itertools.chain(*files.values()))
    read = [place / name for name in named for place in (Path(), data_dir) if place]
    for path, split, side in itertools.product(read, files, SIDES):
        if lines.same_file(path, folder / f"{split}.{side}"):
            raise UserError(
                f"--text {folder} would write over {path}, which is read. Name another folder."
            )


def write_text(corpus: Corpus, folder: Path) -> None:
    """Writes source and target of each split, a line each, as files in a folder."""
    clear_leftovers(folder)
    for split in corpus.sizes:
        for side, name in enumerate(SIDES):

            def write(file: BinaryIO, split: str = split, side: int = side) -> None:
                for pair in corpus.stream(split):
                    # neither could be read again
                    line = pair[side].replace("\n", " ").replace("\0", " ")
                    file.write(line.encode() + b"\n")

            write_atomically(folder / f"{split}.{name}", write)
