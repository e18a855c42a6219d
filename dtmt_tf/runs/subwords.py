"""The sub-words of a run: made on first use, then tied to its checkpoints."""

from __future__ import annotations

import dataclasses
import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dtmt_tf.errors import DAMAGED, UserError
from dtmt_tf.experiment import to_dict
from dtmt_tf.files import write_json
from dtmt_tf.settings import is_built_in
from dtmt_tf.sizing import SIZED
from dtmt_tf.text import TooFewSubwords, Vocabulary
from dtmt_tf.training.changes import SIZES

if TYPE_CHECKING:
    from dtmt_tf.runs.run import Run

logger = logging.getLogger(__name__)

MADE_FROM = "subwords.json"


def subwords_of(run: Run) -> Vocabulary:
    """Returns a run's sub-words: trained on first use, and again if corpus or settings changed.

    Once there are checkpoints, the sub-words that belong to them are used whatever the corpus;
    training refuses to go on with another one.

    Raises:
        UserError: If those in the folder are not those that the checkpoints belong to.
    """
    if run.members:
        return run.members[0].vocabulary
    begins = not run.checkpoints.steps()
    if begins:
        _make(run)
    found = Vocabulary.load(run.work)
    former = run.former_settings()
    if begins or not former:  # damaged: it is written anew
        _note_sizes(run, found)
    elif "init_from" in former:  # by then the settings said how many sub-words the other run has
        sizes = {name: former["settings"]["data"][name] for name in SIZES}
        _set_sizes(run, sizes, former["origins"][f"data.{SIZES[0]}"])
    run.checkpoints.vocabulary = found.fingerprint
    noted = former.get("vocabulary", found.fingerprint)
    if run.checkpoints.steps() and noted != found.fingerprint:
        raise UserError(
            f"The sub-words in {run.work} ({', '.join(Vocabulary.FILES)}) are not those that the "
            "run was trained with. Put back its files, or start over with --restart."
        )
    return found


def note_subwords(run: Run) -> None:
    """Notes to which sub-words checkpoints belong, where an earlier version did not.

    Those that are there are accepted once; from then on no others are.
    """
    for each in run.members or [run]:
        settings = each.record()
        if settings and "vocabulary" not in settings:
            fingerprint = each.vocabulary.fingerprint
            logger.info(
                "%s is of an earlier version, which did not note its sub-words. Those in it are "
                "taken for its own, and noted.",
                each.folder,
            )
            with each.claimed():
                noted = {**settings, "vocabulary": fingerprint}
                write_json(each.work / "experiment.json", noted)


def made_from(work: Path) -> Any:
    """Returns what the sub-words in a folder were made from; nothing if that is not known."""
    try:
        return json.loads((work / MADE_FROM).read_bytes())
    except (FileNotFoundError, NotADirectoryError, *DAMAGED):
        return None


def _make(run: Run) -> None:
    """Makes the sub-words, unless they are there and made from the same."""
    origin: dict[str, Any]
    if run.init_from:
        run.init_from.newest()  # else they would be made, in its folder
        origin = {"taken_from": run.init_from.vocabulary.fingerprint}
    else:
        origin = {"text": run.corpus.fingerprint, **to_dict(run.experiment)["data"]}
    whole = all((run.work / name).exists() for name in Vocabulary.FILES)
    if whole and made_from(run.work) == origin:
        return
    (run.work / MADE_FROM).unlink(missing_ok=True)
    (run.init_from.vocabulary if run.init_from else _train(run)).save(run.work)
    write_json(run.work / MADE_FROM, origin)


def _train(run: Run) -> Vocabulary:
    """Trains sub-words. A size that the user did not set is the most that there may be."""
    logger.info("Training sub-words")
    data = run.experiment.data
    while True:
        sources = (source for source, _ in run.corpus.stream("train"))
        targets = (target for _, target in run.corpus.stream("train"))
        try:
            return Vocabulary.train(sources, targets, data)
        except TooFewSubwords as error:
            if not _is_sized(run, error.setting):
                raise
            largest: Any = {error.setting: error.most}
            data = dataclasses.replace(data, **largest)


def _note_sizes(run: Run, found: Vocabulary) -> None:
    """Lowers the sized vocabulary settings of a run to the sub-words that the text has.

    The changed settings make the same sub-words again. With `--init-from` the sizes are those of
    the other run.
    """
    sizes = dict(zip(SIZES, (found.source.size, found.target.size), strict=True))
    if run.init_from:
        _set_sizes(run, sizes, f"{SIZED}that of --init-from {run.init_from.folder.name}")
        return
    data = run.experiment.data
    fewer = {
        name: n for name, n in sizes.items() if _is_sized(run, name) and n < getattr(data, name)
    }
    if not fewer:
        return
    _set_sizes(run, fewer, f"{SIZED}all the sub-words that the text has")
    told = " and ".join(f"data.{name} is {size:,}" for name, size in fewer.items())
    logger.info("%s: the text has no more sub-words", told)


def _set_sizes(run: Run, sizes: dict[str, Any], reason: str) -> None:
    """Changes how many sub-words a run's settings say that there are; other settings stay."""
    data = run.experiment.data
    other = {name: size for name, size in sizes.items() if size != getattr(data, name)}
    for name, size in other.items():
        origin = run.origins.get(f"data.{name}", SIZED)
        if not (is_built_in(origin) or origin.startswith(SIZED)):
            logger.warning(
                "data.%s=%s changes nothing: the sub-words are those of --init-from, %s.",
                *(name, getattr(data, name), f"{size:,}"),
            )
    run.experiment = dataclasses.replace(run.experiment, data=dataclasses.replace(data, **other))
    run.origins = {**run.origins, **{f"data.{name}": reason for name in other}}


def _is_sized(run: Run, setting: str) -> bool:
    """Whether a setting of data was sized from the text."""
    return run.origins.get(f"data.{setting}", "").startswith(SIZED)
