"""A paper as data: its systems as settings, and its tables of these systems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dtmt_tf.errors import UserError

Settings = tuple[str, ...]  # `--set` texts


@dataclass(frozen=True)
class Row:
    """One system.

    Args:
        settings: Its own, on top of its family's.
        family: Which of the paper's families it is made of; by default its first.
        model: The preset that it is, in place of its family's; the family gives its sizes.
        time_of: Key of the row whose minutes it may spend, if its updates follow from that.
        speed_of: Key of the row that tells how long one of its updates takes.
        weights_of: Key of the row whose trained weights it decodes with, if it has none of its own.
        together: How many trainings of that row predict together: seeds 1 to 8 as seed 1, 9 to 16
            as seed 9, if there are 8.
    """

    settings: Settings = ()
    family: str = ""
    model: str = ""
    time_of: str = ""
    speed_of: str = ""
    weights_of: str = ""
    together: int = 1


@dataclass(frozen=True)
class Table:
    """A table, or figure, of a paper.

    Args:
        title: What it shows.
        rows: Label and the paper's BLEU by row.
        pairs: Baseline and system of each comparison.
        cross_entropy: The paper's by row, where it prints that beside BLEU.
        contrast: Of a figure: the type of error whose accuracy it shows, see `dtmt contrast`.
        bounds: Of a figure by length: where one interval of source words ends and the next begins.
            Without, it shows sentences longer than 0, 10, 20, ... words.
        axis: Of a figure that shows the rows' BLEU: what their labels are. Without `contrast` and
            `axis`, a figure shows BLEU by length of sentences.
        lists_all: Whether rows without a result are shown, as not run.
        tasks: Those that it can be of, the usual one first, if that is not the paper's alone.
    """

    title: str
    rows: Mapping[str, tuple[str, float | None]]
    pairs: tuple[tuple[str, str], ...] = ()
    cross_entropy: Mapping[str, float] = field(default_factory=dict)
    contrast: str = ""
    axis: str = ""
    bounds: tuple[int, ...] = ()
    lists_all: bool = False
    tasks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Paper:
    """A paper whose tables are reproduced.

    A row is known by its key alone: one that stands in several of the tables is trained once.

    Args:
        name: Its name in commands and markers.
        title: Authors, year and name.
        task: What its rows are trained on unless another task is named.
        families: Model and settings by family and preset. Settings that all rows are to share are
            checked against the first family, which has all presets; others may lack some.
        rows: Systems by key.
        tables: Tables by number.
        figures: Figures by number.
        shared: What the rows train with by task, where the task recommends something else.
        recipes: Other settings to train all rows with, by name and task.
        prefix: How the names of its runs begin.
    """

    name: str
    title: str
    task: str
    families: Mapping[str, Mapping[str, tuple[str, Settings]]]
    rows: Mapping[str, Row]
    tables: Mapping[str, Table]
    figures: Mapping[str, Table] = field(default_factory=dict)
    shared: Mapping[str, Settings] = field(default_factory=dict)
    recipes: Mapping[str, Mapping[str, Settings]] = field(default_factory=dict)
    prefix: str = ""

    @property
    def page(self) -> str:
        """The page of the repository that holds its tables, such as DTMT.md."""
        return f"{self.name.upper()}.md"

    @property
    def family(self) -> str:
        """The first family."""
        return next(iter(self.families))

    @property
    def presets(self) -> tuple[str, ...]:
        """Sizes in which the rows can be trained."""
        return tuple(self.families[self.family])

    def by_task(self, names: Sequence[str], asked: str) -> dict[str, list[str]]:
        """Returns tables by what their rows are trained on.

        Args:
            names: Of the tables; those that are not there are of the first task.
            asked: The task that was asked for, or "".

        Raises:
            UserError: If one is not of the task that was asked for.
        """
        found: dict[str, list[str]] = {}
        for name in names:
            tasks = self.tables[name].tasks if name in self.tables else ()
            if asked and tasks and asked not in tasks:
                raise UserError(f"Table {name} is of {' or '.join(tasks)}, not {asked}.")
            found.setdefault(asked or (tasks or (self.task,))[0], []).append(name)
        return found or {asked or self.task: []}

    def trained_with(self, task: str, recipe: str = "") -> Settings:
        """Returns what all rows of a task train with, by a recipe or by what they share.

        Raises:
            UserError: If there is no such recipe of the task.
        """
        if not recipe:
            return self.shared.get(task, ())
        if settings := self.recipes.get(recipe, {}).get(task):
            return settings
        there = [f"{name} of {each}" for name, tasks in self.recipes.items() for each in tasks]
        known = ", ".join(there) or "none"
        raise UserError(f"{self.name} has no recipe {recipe!r} of {task}. There is {known}.")

    def keys(self, preset: str) -> list[str]:
        """Returns the rows that can be trained in a size."""
        of = {key: self.families[row.family or self.family] for key, row in self.rows.items()}
        return [key for key, presets in of.items() if preset in presets]

    def model(self, preset: str, row: str = "") -> tuple[str, Settings]:
        """Returns model and sizes of a row; without one, those of the first family."""
        of = self.rows[row] if row else Row()
        model, sizes = self.families[of.family or self.family][preset]
        return of.model or model, sizes
