"""What a run was before `--restart`: set aside until the new training has begun, else put back."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from dtmt_tf import folders
from dtmt_tf.errors import UserError
from dtmt_tf.text import Vocabulary
from dtmt_tf.training.checkpoint import DAMAGED_ENDING

if TYPE_CHECKING:
    from dtmt_tf.runs.run import Run

logger = logging.getLogger(__name__)

ASIDE = ".former"
CHECKPOINTS = f"checkpoints/step-{'[0-9]' * 8}.npz"
TEMPORARY = f"*.{'[0-9a-f]' * 16}.partial"  # what `files` writes before it has its name
OF_LINES = ("", ".partial", ".partial.json", ".partial.old", ".partial.old[0-9]*")  # of a text
EVENTS = "events.out.tfevents.*"
KNOWN = (  # what a run makes in its folder `train`; translations of splits besides
    *("experiment.json", "samples.json", "subwords.json", "scores.json", *Vocabulary.FILES),
    *(CHECKPOINTS, f"{CHECKPOINTS}{DAMAGED_ENDING}", f"checkpoints/{TEMPORARY}", TEMPORARY),
    *(EVENTS, f"tensorboard/{EVENTS}", "trackers.json", "bad-step-*.json"),
    *("report.html", "curve.png", "metrics.csv"),  # see `commands.report`
)


def set_aside(run: Run) -> None:
    """Sets a run's checkpoints, sub-words, scores and events aside. The run is claimed.

    Raises:
        UserError: If the folder is not marked as this program's, or what would move is a link.
    """
    for path in (run.work, run.checkpoints.folder):
        if path.is_symlink():
            raise UserError(
                f"{path} is a link to {path.resolve()}, where --restart would leave what it "
                "forgets. Remove both yourself, or train under another --name."
            )
    settle(run)
    if not run.work.exists():
        return
    folders.check_marked(run.folder)
    steps = run.checkpoints.steps()
    if any(steps):
        exported = any(run.folder.glob("[0-9]*/saved_model.pb"))
        kept = " What is exported stays, and translates until this run exports." * exported
        logger.info("Starting over: %s updates are forgotten.%s", f"{steps[-1]:,}", kept)
    for path in run.folder.glob(EVENTS):
        path.rename(run.work / path.name)
    run.work.rename(run.folder / ASIDE)  # then it is all there


def settle(run: Run) -> None:
    """Forgets what was set aside if the run has a checkpoint again, else puts it back.

    A process that is killed may leave it as it is: to settle again does the same.
    """
    if (run.folder / ASIDE).exists():
        if run.checkpoints.steps():
            forget(run)
        else:
            _put_back(run)
    for path in run.work.glob(EVENTS):  # on their way to or from what was set aside
        path.rename(run.folder / path.name)


def forget(run: Run) -> None:
    """Removes what was set aside. Files of others stay in the run, and are told of."""
    aside = run.folder / ASIDE
    if not aside.exists():
        return
    if others := _clear(run, aside, run.work):
        logger.warning("Kept files of other programs: %s", ", ".join(map(str, others)))


def _put_back(run: Run) -> None:
    """Puts back what was set aside, in place of what a training that did not begin has made."""
    aside = run.folder / ASIDE
    _clear(run, run.work, aside)
    for path in run.folder.glob(EVENTS):
        path.unlink()
    aside.rename(run.work)
    if any(run.checkpoints.steps()):
        logger.info("The run is again as it was before --restart.")


def _clear(run: Run, place: Path, other: Path) -> list[Path]:
    """Removes a folder of a run; files that this program does not know move into another one.

    Returns:
        Where these are then.
    """
    scored = [f"{split}.txt{end}" for split in _splits_scored(run, place) for end in OF_LINES]
    stay = folders.clean(run.folder, [f"{place.name}/{name}" for name in (*KNOWN, *scored)])
    moved = []
    for path in stay:
        if place in path.parents:
            moved.append(other / path.relative_to(place))
            moved[-1].parent.mkdir(parents=True, exist_ok=True)
            path.rename(moved[-1])
    shutil.rmtree(place, ignore_errors=True)
    return moved


def _splits_scored(run: Run, place: Path) -> set[str]:
    """Returns the splits whose translations may lie in a folder."""
    try:
        scored = run.read("scores.json", place)
    except UserError:  # damaged
        scored = {}
    return {"train", "validation", *run.corpus.sizes, *scored}
