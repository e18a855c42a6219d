"""Measures training, translation, input pipeline and export on this machine."""

from __future__ import annotations

import argparse
import contextlib
import platform
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from dtmt_tf import startup
from dtmt_tf.commands import lines, options
from dtmt_tf.commands.parser import Parser
from dtmt_tf.errors import UserError
from pipelines.benchmark import growth, products, speed, timing, translations, updates


@dataclass(frozen=True)
class Preset:
    """A configuration that is measured, on the task multi30k_ende.

    Args:
        model: Preset of the model.
        settings: Changes to model and task.
        updates: Updates in a window.
    """

    model: str
    settings: tuple[str, ...]
    updates: int


# fixed, whatever the task comes to recommend, so that records of different times compare
_SHARED = (
    *("data.max_tokens_per_batch=2048", "training.precision=float32"),
    *("training.r_drop_alpha=0", "training.label_smoothing=0.1", "training.ema_decay=0"),
)
_PAPERS_RATES = (
    *("training.embedding_dropout_rate=0.3", "training.output_dropout_rate=0.3"),
    "training.candidate_dropout_rate=0.1",
)
_SMALL = (*_SHARED, "model.tied_embeddings=all", "data.source_vocab_size=8000")
PRESETS = {
    # as near to the 256-unit models of other systems as DTMT comes
    "small": Preset(
        "dtmt_small",
        (
            *_SMALL,
            *("training.embedding_dropout_rate=0", "training.output_dropout_rate=0"),
            *("training.candidate_dropout_rate=0",),
        ),
        updates=20,
    ),
    "small+": Preset(
        "dtmt_small",
        (
            *_SMALL,
            *("training.embedding_dropout_rate=0.3", "training.output_dropout_rate=0.4"),
            *("training.candidate_dropout_rate=0.25",),
        ),
        updates=20,
    ),
    "medium": Preset(
        "dtmt4",
        (
            *(*_SHARED, *_PAPERS_RATES),
            *("model.embedding_dim=512", "model.units=512", "data.source_vocab_size=16000"),
        ),
        updates=8,
    ),
    "paper": Preset(  # 4,096 tokens an update, in two parts
        "dtmt4",
        (
            *(*_SHARED, *_PAPERS_RATES),
            *("data.source_vocab_size=32000", "training.accumulation_steps=2"),
        ),
        updates=2,
    ),
}
SUBJECTS: dict[str, timing.Subject] = {
    "train": updates.Updates,
    "decode": translations.Translations,
    "input": updates.Reading,
}
TENSORFLOWS_OWN = (0, 0)  # threads


def command() -> int:
    """Measures, prints tables, writes a record."""
    args = parse(sys.argv[1:])
    if args.table:
        record = _growth(args)
    elif args.action == "export":
        record = _export(args)
    else:
        record = _windows(args)
    record = _rounded({**record, "windows": args.windows, **_machine()})
    print(speed.section([record]))
    if args.json:
        from dtmt_tf.files import write_json

        write_json(args.json, record)
        print(f"\nRecord: {args.json}")
    return 0


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parses a command line, and puts the preset's settings before those of `--set`.

    Raises:
        UserError: If options do not go together.
    """
    args = _parser().parse_args(arguments)
    lines.check_outputs((), {"--json": args.json})
    preset = PRESETS[args.preset]
    if args.model and (args.run or args.table):
        raise UserError("--model goes neither with --run, which has a model, nor with --table.")
    if args.model and args.form == "plain":
        raise UserError("--form plain is of DTMT alone, and does not go with --model.")
    args.name = _name(args)
    args.updates = preset.updates if args.updates is None else args.updates
    search = [f"decoding.beam_size={args.beam}", f"decoding.batch_size={args.batch_size}"]
    settings = [text for text in preset.settings if not (args.model and text.startswith("model."))]
    args.set = [*(() if args.run else settings), *search, *args.set]
    args.model = args.model or preset.model
    if args.table and (args.action != "train" or args.compare):
        raise UserError("--table goes with train, and not with --compare.")
    if args.compare and args.action == "export":
        raise UserError("--compare does not go with export.")
    if args.devices and args.action != "train":
        raise UserError("--devices goes with train.")
    if args.run and args.action in ("train", "input"):
        raise UserError("--run goes with decode and export.")
    if args.saved_model and not args.run:
        raise UserError("--saved-model needs --run, the run whose newest export is measured.")
    if args.memory and args.action in ("train", "input"):
        raise UserError("--memory goes with decode and export.")
    if args.profile and (args.action == "export" or args.table):
        raise UserError("--profile goes with train, decode and input, and not with --table.")
    if args.form == "plain" and args.action != "train":
        raise UserError("--form plain goes with train.")
    if args.copies > 1 and args.action != "input":
        raise UserError("--copies goes with input.")
    exported = [text for text in args.set if text.startswith("export.")]
    if exported and args.action == "decode":
        raise UserError(
            f"--set {exported[0]} changes exports alone. Export so, then --saved-model."
        )
    if args.pairs and (args.action != "input" or args.copies > 1):
        raise UserError("--pairs goes with input, and not with --copies.")
    if args.windows < 1 or args.updates < 1 or args.copies < 1 or args.pairs < 0:
        raise UserError("--windows, --updates, --copies and --pairs should be at least 1.")
    return args


def _words(text: str) -> list[str]:
    """Returns what a shell would make of a text."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UserError(f"--compare {text}: {error}.") from error


