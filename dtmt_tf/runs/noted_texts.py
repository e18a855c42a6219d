"""The user's own files that a run began with: their hashes, noted and compared."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from dtmt_tf.data.own_files import holds_out, known_texts, own_texts

if TYPE_CHECKING:
    from dtmt_tf.runs.run import Run

NOTED = "texts"  # what `experiment.json` calls them

logger = logging.getLogger(__name__)


def hashes(run: Run, split: str = "") -> dict[str, str]:
    """Returns the SHA-256 of the files that the settings name, or of one split's, by name."""
    known = known_texts(run.cache_dir)
    files = own_texts(run.experiment.data, run.task, run.data_dir, run.cache_dir)
    return {name: known(path).sha256 for each, name, path in files if split in ("", each)}


def noted(run: Run) -> dict[str, str]:
    """Returns the hashes to note: of a run that has begun those of then, as far as it has them."""
    now = hashes(run)
    then = run.former_settings().get(NOTED, {}) if run.checkpoints.steps() else {}
    return {name: then.get(name, now[name]) for name in now}


def warn_of_others(run: Run, split: str) -> None:
    """Warns if files of a split are not those that the run, or a member, began with.

    Names of files are relative to the present folder, where others may have them.
    """
    then: dict[str, str] = {}
    for each in run.members or [run]:
        then |= each.former_settings().get(NOTED, {})
    of = "train" if split == "validation" and holds_out(run.experiment.data) else split
    now = hashes(run, of)
    for name in now:
        if then.get(name, now[name]) != now[name]:
            logger.warning(
                "%s holds another text than when the run began. If you did not change it, run this "
                "again in the folder where the run was trained.",
                name,
            )
