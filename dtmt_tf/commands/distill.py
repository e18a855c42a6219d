"""Trains teachers, has them translate the training text, and trains a student on that."""

from __future__ import annotations

from collections.abc import Sequence

from dtmt_tf import startup
from dtmt_tf.commands import options
from dtmt_tf.commands.parser import Parser
from dtmt_tf.commands.recipe import Recipe, follow, recipe_parser
from dtmt_tf.commands.stages import Stage
from dtmt_tf.errors import UserError

SEEDS = (1, 2, 3)


def command(arguments: Sequence[str] | None = None) -> int:
    """Plans the stages, runs those that are not done."""
    parser = _parser()
    args = parser.parse_args(arguments)
    if args.seeds and args.teacher:
        parser.error("--seeds trains teachers, and --teacher names one: give one of them")
    seeds = args.seeds or SEEDS
    if len(set(seeds)) < len(seeds):
        raise UserError(f"--seeds should differ. Received: {' '.join(map(str, seeds))}.")
    startup.start_tensorflow()

    recipe = Recipe(args)
    stages = [recipe.text()]
    if args.teacher:
        teacher = recipe.trained("--teacher", args.teacher)
    else:
        names = [recipe.name(f"teacher{seed}") for seed in seeds]
        stages += [
            recipe.training(f"teacher {number} of {len(seeds)}", name, [f"training.seed={seed}"])
            for number, (name, seed) in enumerate(zip(names, seeds, strict=True), 1)
        ]
        teacher = ["--name", names[0]]
        if len(names) > 1:
            teacher = ["--name", recipe.name("teachers")]
            united = recipe.run(recipe.name("teachers"))
            which = ("--task", recipe.task, *teacher)
            stages += [
                Stage("unite them", ("ensemble", *which, *names), united / "train/experiment.json"),
                Stage("export them", ("export", *which), united),
            ]
    source, _ = recipe.references
    translations = recipe.file("translations.txt")
    stages.append(recipe.translation("translate the text", teacher, source, translations))
    read = (
        [(source, translations)]
        if args.without_references
        else [recipe.references, (source, translations)]
    )
    stages.append(
        recipe.training("the student", recipe.name(), args.student_set, read, args.student_model)
    )
    return follow(recipe, stages, args.plan)


def _parser() -> Parser:
    parser = recipe_parser(
        "dtmt distill",
        "Train one model to translate as several do together (sequence-level distillation, Kim and "
        "Rush, 2016): train teachers that differ in their seeds, unite them, have them translate "
        "the training text, and train a student on the references and on these translations. The "
        "same command goes on with the stage that was stopped, however it ended.",
        "distilled",
        "dtmt distill --task multi30k_ende --plan",
        "dtmt distill --task multi30k_ende --seeds 1 2 3 \\",
        "    --student-model dtmt_small",
        "dtmt distill --train a.en a.de --dev b.en b.de \\",
        "    --from en --to de --teacher saved_models/custom/big --name small",
    )
    parser.add_argument(
        "--seeds",
        type=int,
        nargs="+",
        metavar="N",
        help="train a teacher with each of these seeds (default: "
        f"{' '.join(map(str, SEEDS))}); a single one teaches alone",
    )
    parser.add_argument(
        "--teacher",
        metavar="MODEL",
        help="train none: this model teaches, an ensemble too; a run's name, task/name, or the "
        "folder of a run or of an exported version",
    )
    parser.add_argument(
        "--student-model",
        metavar="NAME",
        help="the student's preset (default: --model, or else the task's; with --train it is sized "
        "from the text that the student reads)",
    )
    options.add_set(parser, "change settings of the student alone", "--student-set")
    parser.add_argument(
        "--without-references",
        action="store_true",
        help="train the student on translations alone",
    )
    return parser