def _parser() -> Parser:
    parser = Parser(
        "python pipelines/benchmark.py",
        "Measure how fast this machine trains, translates, reads and exports.\n"
        "  train   target words (sub-words with <eos>, no padding) a second; GFLOP/s\n"
        "          of the arithmetic that the model needs, beside the rate of matrix\n"
        "          products; peak memory; where the time goes; the start\n"
        "  decode  sentences and sub-words a second; seconds for one sentence alone;\n"
        "          BLEU of a trained run\n"
        "  input   target words a second that the input pipeline alone makes ready;\n"
        "          what its records take to make; peak memory of both\n"
        "  export  seconds and megabytes of an export; its start in a new process",
        "python pipelines/benchmark.py train --data-dir ~/data",
        "python pipelines/benchmark.py train --compare='--form plain --threads 0 0'",
        "python pipelines/benchmark.py train --preset paper --windows 3",
        "python pipelines/benchmark.py train --model rnn_bideep2x2 --set model.units=256",
        "python pipelines/benchmark.py train --table --json growth.json",
        "python pipelines/benchmark.py input --pairs 5000000 --windows 2",
        "python pipelines/benchmark.py decode --run saved_models/multi30k_ende/a",
    )
    parser.add_argument("action", choices=[*SUBJECTS, "export"], help="what is measured")
    what = parser.add_argument_group("configuration")
    what.add_argument("--preset", default="small", choices=PRESETS,
                      help="model and batches; small: 256 units; small+: with dropout; medium: "
                      "512 units; paper: 1,024 units (default: %(default)s)")  # fmt: skip
    what.add_argument("--model", metavar="NAME",
                      help="a preset of train.py in place of the configuration's model, in its "
                      "own sizes")  # fmt: skip
    options.add_set(what)
    what.add_argument("--form", default="fast", choices=("fast", "plain"),
                      help="plain: keras.layers.RNN calls each cell step by step")  # fmt: skip
    what.add_argument("--threads", type=int, nargs=2, metavar=("BETWEEN", "WITHIN"),
                      help="threads between operations, and within one; 0: TensorFlow's choice "
                      "(default: those of training)")  # fmt: skip
    what.add_argument("--devices", action="store", nargs="+", default=[], metavar="DEVICE",
                      help="devices of train; CPU:0 CPU:1 gives each half of the cores and a "
                      "batch of data.max_tokens_per_batch")  # fmt: skip
    what.add_argument("--env", nargs="+", default=[], metavar="NAME=VALUE",
                      help="environment of the measured process")  # fmt: skip
    what.add_argument("--compare", type=_words, metavar="OPTIONS",
                      help="also measure with these options added, in turn")  # fmt: skip
    how = parser.add_argument_group("measurement")
    how.add_argument(
        "--windows",
        type=int,
        default=5,
        metavar="N",
        help="stretches that are timed, one after the other (default: %(default)s)",
    )
    how.add_argument(
        "--updates",
        type=int,
        metavar="N",
        help="updates in a window of train (default: the preset's)",
    )
    how.add_argument("--table", action="store_true", help="train: cost by depth and length instead")
    how.add_argument("--profile", type=Path, metavar="DIR", help="write a TensorBoard profile")
    how.add_argument("--json", type=Path, metavar="FILE",
                     help="write a result; documents.py reads those in "
                     "pipelines/results/benchmark-*.json")  # fmt: skip
    decode = parser.add_argument_group("decode and export")
    decode.add_argument("--run", type=Path, metavar="DIR",
                        help="a trained run (default: fresh weights of the preset)")  # fmt: skip
    decode.add_argument("--saved-model", action="store_true",
                        help="translate through the run's newest export")  # fmt: skip
    decode.add_argument("--beam", type=int, default=5, help="1 is greedy (default: %(default)s)")
    decode.add_argument(
        "--batch-size", type=int, default=64, help="sentences at once (default: %(default)s)"
    )
    decode.add_argument("--memory", action="store_true",
                        help="also translate more lines, to see whether memory grows")  # fmt: skip
    reading = parser.add_argument_group("input")
    reading.add_argument(
        "--copies", type=int, default=1, help="copies of the corpus, one after another"
    )
    reading.add_argument("--pairs", type=int, default=0,
                         help="this many pairs of made-up text instead; also tells how long "
                         "cutting them into sub-words takes")  # fmt: skip
    options.add_folders(parser.add_argument_group("where"))
    parser.set_defaults(task="multi30k_ende")
    return parser


