"""What to tell where a run was looked for and is not."""

from __future__ import annotations

from pathlib import Path

from dtmt_tf.errors import UserError, listed


def no_run(folder: Path) -> UserError:
    """Returns the error for a folder that holds no run, with the runs that are near it."""
    if (folder / "saved_model.pb").exists():
        return UserError(f"{folder} is a version. Name the folder that holds it: {folder.parent}")
    return UserError(
        f"{folder} holds no run. To make it, run dtmt train with its --task and --name."
        + listed(str(folder), map(str, _runs_near(folder)))
    )


def _runs_near(folder: Path) -> list[Path]:
    """Returns the runs beside a folder; if there are none, those of other tasks beside its own."""
    for above, pattern in ((folder.parent, "*"), (folder.parent.parent, "*/*")):
        if found := [path.parents[1] for path in above.glob(f"{pattern}/train/experiment.json")]:
            return found
    return []
