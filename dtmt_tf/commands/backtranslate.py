"""Translates text of the target language back, and trains a model on these pairs too."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dtmt_tf import startup
from dtmt_tf.commands import common, lines, options
from dtmt_tf.commands.parser import Parser
from dtmt_tf.commands.recipe import Recipe, follow, recipe_parser
from dtmt_tf.errors import UserError
from dtmt_tf.files import no_file

MOST_TIMES = 1000


def command(arguments: Sequence[str] | None = None) -> int:
    """Plans the stages, runs those that are not done."""
    parser = _parser()
    args = parser.parse_args(arguments)
    common.check_range(args, "upsample", 1, MOST_TIMES)
    if args.top_k is not None and not args.sample:
        parser.error("--top-k goes with --sample")
    lines.check_tag(args.tag)
    if "," in args.tag or args.tag.startswith("-"):
        raise UserError(
            "--tag should hold no comma, which divides data.reserved_symbols, and begin with no "
            f"dash. Received: {args.tag!r}."
        )
    for path in args.target_text:
        if not path.is_file():
            raise UserError(f"--target-text: {no_file(path) or f'{path} was not found.'}")
        _check_text(path)
    startup.start_tensorflow()
    if args.top_k is not None:
        from dtmt_tf.translator import Sampling

        Sampling(top_k=args.top_k)

    recipe = Recipe(args)
    stages = [recipe.text()]
    if args.reverse_model:
        reverse = recipe.trained("--reverse-model", args.reverse_model, back=True)
    else:
        name = recipe.name("reverse")
        turned = f"data.reverse={str(not recipe.data.reverse).lower()}"
        stages.append(recipe.training("the reverse model", name, [turned]))
        reverse = ["--name", name]
    reverse += ["--sample"] if args.sample else []
    reverse += ["--top-k", str(args.top_k)] if args.top_k is not None else []
    reverse += ["--tag", args.tag] if args.tag else []
    pairs = [recipe.references] * args.upsample
    for number, target in enumerate(args.target_text, 1):
        back = recipe.file(f"back{number}.txt")
        stages.append(recipe.translation(f"translate {target.name} back", reverse, target, back))
        pairs.append((back, target))
    symbols = dict.fromkeys([*recipe.data.reserved_symbols, *([args.tag] if args.tag else [])])
    filters = recipe.data.filters  # the text is filtered; here repetition is what is wanted
    if args.upsample > 1 and "duplicates" in filters:
        kept = ",".join(name for name in filters if name != "duplicates")
        args.forward_set = [f"data.filters={kept}", *args.forward_set]
    reserved = [f"data.reserved_symbols={','.join(symbols)}"] if args.tag else []
    stages.append(
        recipe.training("the forward model", recipe.name(), [*reserved, *args.forward_set], pairs)
    )
    return follow(recipe, stages, args.plan)


def _parser() -> Parser:
    parser = recipe_parser(
        "dtmt backtranslate",
        "Train a model on parallel text and on text of the target language alone "
        "(back-translation, Sennrich et al., 2016): train a model of the other direction, have it "
        "translate that text, and train on all pairs. The same command goes on with the stage that "
        "was stopped, however it ended.",
        "backtranslated",
        "dtmt backtranslate --task multi30k_ende --target-text a.de",
        "dtmt backtranslate --train a.en a.de --dev b.en b.de \\",
        "    --from en --to de --target-text more.de --sample",
        "dtmt backtranslate --task multi30k_ende --target-text more.de \\",
        "    --tag '<bt>' --reverse-model saved_models/multi30k_ende/de-en",
    )
    parser.add_argument(
        "--target-text",
        type=Path,
        nargs="+",
        required=True,
        metavar="FILE",
        help="sentences of the target language, one a line; plain, .gz or .xz",
    )
    parser.add_argument(
        "--reverse-model",
        metavar="MODEL",
        help="train none: this model translates back; a run's name, task/name, or the folder of a "
        "run or of an exported version",
    )
    parser.add_argument(
        "--sample",
        action="store_true",
        help="draw back-translations at random in place of the best (Edunov et al., 2018)",
    )
    parser.add_argument(
        "--top-k",
        type=int,
        metavar="K",
        help="with --sample: draw from the K most probable sub-words alone (default: all)",
    )
    parser.add_argument(
        "--tag",
        default="",
        metavar="TAG",
        help="begin back-translations with this, such as <bt>, so that the model tells them from "
        "other text (Caswell et al., 2019); a reserved symbol of its sub-words",
    )
    parser.add_argument(
        "--upsample",
        type=int,
        default=1,
        metavar="N",
        help="read the parallel text N times as often as the other (default: %(default)s)",
    )
    options.add_set(parser, "change settings of the forward model alone", "--forward-set")
    return parser


def _check_text(path: Path) -> None:
    """Reads a file through, before hours of training, as the stages will.

    Raises:
        UserError: If it is damaged or holds no text, or a line is too long, no UTF-8, or has a NUL
            character.
    """
    is_empty = True
    for number, line in enumerate(lines.Lines(path), 1):
        if "\0" in line:
            raise UserError(f"{path}:{number}: NUL character. Is this a text file?")
        is_empty = is_empty and not line.strip()
    if is_empty:
        raise UserError(f"--target-text: {path} holds no text.")
