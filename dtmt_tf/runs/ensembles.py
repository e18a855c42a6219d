"""Runs that predict together."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from dtmt_tf.errors import UserError
from dtmt_tf.experiment import Experiment, read_settings, to_dict
from dtmt_tf.languages import are_different
from dtmt_tf.runs.former import forget, set_aside, settle
from dtmt_tf.runs.run import Run
from dtmt_tf.settings import differences
from dtmt_tf.text import Vocabulary

logger = logging.getLogger(__name__)


def unite(members: Sequence[Run], folder: Path) -> Run:
    """Makes a run, beside its members, that predicts with all of them together.

    Its settings are the first one's, but that it has no shortlist, and cuts text as the member
    that was trained on the shortest. Where members were scored by other settings, the log says so.
    Nothing is copied: it reads the members' folders.

    Args:
        members: Trained runs.
        folder: Of the new run.

    Raises:
        UserError: If the folder holds a run that was trained, a member is an ensemble itself or has
            not come to its end, or they differ in languages or sub-words.
    """
    _members_of(folder)
    first = members[0]
    experiment, origins = first.experiment, first.origins
    shortest = min(members, key=lambda member: member.experiment.data.max_length)
    if shortest.experiment.data.max_length < experiment.data.max_length:
        data = replace(experiment.data, max_length=shortest.experiment.data.max_length)
        experiment = replace(experiment, data=data)
        origins = {**origins, "data.max_length": f"that of {shortest.folder.name}"}
    if experiment.decoding.shortlist:
        logger.warning("decoding.shortlist is for single models: %s searches all words.", folder)
        experiment = replace(experiment, decoding=replace(experiment.decoding, shortlist=0))
        origins = {**origins, "decoding.shortlist": "an ensemble's"}
    united = Run(experiment, folder, first.data_dir, first.cache_dir, origins, members)
    united.check_place()
    places = [member.folder.resolve() for member in members]
    if twice := [place for place in places if places.count(place) > 1]:
        raise UserError(f"{twice[0]} is named twice. Members of an ensemble are different runs.")
    for member in members:
        if member.members:
            raise UserError(f"{member.folder} is an ensemble itself. Name its members instead.")
        member.check_finished()
        if are_different(member.languages, first.languages):
            raise UserError(
                f"{member.folder} translates {' to '.join(member.languages)}, {first.folder} "
                f"{' to '.join(first.languages)}. Unite runs of one direction."
            )
    check_subwords(members)
    for member in members[1:]:
        if others := _scored_otherwise(member, experiment):
            logger.warning("%s had other settings than %s, whose hold: %s.",
                           *(member.folder, first.folder, ", ".join(others)))  # fmt: skip
    united.corpus.sizes  # noqa: B018 - texts that are missing are told before anything is moved
    with united.claimed():
        settle(united)  # a trained run may be what a `--restart` that was killed set aside
        former = _members_of(folder)
        if former != united.member_paths:
            if former:
                logger.warning("%s was an ensemble of %s until now.", folder, ", ".join(former))
            set_aside(united)  # with the scores of other members that had the name
            forget(united)
        united.write_settings()
    return united


def _scored_otherwise(member: Run, united: Experiment) -> list[str]:
    """Returns how a member was searched, scored and tested where that is not as together."""
    changes = differences(to_dict(united), to_dict(member.experiment))
    kinds = "decoding.", "evaluation.", "data.test_", "data.extra_tests"
    same = "decoding.batch_size", "decoding.shortlist"  # which an ensemble has not
    names = [name for name in changes if name.startswith(kinds) and name not in same]
    return [f"{name} {changes[name]}" for name in names]


def _members_of(folder: Path) -> list[str]:
    """Returns the members of the ensemble in a folder, as it names them; none if there is none.

    Raises:
        UserError: If it holds a run that was trained.
    """
    path = folder / "train" / "experiment.json"
    record = read_settings(path) if path.exists() else {"members": []}
    if "members" not in record:
        raise UserError(f"{folder} holds a run that was trained. Choose another --name.")
    return list(record["members"])


def check_subwords(members: Sequence[Run]) -> None:
    """Raises a UserError if two members cut text into different sub-words."""
    first, *others = members
    for other in others:
        for name in Vocabulary.FILES:
            if (other.work / name).read_bytes() != (first.work / name).read_bytes():
                raise UserError(
                    f"{other.folder} has other sub-words than {first.folder} ({name}). Members "
                    "of an ensemble are trained on the same corpus, with the same data.*."
                )
