"""What runs there are, and how far each has come."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from dtmt_tf import folders
from dtmt_tf.errors import UserError
from dtmt_tf.runs.run import Run
from dtmt_tf.translator import live_versions


@dataclass(frozen=True)
class RunSummary:
    """How far a run has come.

    Args:
        task: Its task.
        name: Its folder's name.
        state: `trained`; `stopped` before its end; `running`: a process has it; `ensemble`; `new`:
            no update is kept; `damaged`: see `problem`.
        model: Its preset; empty if the run is damaged.
        updates: That its newest checkpoint has; of an ensemble, those of all members.
        max_steps: Updates that it is to make.
        best_validation: BLEU of the best validation.
        test: BLEU of each split that was scored, whatever the updates.
        versions: Numbers of the exported versions, the newest last.
        problem: What can not be read.
    """

    task: str
    name: str
    state: str
    model: str = ""
    updates: int = 0
    max_steps: int = 0
    best_validation: float | None = None
    test: dict[str, float] = field(default_factory=dict)
    versions: list[int] = field(default_factory=list)
    problem: str = ""


def summaries(folder: Path, task: str = "*") -> Iterator[RunSummary]:
    """Yields the runs below a folder, `<folder>/<task>/<name>`, by task and name.

    Nothing is changed; runs may be in training meanwhile.

    Args:
        folder: Where runs lie.
        task: Whose runs; by default those of all.
    """
    found = {path.parents[1] for path in folder.glob(f"{task}/*/train/experiment.json")}
    for place in sorted(found):
        names = place.parent.name, place.name
        try:
            yield _summary(place)
        except (UserError, OSError) as error:
            if folders.holder(place):  # such as `--restart`, before its first update is kept
                yield RunSummary(*names, "running")
            else:
                yield RunSummary(*names, "damaged", problem=str(error))


def _summary(place: Path) -> RunSummary:
    run = Run.open(place, None, place)
    parts = run.members or [run]
    newest = [part.newest() for part in parts if any(part.checkpoints.steps())]
    history = newest[0].history if newest and not run.members else []
    if folders.holder(place):
        state = "running"
    elif run.members:
        state = "ensemble"
    elif not newest:
        state = "new"
    else:
        state = "trained" if run.finished(newest[0]) else "stopped"
    return RunSummary(
        *(place.parent.name, place.name, state, run.experiment.model_name),
        updates=sum(each.step for each in newest),
        max_steps=sum(part.experiment.training.max_steps for part in parts),
        best_validation=max((each["bleu"] for each in history if "bleu" in each), default=None),
        test={name: of["bleu"] for name, of in run.read("scores.json").items() if "bleu" in of},
        versions=[int(path.name) for path in live_versions(place)],
    )