def _name(args: argparse.Namespace) -> str:
    """Returns the name of a configuration in tables, made of its options."""
    name = "/".join(args.run.resolve().parts[-2:]) if args.run else args.preset
    name += f" with {args.model}" if args.model else ""
    options = [*args.set, *(Path(value).name for value in args.env)]
    options += ["plain form"] * (args.form == "plain")
    if args.threads:
        options.append("threads {} {}".format(*args.threads))
    if args.devices:
        options.append("devices " + " ".join(args.devices))
    if args.action == "decode":
        options += [f"beam {args.beam}", f"batches of {args.batch_size}"]
        options += ["SavedModel"] * args.saved_model
    if args.copies > 1:
        options.append(f"corpus {args.copies} times")
    if args.pairs:
        options.append("made up text")
    return ", ".join([name, *options])


def _windows(args: argparse.Namespace) -> dict[str, Any]:
    """Measures one configuration, or two in turn."""
    configurations = [args]
    if args.compare:
        other = parse([*sys.argv[1:], *args.compare])
        configurations.append(other)
    with contextlib.ExitStack() as stack:
        subjects: dict[str, timing.Elsewhere] = {}

        def add(name: str, subject: timing.Subject, options: argparse.Namespace) -> None:
            subjects[name] = timing.Elsewhere(subject, options)
            stack.callback(subjects[name].close)

        for k, options in enumerate(configurations):
            add(str(k), SUBJECTS[args.action], options)
        if args.action == "train":
            changed = {"threads": TENSORFLOWS_OWN, "devices": (), "measured": configurations}
            plain = argparse.Namespace(**{**vars(args), **changed})
            add("products", products.Products, plain)
        found = timing.in_turn(subjects, args.windows)
        rates = [
            [window["amount"] / window["seconds"] for window in found[str(k)]]
            for k in range(len(configurations))
        ]
        described = [
            {"name": options.name, "rate": timing.spread(rates[k])}
            | subjects[str(k)].ask("details")
            for k, options in enumerate(configurations)
        ]
        for k in range(len(configurations) if args.profile else 0):
            subjects[str(k)].ask("profile", str(args.profile / str(k)))
    record: dict[str, Any] = {
        "benchmark": args.action,
        "name": args.name,
        "configurations": described,
    }
    if windows := found.get("products"):
        record["products"] = {
            shape: timing.spread([window[shape] for window in windows]) for shape in windows[0]
        }
    if args.compare:
        record["ratio"] = timing.spread([b / a for a, b in zip(*rates, strict=True)])
    return record


def _growth(args: argparse.Namespace) -> dict[str, Any]:
    """Measures the cost of updates by depth and length."""
    subject = timing.Elsewhere(growth.Growth, args)
    with contextlib.closing(subject):
        table = growth.table(timing.in_turn({"": subject}, args.windows)[""])
    return {"benchmark": "growth", "name": args.name, "configurations": [], "table": table}


def _export(args: argparse.Namespace) -> dict[str, Any]:
    """Exports once, and loads the export in a new process."""
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        to = argparse.Namespace(**vars(args), folder=Path(folder))
        with contextlib.closing(timing.Elsewhere(translations.Exporting, to)) as exporting:
            found = exporting.ask("export")
        where = {name: found.pop(name) for name in ("version", "line")}
        loading = timing.Elsewhere(
            translations.Loading, argparse.Namespace(**{**vars(args), **where})
        )
        with contextlib.closing(loading):
            found |= loading.ask("details")
    return {
        "benchmark": "export",
        "name": args.name,
        "configurations": [{"name": args.name, **found}],
    }


def _machine() -> dict[str, Any]:
    startup.start_tensorflow()
    from dtmt_tf.machine import machine

    versions = {name: metadata.version(name) for name in ("tensorflow", "keras")}
    return {
        "machine": machine(),
        "versions": {"python": platform.python_version(), **versions},
        "commit": _commit(),
    }


def _commit() -> str:
    """Returns the commit of this checkout, with + if its files were changed; "" without git."""
    found = []
    for command in ("rev-parse --short HEAD", "status --porcelain --untracked-files=no"):
        try:
            found.append(subprocess.check_output(
                ["git", *command.split()], cwd=Path(__file__).parent, text=True,
                stderr=subprocess.DEVNULL,
            ).strip())  # fmt: skip
        except (OSError, subprocess.CalledProcessError):
            return ""
    return found[0] + "+" * bool(found[1])


def _rounded(value: Any) -> Any:
    """Returns a record with its numbers in 5 digits."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(each) for each in value]
    return value
