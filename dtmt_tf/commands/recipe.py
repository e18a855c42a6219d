"""What commands of several stages share: their options, and the commands of their stages."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import Path

from dtmt_tf import caller, startup
from dtmt_tf.commands import common, options, own_text
from dtmt_tf.commands.parser import Parser
from dtmt_tf.commands.stages import RECIPE, Stage, Stages
from dtmt_tf.config import DataConfig
from dtmt_tf.errors import DAMAGED, UserError
from dtmt_tf.files import check_name
from dtmt_tf.languages import are_different
from dtmt_tf.refusals import SKIP
from dtmt_tf.settings import is_built_in

Pair = tuple[Path, Path]  # source and target files


def recipe_parser(command: str, description: str, named: str, *examples: str) -> Parser:
    """Returns a parser with the options of a training, and those of a recipe.

    Args:
        command: How the command is called.
        description: What it does.
        named: Name of the run, unless another is given.
        examples: Command lines.
    """
    parser = options.run_parser(command, description, *examples, named=named)
    own_text.add_own_text(parser)
    options.add_config(parser)
    options.add_set(parser, "change settings of all trainings")
    parser.add_argument(
        "--plan", action="store_true", help="print the stages and their commands, and stop"
    )
    return parser


class Recipe:
    """The trainings of a recipe, and the text that they share, as stages.

    Args:
        args: What a parser of `recipe_parser` found.

    Attributes:
        task: Name of the task.
        folder: Of the run that comes out.
        data: The settings of the corpus.
        references: Files of the training text, which `text` writes.

    Raises:
        UserError: If settings or names are none, or several machines are to work together.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._is_own = own_text.is_named(args)
        if startup.is_multiworker("auto"):
            raise UserError(
                f"The stages run on one machine. Unset {startup.CLUSTER_VARIABLE}, or give the "
                "commands that --plan lists one by one."
            )
        common.data_dir(args)  # it is there, if it is named
        self.task = common.task_and_model(args)[0].name
        self.folder = common.run_folder(args)
        data, held_out_origin = self._data(args)
        self.data = data
        of_task = data.corpus != "files"
        kept_back = data.held_out or (self._is_own and is_built_in(held_out_origin))
        has = {
            "train": True,
            "validation": of_task or data.validation_source or kept_back,
            "test": of_task or data.test_source,
        }
        self._splits = [split for split, there in has.items() if there]
        self.references = self._pair("train")

    @property
    def places(self) -> list[str]:
        """Options that say where runs and data lie, unless that is where they are looked for."""
        args, words = self._args, []
        if args.output_dir != caller.runs_folder():
            words += ["--output-dir", str(args.output_dir)]
        if args.data_dir and str(args.data_dir) != os.environ.get(common.DATA_DIR_VARIABLE):
            words += ["--data-dir", str(args.data_dir)]
        return words

    def name(self, what: str = "") -> str:
        """Returns the name of the run that comes out, or of another that is needed for it."""
        return common.plain_name(f"{self.folder.name}-{what}" if what else self.folder.name)

    def run(self, name: str) -> Path:
        """Returns the folder of a run by its name."""
        return self.folder.parent / name

    def file(self, name: str) -> Path:
        """Returns the place of a text."""
        return self.folder / RECIPE / name

    def text(self) -> Stage:
        """Returns the stage that writes the corpus as files: what is read, and what is held out."""
        folder = self.references[0].parent
        words = ("prepare", *self._words(self._args), "--text", str(folder))
        reads = (*self._own_files(), *([self._args.config.path] if self._args.config else []))
        needed = tuple(
            (
                self._pair(split)[1],
                f"there are no {split} pairs. Name files of some: {self._option(split)}.",
            )
            for split in self._splits
        )
        return Stage("the text, as files", words, self.references[1], reads=reads, needed=needed)

    def training(
        self,
        title: str,
        name: str,
        settings: Sequence[str] = (),
        files: Sequence[Pair] = (),
        model: str | None = None,
    ) -> Stage:
        """Returns the stage that trains a run, scores and exports it.

        Args:
            title: What the run is.
            name: Its name.
            settings: What `--set` says besides, and after, what it says of all trainings.
            files: What is read in place of the corpus. It is validated and tested on the same text.
            model: The preset, if it is not that of all.

        Raises:
            UserError: If there is no such setting or preset.
        """
        args = argparse.Namespace(**vars(self._args))
        args.model = model or args.model
        if files:
            self._read_files(args, files)
        args.set = [*args.set, *settings]
        self._data(args)  # mistakes are told before the first stage
        words = ("train", "--name", name, *self._words(args))
        return Stage(title, words, self.run(name) / "train" / "report.html")

    def trained(self, option: str, named: str, back: bool = False) -> list[str]:
        """Returns the options that name a trained model which a recipe is given.

        Args:
            option: What gives it, such as `--teacher`.
            named: What it was given.
            back: Whether the model is to translate from target to source.

        Raises:
            UserError: If there is no such model, or it says that it translates other languages.
        """
        from dtmt_tf.translator.places import find_model

        args = argparse.Namespace(**{**vars(self._args), "task": self.task, "config": None})
        try:
            # as the stage that translates finds it
            folder = find_model(common.named_model(named, args, elsewhere=False))
        except UserError as error:
            raise UserError(f"{option}: {error}") from None
        data = self.data
        wanted = data.source_language, data.target_language
        wanted = wanted[::-1] if back else wanted
        found = _languages(folder)
        if are_different(found, wanted):
            raise UserError(
                f"{option}: {folder} translates {' to '.join(found)}, and a model of "
                f"{' to '.join(wanted)} is needed."
            )
        return ["--model", named]

    def translation(self, title: str, model: Sequence[str], text: Path, output: Path) -> Stage:
        """Returns the stage that translates a file; lines beyond the model's limits stay empty.

        Args:
            title: What for.
            model: Options that name the exported model, and how it translates.
            text: The file.
            output: Where the translations go.
        """
        words = ("translate", "--task", self.task, *model, "-o", str(output), str(text))
        reads = () if text.parent == self.references[0].parent else (text,)
        return Stage(title, words, output, (SKIP,), reads)

    def _own_files(self) -> list[Path]:
        """Returns the files of the corpus that are the user's own, as far as they are there."""
        from dtmt_tf.data.own_files import own_texts

        task = common.task_and_model(self._args)[0]
        places = common.places(self._args)
        return [path for _, _, path in own_texts(self.data, task, *places)]

    def _read_files(self, args: argparse.Namespace, files: Sequence[Pair]) -> None:
        """Has arguments name files in place of the corpus.

        Raises:
            UserError: If a path can not be written in a setting.
        """
        texts = {split: [self._pair(split)] for split in self._splits} | {"train": files}
        if self.data.reverse:  # which exchanges the sides once more
            texts = {split: [pair[::-1] for pair in pairs] for split, pairs in texts.items()}
        paths = [str(path) for pairs in texts.values() for pair in pairs for path in pair]
        for path in paths:
            check_name(path)
            if "," in path and not self._is_own:
                raise UserError(
                    f"{path} has a comma, which divides the files of data.train_source. Rename it, "
                    "or choose another --output-dir or --name."
                )
        if self._is_own:
            for option, split in own_text.SPLITS.items():
                setattr(args, option, [[*map(str, pair)] for pair in texts.get(split, ())])
            return
        named = [
            f"data.{split}_{side}={','.join(map(str, paths))}"
            for split, pairs in texts.items()
            for side, paths in zip(("source", "target"), zip(*pairs, strict=True), strict=True)
        ]
        args.set = [*args.set, "data.corpus=files", "data.held_out=0", *named]

    def _option(self, split: str) -> str:
        """Returns the option that names files of a split."""
        if self._is_own:
            option = next(option for option, named in own_text.SPLITS.items() if named == split)
            return f"--{option} SOURCE TARGET"
        return f"--set data.{split}_source=SOURCE data.{split}_target=TARGET"

    def _pair(self, split: str) -> Pair:
        """Returns the files of a split as `text` writes them."""
        return self.file(f"text/{split}.source"), self.file(f"text/{split}.target")

    def _data(self, args: argparse.Namespace) -> tuple[DataConfig, str]:
        """Returns the settings of data, and the origin of `data.held_out`."""
        experiment, origins = (own_text.unsized if self._is_own else common.experiment)(args)
        return experiment.data, origins["data.held_out"]

    def _words(self, args: argparse.Namespace) -> list[str]:
        """Returns the options of a training but for its name and place, as they would be typed."""
        words = own_text.as_words(args) if self._is_own else ["--task", self.task]
        words += ["--model", args.model] if args.model else []
        words += ["--config", str(args.config.path)] if args.config else []
        return [*words, *(["--set", *args.set] if args.set else [])]


def _languages(folder: Path) -> tuple[str, str]:
    """Returns source and target language of an exported version, "" if it does not say."""
    try:
        data = json.loads((folder / "experiment.json").read_text("utf-8"))["settings"]["data"]
        return str(data["source_language"]), str(data["target_language"])
    except (OSError, *DAMAGED):  # of another program
        return "", ""


def follow(recipe: Recipe, stages: Sequence[Stage], plan: bool) -> int:
    """Runs the stages of a recipe, or prints them; returns the exit code."""
    found = Stages(stages, recipe.folder, recipe.places)
    if plan:
        print(found.listed())
        return 0
    return found.run()
